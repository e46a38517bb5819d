"""Regions of a markdown file: rendered with pictures, drift found, errors with their line."""

import os
import re
import shutil
from pathlib import Path

import pytest
from msgspec import structs

from tests import sample_records
from tests.conftest import Reports
from tests.helpers import as_markdown
from tritonproof.base.errors import InputError
from tritonproof.reports import plots, readme
from tritonproof.reports.publishable import publishable
from tritonproof.reports.tables.case import case_section
from tritonproof.reports.tables.points import points_table
from tritonproof.reports.tables.summary import machine_blocks, summary

SWEPT = sample_records.swept()
CASE = SWEPT.name
RECORDS = [SWEPT, sample_records.random_weights()]
SEEN = sample_records.seen(*RECORDS)

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


def region(name: str) -> str:
    return f"# Mine\n\n<!-- tritonproof:{name} -->\n<!-- /tritonproof:{name} -->\n"


def body(name: str) -> str:
    """The text that `sync` writes into a region."""
    return readme.sync(region(name), SEEN).text.partition("-->\n\n")[2].partition("\n\n<!--")[0]


def outside(text: str) -> str:
    """The text without what is in the regions of the page."""
    return re.sub(r"(<!-- (tritonproof:.*) -->\n).*?(<!-- /\2 -->)", r"\1\3", text, flags=re.DOTALL)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with the records."""
    return sample_records.store(tmp_path / "results", *RECORDS)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with all kinds of regions, in its own folder."""
    file = tmp_path / "my docs" / "PAGE.md"
    file.parent.mkdir()
    file.write_text(f"{PAGE}\n{region(f'plot accuracy-ledger {CASE}')}{region('plot best-throughput')}")
    return file


@pytest.fixture
def sync_page(page: Path, results: Path, reports: Reports) -> Reports:
    """Run `python -m tritonproof report readme` on the test's `page` with the records in `results`."""
    return lambda *options: reports("readme", page, "--results", results, *options)


@pytest.fixture
def written(page: Path, sync_page: Reports) -> Path:
    """That page up to date with the records."""
    assert sync_page().status == 0
    return page


def linked(page: Path) -> list[Path]:
    """The files that a page's pictures link to."""
    links = re.findall(r'src(?:set)?="([^"]*)"', page.read_text())
    return [page.parent / link.replace("%20", " ") for link in links]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("machine", as_markdown(machine_blocks(RECORDS))),
        ("summary", as_markdown(summary(SEEN))),
        (f"case {CASE}", as_markdown(case_section(SEEN[0]))),
        (f"offline {CASE}", as_markdown(points_table(SEEN[0], "offline"))),
        (f"online {CASE}", as_markdown(points_table(SEEN[0], "online"))),
    ],
)
def test_region_shows_what_its_marker_names(name: str, text: str) -> None:
    assert body(name) == text


def test_every_marker_in_help_renders() -> None:
    forms = [line.split("  ")[1] for line in readme.overview().splitlines() if line[2] != " "]
    assert len(forms) > 5
    for form in forms:
        readme.sync(region(form.replace("[CASE_ID]", CASE).replace("CASE_ID", CASE)), SEEN)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_text_outside_regions_stays_and_sync_is_idempotent(end: str) -> None:
    synced = readme.sync(PAGE.replace("\n", end), SEEN).text
    assert outside(synced.replace("\r\n", "\n")) == outside(PAGE)
    assert synced.count("\n") == synced.count(end)
    assert "what was here" not in synced
    assert readme.sync(synced, SEEN).text == synced
    assert readme.sync(synced, SEEN).drifted == []


def test_drifted_regions_are_named() -> None:
    synced = readme.sync(PAGE, SEEN).text
    assert readme.sync(PAGE, SEEN).drifted == ["machine", "summary", f"case {CASE}"]
    assert readme.sync(synced.replace("#### Offline", "#### Off"), SEEN).drifted == [f"case {CASE}"]
    assert readme.sync(synced.replace("GiB memory", "GB memory"), SEEN).drifted == ["machine"]


CLOSED = "<!-- /tritonproof:summary -->\n"


@pytest.mark.parametrize(
    ("page", "line"),
    [
        (region("sumary"), 3),
        (region("case"), 3),
        (region("case x"), 3),
        (region("plot sweep"), 3),
        (region("plot throughput-latency"), 3),
        ("<!-- tritonproof:summary -->\ntext\n", 1),
        ("<!-- tritonproof:summary -->\n<!-- tritonproof:machine -->\n" + CLOSED, 2),
        (f"<!-- tritonproof:case {CASE} -->\n<!-- /tritonproof:case x -->\n", 1),
        ("\n\n" + CLOSED, 3),
        ("text\na <!-- tritonproof:summary --> b\n" + region("machine"), 2),
    ],
)
def test_invalid_region_is_an_error_with_its_line(page: str, line: int) -> None:
    with pytest.raises(InputError, check=lambda error: error.where == f"line {line}"):
        readme.sync(page, SEEN)


@pytest.mark.parametrize("fence", ["", "```\n", "````\n```\n", "~~~\n"])
def test_file_without_markers_names_one_to_paste(fence: str) -> None:
    """Markers in code do not count."""
    page = f"{fence}{region('summary')}{fence[::-1].strip()}\n" if fence else "# Nothing\n"
    with pytest.raises(InputError, match="tritonproof:summary"):
        readme.sync(page, SEEN)


def test_missing_records_are_an_error() -> None:
    with pytest.raises(InputError, match="tox run -e benchmarks"):
        readme.sync(region("summary"), [])


@pytest.mark.parametrize(
    "said",
    ["<!-- /tritonproof:summary -->", "`is <!-- /tritonproof:summary -->`", "\\<!-- tritonproof:x -->"],
)
def test_marker_in_record_text_is_escaped(said: str) -> None:
    sample = sample_records.record(accuracy=sample_records.accuracy(sample_records.score(metric=said)))
    machine = structs.replace(sample.machine, cpu=said, gpu=None)
    record = publishable(structs.replace(sample, machine=machine))
    for name in ("machine", "summary", f"case {record.name}"):
        synced = readme.sync(region(name), [record]).text
        assert readme.sync(synced, [record]).text == synced


def test_plot_has_both_themes_and_alternative_text() -> None:
    chart = plots.throughput_latency([publishable(SWEPT)])
    text = body(f"plot throughput-latency {CASE}")
    for theme in plots.THEMES:
        assert f'"plots/{CASE}-throughput-latency-{theme}.svg"' in text
    assert f'alt="{chart.alternative}"' in text


def test_command_writes_page_and_pictures_once(sync_page: Reports, page: Path) -> None:
    before = page.read_text()
    drift = sync_page("--check")
    assert (drift.status, page.read_text()) == (1, before)
    assert "\n+Measured on " in drift.out
    result = sync_page()
    assert (result.status, result.err) == (0, "")
    assert page.read_text() == readme.sync(before, SEEN).text
    assert sorted(linked(page)) == sorted((page.parent / "plots").iterdir())
    status = page.stat()
    assert sync_page("--check").status == sync_page().status == 0
    assert (page.stat().st_ino, page.stat().st_mtime_ns) == (status.st_ino, status.st_mtime_ns)


def test_folder_of_pictures_is_kept(sync_page: Reports, written: Path, results: Path) -> None:
    shutil.rmtree(written.parent / "plots")
    written.write_text(written.read_text().replace('"plots/', '"../my%20pictures/'))
    assert f"readme '{written}' --results {results}" in sync_page("--check").out
    sync_page()
    folder = written.parents[1] / "my pictures"
    assert {path.resolve().parent for path in linked(written)} == {folder}
    assert all(path.is_file() for path in linked(written))
    assert sync_page("--check").status == 0
    assert not (written.parent / "plots").exists()


def test_check_finds_outdated_picture(sync_page: Reports, written: Path) -> None:
    picture = written.parent / "plots" / "best-throughput-light.svg"
    text = picture.read_text()
    others = sample_records.seen(sample_records.swept(points=SWEPT.points[:3]), RECORDS[1])
    of_others = plots.draw(plots.best_throughput(others), "light").decode()
    for content in (None, of_others, text[:2000], "<svg/>"):
        picture.unlink()
        if content is not None:
            picture.write_text(content)
        result = sync_page("--check")
        assert result.status == 1
        assert os.path.relpath(picture) in result.out
        sync_page()
        assert picture.read_text() == text


@pytest.mark.parametrize("link", ["https://example.org/plots", "/plots"])
def test_outside_link_is_not_a_picture_folder(link: str, sync_page: Reports, written: Path) -> None:
    written.write_text(written.read_text().replace('"plots/', f'"{link}/'))
    assert sync_page("--check").status == 1
    sync_page()
    assert {path.parent for path in linked(written)} == {written.parent / "plots"}


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"# Nothing\n", region("x").encode()])
def test_error_names_file_and_leaves_it_alone(content: bytes | None, sync_page: Reports, page: Path) -> None:
    page.unlink()
    if content is not None:
        page.write_bytes(content)
    for options in ([], ["--check"]):
        result = sync_page(*options)
        assert (result.status, result.out) == (4, "")
        assert f": {page}" in result.err
        assert (page.read_bytes() if page.exists() else None) == content
