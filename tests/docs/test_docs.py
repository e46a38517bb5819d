"""Links, options, marks and environments in the documentation exist."""

import re
from pathlib import Path
from typing import get_args

import pytest

from fixtures.steps import STEPS
from tests.helpers import ROOT, environments, help_text
from tritonproof.formats import variant_name, variants_on
from tritonproof.record.speed import MARKS
from tritonproof.spec import Device

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"], ids=name)
def test_every_link_resolves(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_path_in_contributing_and_for_mutation_exists() -> None:
    text = "".join((ROOT / name).read_text() for name in ("CONTRIBUTING.md", "cosmic-ray.toml"))
    paths = re.findall(r"(?<![\w/.])(?:tests|fixtures|benchmarks|docs|tritonproof)/[\w/-]*(?:\.\w+)*", text)
    missing = {path for path in paths if not (ROOT / path).exists()} - {"tritonproof/suite/"}
    assert not missing


def test_every_documented_option_exists(capsys: pytest.CaptureFixture[str]) -> None:
    command = r"tox run -e benchmarks(?:-[a-z0-9-]+)? -- ((?:.*\\\n)*.*)"
    documented = {
        option
        for page in PAGES
        for arguments in re.findall(command, page.read_text())
        for option in re.findall(r"(?<!\S)(--[a-z][a-z-]*)", arguments.split("#")[0])
    }
    assert "--against" in documented
    assert documented <= set(re.findall(r"^ +(?:-h, )?(--[a-z-]+)", help_text(capsys), re.MULTILINE))


def test_readme_lists_all_pages() -> None:
    text = (ROOT / "README.md").read_text()
    for page in PAGES:
        assert page.name == "README.md" or f"]({name(page)})" in text


def test_every_mark_and_gate_is_documented() -> None:
    texts = ((ROOT / "docs" / page).read_text() for page in ("reading.md", "how-it-measures.md"))
    marks, gates = (re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", text, re.MULTILINE) for text in texts)
    assert dict(marks) == MARKS
    demanded = {step.name for step in STEPS.values() if step.demand}
    assert {gate for gate, _ in gates} == demanded, "the table in docs/how-it-measures.md lists each"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_documented_tox_environments_exist(page: Path) -> None:
    assert set(re.findall(r"tox run (?:-r )?-e ([a-z0-9-]+)", page.read_text())) <= environments()


def test_support_page_lists_formats_and_precisions() -> None:
    text = (ROOT / "docs" / "support.md").read_text()
    rows = re.findall(r"^\| `(.+)` \| .+ \| (.+) \| (.+) \|$", text, re.MULTILINE)
    listed = {
        (device, f"{name}-{precision.lower()}")
        for name, *cells in rows
        for device, cell in zip(("cpu", "cuda"), cells, strict=True)
        for precision in re.findall(r"\b[A-Z]+\d+\b", cell)
    }
    existing = {(device, variant_name(*each)) for device in get_args(Device) for each in variants_on(device)}
    assert listed == existing, "the table of docs/support.md lists each format and precision"
