"""A folder with records both in it and in its folders is refused by every command, so that none reads a part for all of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reports.record import files
from tests import samples
from tests.commands.test_linked_folders import READERS


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of results with two records, beside another one."""
    samples.store(tmp_path / "other", samples.record(loads=()))
    return samples.store(tmp_path / "results", samples.record(loads=()), samples.random_weights())


@pytest.mark.parametrize("reader", READERS)
def test_a_record_beside_the_folders_of_targets_is_refused_by_every_command(
    reader: str, results: Path, refused: Callable[..., str]
) -> None:
    stray = results / "x.json"
    files.write(samples.record(loads=()), stray)
    why = refused(*READERS[reader](results))
    assert why.startswith(f"error: {stray}: lies beside the folder of a target that holds records, such as ")
    assert str(files.path_of(samples.record().case, results)) in why
    assert len(why.splitlines()) == 1


def test_another_program_s_file_beside_the_folders_is_passed_over(
    results: Path, printed: Callable[..., str]
) -> None:
    (results / "after.json").write_text('{"machine_info": {}, "benchmarks": [{"case": 1}]}')
    assert "2 cases" in printed("compare", results.parent / "other", results)


def test_what_a_run_puts_beside_the_records_of_a_target_is_no_record(
    results: Path, printed: Callable[..., str]
) -> None:
    folder = results / "a40"
    files.replace(folder / "a40-of-before.search" / "samples.json", b"{}")
    files.replace(folder / "superseded" / "old.json", b"{}")
    printed("merge", folder, "--output", results.parent / "out")
    assert "1 case" in printed("compare", results.parent / "other", folder)
    printed("tables", "--results", results)
