"""A path that another user's modes close ends a run as wrong input does: in one sentence that names it."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.run import output
from fixtures.run.checks import has_answers
from fixtures.run.options import as_usage_errors
from tests.helpers import closed


@pytest.fixture
def given(tmp_path: Path) -> Iterator[Path]:
    """A file in a folder that is closed."""
    folder = tmp_path / "of-another"
    folder.mkdir()
    (folder / "file").touch()
    with closed(folder):
        yield folder / "file"


def test_an_option_whose_path_may_not_be_looked_up_is_one_of_wrong_usage(given: Path) -> None:
    with (
        pytest.raises(pytest.UsageError, match=f"permission denied\n.*{given}\n.*fix: .*namei"),
        as_usage_errors(),
    ):
        given.is_file()


def test_an_option_whose_path_leads_in_a_circle_is_one_of_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to("self")
    with (
        pytest.raises(pytest.UsageError, match=f"symbolic links\n.*{tmp_path}/self\n.*fix: "),
        as_usage_errors(),
    ):
        (tmp_path / "self").read_text()


def test_recorded_answers_in_a_closed_folder_are_not_taken_for_none(given: Path) -> None:
    settings: Any = SimpleNamespace(answers=given.parent)
    with pytest.raises(PermissionError):
        has_answers(settings)


def test_a_benchmark_that_meets_such_a_path_says_it_without_a_trace(given: Path, request: Any) -> None:
    with pytest.raises(PermissionError) as raised:
        given.read_text()
    options = SimpleNamespace(fulltrace=False)
    item: Any = SimpleNamespace(
        config=SimpleNamespace(
            option=options, stash=request.config.stash, pluginmanager=request.config.pluginmanager
        ),
        session=SimpleNamespace(stash=pytest.Stash()),
        path=given,
    )
    call: Any = SimpleNamespace(excinfo=raised)
    report: Any = SimpleNamespace(
        when="setup", passed=False, skipped=False, outcome="failed", longrepr="a trace"
    )
    steps = output.pytest_runtest_makereport(item, call)
    next(steps)
    with pytest.raises(StopIteration):
        steps.send(report)
    assert str(given) in report.longrepr
    assert "namei -l" in report.longrepr
