"""A record that cannot be read never takes away the others: it is named, and the status says that something is missing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reports.record import files
from reports.record.arguments import UNREADABLE
from reports.record.schema import case_id
from tests import samples
from tests.conftest import Reports

WHOLE = samples.measured_at(samples.origin(), samples.record())
OTHER = samples.random_weights()

PAGE = "report.html"
READERS: dict[str, Callable[[Path], list[object]]] = {
    "tables": lambda results: ["tables", "--results", results],
    "html": lambda results: ["html", "--results", results, "--output", PAGE],
    "csv": lambda results: ["csv", "--results", results],
    "export": lambda results: ["export", "--format", "bencher", "--results", results],
    "published": lambda results: ["published", "--format", "csv", "--other-formats", "--results", results],
    "plots": lambda results: ["plots", "--results", results, "--output", results.parent / "plots"],
    "compare": lambda results: ["compare", results, results.parent / "other"],
    "trend": lambda results: ["trend", "--history", results.parent / "history", "--add", results],
}


def _into_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "is empty": lambda path: path.write_bytes(b""),
    "is cut": lambda path: path.write_bytes(path.read_bytes()[:200]),
    "is a folder": _into_folder,
    "has a value that is none": lambda path: path.write_text(
        path.read_text().replace('"build_time_s": ', '"build_time_s": -')
    ),
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of two records, and another with the first of them, to be compared with it."""
    samples.store(tmp_path / "results", WHOLE, OTHER)
    samples.store(tmp_path / "other", WHOLE)
    return tmp_path / "results"


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_shows_the_others_and_names_the_file(
    reader: str, results: Path, reports: Reports
) -> None:
    damaged = files.path_of(OTHER.case, results)
    damaged.write_text("{")

    ended = reports(*READERS[reader](results))

    assert ended.status == UNREADABLE
    assert f"{damaged}: not JSON" in ended.err
    assert case_id(WHOLE.case) in (Path(PAGE).read_text() if reader == "html" else ended.out)


def test_the_page_has_every_case_but_one_whose_samples_are_damaged(results: Path, reports: Reports) -> None:
    samples_file = files.path_of(WHOLE.case, results).with_suffix(files.SAMPLES_SUFFIX)
    samples_file.write_text("{")

    ended = reports("html", "--results", results, "--output", results.parent / PAGE)

    assert ended.status == UNREADABLE
    assert f"{samples_file}: not JSON" in ended.err
    page = (results.parent / PAGE).read_text()
    assert case_id(OTHER.case) in page
    assert case_id(WHOLE.case) not in page


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_record_that_is_damaged_in_any_way_is_left_out(
    damage: str, results: Path, reports: Reports
) -> None:
    damaged = files.path_of(OTHER.case, results)
    DAMAGE[damage](damaged)

    ended = reports("tables", "--results", results)

    assert ended.status == UNREADABLE
    assert str(damaged) in ended.err
    assert case_id(WHOLE.case) in ended.out


def test_a_damaged_record_of_a_case_that_nobody_asked_for_is_not_told_of(
    results: Path, reports: Reports
) -> None:
    files.path_of(OTHER.case, results).write_text("{")

    ended = reports("tables", "--results", results, "-k", case_id(WHOLE.case))

    assert (ended.status, ended.err) == (0, "")


def test_a_folder_with_damaged_records_alone_is_refused(results: Path, refused: Callable[..., str]) -> None:
    for record in (WHOLE, OTHER):
        files.path_of(record.case, results).write_text("{")

    said = refused("tables", "--results", results)

    assert said.count("not JSON") == 2


def test_what_would_lose_the_record_for_good_is_refused(results: Path, refused: Callable[..., str]) -> None:
    page = results.parent / "page.md"
    page.write_text("<!-- tritonproof:summary -->\n<!-- /tritonproof:summary -->\n")
    files.path_of(OTHER.case, results).write_text("{")

    assert "not JSON" in refused("readme", page, "--results", results)
    assert "not JSON" in refused("merge", results, "--output", results.parent / "merged")
