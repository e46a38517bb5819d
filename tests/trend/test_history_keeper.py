"""The plugin that adds measurements to the history and reports failures."""

from pathlib import Path

import pytest

from reports import history
from reports.record import files as records
from reports.run import HistoryKeeper
from tests import examples
from tests.trend.test_history import measured


def report(when: str, **properties: str) -> pytest.TestReport:
    """The report of a test's stage, with these properties."""
    return pytest.TestReport(
        "benchmarks/test_load.py::test_offline",
        ("", 1, ""),
        {},
        "passed",
        None,
        when,  # type: ignore[arg-type]
        user_properties=list(properties.items()),
    )


@pytest.fixture
def keeper(tmp_path: Path) -> HistoryKeeper:
    """The keeper of a results folder with one record."""
    examples.store(tmp_path / "results", measured())
    return HistoryKeeper(tmp_path / "results", tmp_path / "history")


NAME = "a40/a40-resnet50-onnx-trt-fp16.json"


def test_recorded_test_is_added_when_it_ends(keeper: HistoryKeeper) -> None:
    for when in ("setup", "call", "teardown"):
        keeper.pytest_runtest_logreport(report(when, record=NAME))
    assert len(history.read(keeper.folder)[0]) == 6


def test_test_without_record_adds_nothing(keeper: HistoryKeeper) -> None:
    keeper.pytest_runtest_logreport(report("teardown", figure="1 infer/s"))
    assert not keeper.folder.exists()


def test_unwritable_history_is_reported_once(keeper: HistoryKeeper) -> None:
    keeper.folder.write_text("a file is here")
    lines: list[str] = []

    class Terminal:
        write_line = lines.append

    for _ in range(3):
        keeper.pytest_runtest_logreport(report("teardown", record=NAME))
    keeper.pytest_terminal_summary(Terminal())
    assert len(lines) == 2
    assert str(keeper.folder) in lines[0]
    assert "--add" in lines[1]
    assert records.read(keeper.results / NAME)
