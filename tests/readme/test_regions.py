"""The README's regions: rendered anew, everything around them untouched, drift found, errors readable."""

from pathlib import Path

import pytest

from reports import readme
from reports.__main__ import main
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


def test_a_stray_line_end_outside_of_the_markers_stays() -> None:
    page = "one\r\ntwo\rthree\x0cfour\u2028five\n<!-- tritonproof:machine -->\n<!-- /tritonproof:machine -->\nsix\r\n"
    synced = readme.sync(page, SEEN)
    assert synced.startswith(page.partition("<!--")[0])
    assert synced.endswith("<!-- /tritonproof:machine -->\nsix\r\n")


def test_drifted_regions_are_named() -> None:
    synced = readme.sync(PAGE, SEEN)
    assert readme.drifted(PAGE, SEEN) == ["machine", "summary", f"case {CASE}"]
    assert readme.drifted(synced.replace("3166.7", "3999.9"), SEEN) == [
        "summary",
        f"case {CASE}",
    ]
    assert readme.drifted(synced.replace("cores", "CORES"), SEEN) == ["machine"]


def test_other_records_are_drift() -> None:
    synced = readme.sync(PAGE, SEEN)
    assert "summary" in readme.drifted(
        synced, [publishable(samples.record(accuracy=samples.failed_accuracy())), publishable(RECORDS[1])]
    )


def test_a_long_difference_is_cut() -> None:
    lines = readme.difference(PAGE, readme.sync(PAGE, SEEN), limit=5).splitlines()
    assert len(lines) == 6
    assert lines[-1].startswith("... and ")


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


@pytest.mark.parametrize(
    "page",
    [
        "<!-- tritonproof:case {long} -->\n",
        "<!-- /tritonproof:case {long} -->\n",
        "a <!-- tritonproof:case {long} --> b\n",
        "<!-- tritonproof:{long} -->\n",
        "<!-- tritonproof:case {long} -->\n<!-- /tritonproof:case {long} -->\n",
    ],
)
def test_an_error_shows_no_more_of_a_long_line_than_tells_which_it_is(page: str) -> None:
    with pytest.raises(readme.ReadmeError, match=r"^line 1: ") as raised:
        readme.sync(page.format(long="[" * 6000), [publishable(one) for one in RECORDS])

    assert len(str(raised.value)) < 1500


@pytest.mark.parametrize("name", ["summary", "machine"])
def test_without_records_there_is_nothing_to_show(name: str) -> None:
    with pytest.raises(readme.ReadmeError, match=r"^line 1: there are no records.*tox run -e benchmarks"):
        readme.sync(f"<!-- tritonproof:{name} -->\n<!-- /tritonproof:{name} -->\n", [])


def test_the_pasted_example_works() -> None:
    assert readme.drifted(readme.EXAMPLE.format(case=CASE), SEEN) == [
        "machine",
        "summary",
        f"case {CASE}",
    ]


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


def test_writing_that_breaks_off_leaves_the_file_alone(
    sync_page: Reports, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(page))

    monkeypatch.setattr("os.fsync", full)
    status, _, said = sync_page()
    assert status == 4
    assert said.startswith(f"error: {page}: No space left on device")
    assert page.read_bytes() == PAGE.encode()
    assert sorted(path.name for path in page.parent.iterdir()) == ["README.md", "results"]


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


def test_a_broken_record_is_an_error(sync_page: Reports, results: Path) -> None:
    (results / "a40" / "broken.json").write_text("{")
    status, _, errors = sync_page("--check")
    assert status == 4
    assert errors.startswith(f"error: {results}/a40/broken.json: not JSON")


def test_the_file_is_the_readme_of_the_folder_one_stands_in(
    page: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(page.parent)
    assert main(["readme", "--results", str(results)]) == 0
    assert "3166.7" in page.read_text()
