"""Links, options, marks and environments in the documentation exist."""

import ast
import functools
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from reports.record.schema import MARKS
from tests.helpers import help_text, project_file

ROOT = Path(__file__).parents[2]
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


def test_every_mark_is_documented() -> None:
    text = (ROOT / "docs" / "reading.md").read_text()

    assert dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", text, re.MULTILINE)) == MARKS


def environments() -> set[str]:
    """The names of tox's environments, with all their factors."""
    sections = re.findall(
        r"^\[testenv:([a-z]+)(?:\{(.*)\})?\]$", (ROOT / "tox.ini").read_text(), re.MULTILINE
    )
    return {f"{name}{factors}" for name, ends in sections for factors in ends.split(",")}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_documented_tox_environments_exist(page: Path) -> None:
    documented = set(re.findall(r"tox run (?:-r )?-e ([a-z0-9-]+)", page.read_text()))

    assert documented <= environments()


@functools.cache
def own_messages() -> Sequence[tuple[str, str]]:
    """The texts in code that writes messages to users, each with its file."""
    return [
        (name(path), node.value)
        for folder in ("fixtures", "reports")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_tox_commands_use_the_installed_path_in_a_checkout_alone() -> None:
    """A fix that a user copies must not end in `tox: command not found`, and an installed suite has no tox."""
    jobs = re.compile(r"^```yaml\n.*?^```$", re.MULTILINE | re.DOTALL)
    texts = [*((name(page), jobs.sub("", page.read_text())) for page in PAGES), *own_messages()]

    assert not [where for where, text in texts if re.search(r"(?<![\w./-])tox (run|exec) ", text)]
    assert {where for where, text in own_messages() if ".venv/bin/tox" in text} == {
        "fixtures/doctor/__main__.py",
        "fixtures/fleet/cluster.py",
        "reports/record/commands.py",
    }


def test_image_of_a_fleet_has_its_packages() -> None:
    """Ray itself comes with the image, whose Python has what only older ones need."""
    (command,) = re.findall(r"^RUN pip install (.+)$", (ROOT / "docs" / "fleet.md").read_text(), re.MULTILINE)
    needed = [line for line in project_file()["dependency-groups"]["fleet"] if ";" not in line]

    assert sorted(shlex.split(command)) == sorted(line for line in needed if not line.startswith("ray["))
