"""A target's folder that is a symbolic link is what no command follows, and every one says so: which records are there does
not depend on who reads them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.fleet.groups import earlier_durations
from reports.record import files
from tests import samples

READERS: dict[str, Callable[[Path], list[object]]] = {
    "tables": lambda results: ["tables", "--results", results],
    "html": lambda results: ["html", "--results", results, "--output", results.parent / "page.html"],
    "csv": lambda results: ["csv", "--results", results],
    "export": lambda results: ["export", "--format", "bencher", "--results", results],
    "compare": lambda results: ["compare", results, results.parent / "other"],
    "merge": lambda results: ["merge", results, "--output", results.parent / "out"],
    "trend": lambda results: ["trend", "--history", results.parent / "history", "--add", results],
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of results whose one target is a link to the folder of another's."""
    record = samples.record(loads=())
    elsewhere = files.path_of(record.case, tmp_path / "other")
    files.write(record, elsewhere)
    linked = files.path_of(record.case, tmp_path / "results").parent
    linked.parent.mkdir()
    linked.symlink_to(elsewhere.parent)
    return tmp_path / "results"


@pytest.mark.parametrize("reader", READERS)
def test_a_linked_folder_of_a_target_is_refused_by_every_command(
    reader: str, results: Path, refused: Callable[..., str]
) -> None:
    (linked,) = results.iterdir()
    why = refused(*READERS[reader](results))
    assert why.startswith(f"error: {linked}: it is a symbolic link")
    assert len(why.splitlines()) == 1


def test_a_linked_folder_that_is_given_itself_is_read(results: Path, printed: Callable[..., str]) -> None:
    (results.parent / "link").symlink_to(results.parent / "other")
    (linked,) = results.iterdir()
    printed("tables", "--results", results.parent / "link")
    printed("merge", linked, "--output", results.parent / "out")
    assert len(files.record_paths(results.parent / "out")) == 1


def test_how_long_tests_take_is_not_learnt_from_a_linked_folder(results: Path) -> None:
    assert earlier_durations(results) == {}
