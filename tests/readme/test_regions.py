"""The README's regions: rendered anew, everything around them untouched, drift found, errors readable."""

from pathlib import Path

import pytest

from reports import readme
from reports.tables.case import case_section
from reports.tables.summary import machine_blocks, summary
from reports.text.publishable import publishable
from tests import samples
from tests.conftest import Reports
from tests.helpers import as_markdown

CASE = "a40-resnet50-onnx-trt-fp16"
RECORDS = [samples.record(), samples.random_weights()]
SEEN = samples.seen(*RECORDS)

PAGE = f"""\
# A model   \t

Text above, with a `<!-- tritonproof:summary -->` in code.
<!-- tritonproof:machine -->
<!-- /tritonproof:machine -->
Between the regions: ümläut, trailing space \n
<!-- tritonproof:summary -->
what was here
<!-- /tritonproof:summary -->

```markdown
<!-- tritonproof:case of-an-example -->
```

<!-- tritonproof:case {CASE} -->
<!-- /tritonproof:case {CASE} -->
Text below, without an end of line"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with the records."""
    return samples.store(tmp_path / "results", *RECORDS)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A file whose regions are empty or stale."""
    file = tmp_path / "README.md"
    file.write_bytes(PAGE.encode())
    return file


def outside(text: str) -> list[str]:
    """What stands before, between and after the regions of the page."""
    rest, parts = text, []
    for name in ("machine", "summary", f"case {CASE}"):
        before, _, rest = rest.partition(f"\n<!-- tritonproof:{name} -->")
        parts.append(before)
        rest = rest.partition(f"<!-- /tritonproof:{name} -->")[2]
    return [*parts, rest]


def test_each_region_shows_what_its_marker_says() -> None:
    synced = readme.sync(PAGE, SEEN)
    for name, body in {
        "machine": as_markdown(machine_blocks(RECORDS)),
        "summary": as_markdown(summary(SEEN)),
        f"case {CASE}": as_markdown(case_section(publishable(RECORDS[0]))),
    }.items():
        assert f"\n<!-- tritonproof:{name} -->\n\n{body}\n\n<!-- /tritonproof:{name} -->" in synced
    assert "what was here" not in synced


def test_text_outside_of_the_markers_stays() -> None:
    assert outside(readme.sync(PAGE, SEEN)) == outside(PAGE)


def test_a_second_time_changes_nothing() -> None:
    synced = readme.sync(PAGE, SEEN)
    assert readme.sync(synced, SEEN) == synced
    assert readme.drifted(synced, SEEN) == []


def test_a_file_with_windows_line_ends_keeps_them() -> None:
    page = PAGE.replace("\n", "\r\n")
    synced = readme.sync(page, SEEN)
    assert outside(synced.replace("\r\n", "\n")) == outside(PAGE)
    assert synced.count("\n") == synced.count("\r\n")
    assert readme.sync(synced, SEEN) == synced


def test_drifted_regions_are_named() -> None:
    synced = readme.sync(PAGE, SEEN)
    assert readme.drifted(PAGE, SEEN) == ["machine", "summary", f"case {CASE}"]
    assert readme.drifted(synced.replace("3166.7", "3999.9"), SEEN) == [
        "summary",
        f"case {CASE}",
    ]
    assert readme.drifted(synced.replace("cores", "CORES"), SEEN) == ["machine"]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (
            "\n<!-- tritonproof:sumary -->\n<!-- /tritonproof:summary -->\n",
            r"^line 2: unknown marker .*sumary",
        ),
        (
            "<!-- tritonproof:case -->\n<!-- /tritonproof:case -->\n",
            r"^line 1: .* needs a case\. Write tritonproof:case CASE_ID",
        ),
        ("<!-- tritonproof:summary -->\ntext\n", r"^line 1: .* is not closed.*<!-- /tritonproof:summary -->"),
        ("<!-- tritonproof:summary -->\n<!-- tritonproof:machine -->\n", r"^line 1: .* is not closed"),
        (f"<!-- tritonproof:case {CASE} -->\n<!-- /tritonproof:case x -->\n", r"^line 1: .* is not closed"),
        ("\n\n<!-- /tritonproof:summary -->\n", r"^line 3: .* closes a region that is not open"),
        ("a <!-- tritonproof:summary --> b\n", r"^line 1: a marker needs a line of its own"),
        (
            "\n<!-- tritonproof:case a40-x-onnx-fp16 -->\n<!-- /tritonproof:case a40-x-onnx-fp16 -->\n",
            r"^line 2: there is no record of a40-x-onnx-fp16\. "
            r"Measure: .venv/bin/tox run -e benchmarks -- -k a40-x-onnx-fp16",
        ),
        (
            "# Nothing\n",
            rf"(?s)^no markers\. Paste .*<!-- tritonproof:summary -->.*<!-- /tritonproof:case {CASE} -->",
        ),
        ("```\n<!-- tritonproof:summary -->\n<!-- /tritonproof:summary -->\n```\n", r"^no markers"),
        ("````\n```\n<!-- tritonproof:summary -->\n<!-- /tritonproof:summary -->\n````\n", r"^no markers"),
    ],
)
def test_what_cannot_be_written_is_an_error_with_its_line(page: str, message: str) -> None:
    with pytest.raises(readme.ReadmeError, match=message):
        readme.sync(page, SEEN)


@pytest.mark.parametrize("name", ["summary", "machine"])
def test_without_records_there_is_nothing_to_show(name: str) -> None:
    with pytest.raises(readme.ReadmeError, match=r"^line 1: there are no records.*tox run -e benchmarks"):
        readme.sync(f"<!-- tritonproof:{name} -->\n<!-- /tritonproof:{name} -->\n", [])


def test_the_command_writes_the_file(sync_page: Reports, page: Path) -> None:
    status, output, errors = sync_page()
    assert (status, errors) == (0, "")
    assert output == f"{page}: wrote machine, summary, case {CASE}\n"
    assert page.read_bytes() == readme.sync(PAGE, SEEN).encode()
    assert sync_page("--check")[0] == 0


def test_a_file_in_step_is_not_written(sync_page: Reports, page: Path) -> None:
    sync_page()
    before = page.stat()
    assert sync_page()[:2] == (0, f"{page}: in step with the records\n")
    assert (page.stat().st_ino, page.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_check_shows_the_drift_and_writes_nothing(sync_page: Reports, page: Path) -> None:
    sync_page()
    page.write_text(page.read_text().replace("16 cores", "17 cores"))
    before = page.read_bytes()
    status, output, _ = sync_page("--check")
    assert status == 1
    assert f"{page}: differs from the records in machine\n" in output
    assert "\n-Measured on " in output
    assert "\n+Measured on " in output
    assert page.read_bytes() == before


@pytest.mark.parametrize("options", [[], ["--check"]], ids=["write", "check"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"# Nothing\n", "no markers"),
        (b"<!-- tritonproof:x -->\n", "line 1: unknown marker"),
        (b"<!-- tritonproof:case x -->\n<!-- /tritonproof:case x -->", "line 1: there is no record of x."),
    ],
    ids=["missing", "binary", "no-markers", "unknown", "no-record"],
)
def test_an_error_names_the_file_and_leaves_it_alone(
    content: bytes | None,
    message: str,
    options: list[str],
    sync_page: Reports,
    page: Path,
) -> None:
    page.unlink()
    if content is not None:
        page.write_bytes(content)
    status, output, errors = sync_page(*options)
    assert (status, output) == (4, "")
    assert errors.startswith(f"error: {page}: {message}")
    assert (page.read_bytes() if page.exists() else None) == content
