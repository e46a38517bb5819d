"""The summary of a terminal that is narrower than its table: nothing in it is wider, and no case is left out."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reports.run import terminal_summary
from reports.tables.narrow import narrow_summary
from reports.words.shown import Shown, read_all

MEASURED = Path(__file__).parents[2] / "reports" / "readme"


@pytest.fixture(scope="module")
def records() -> list[Shown]:
    """The main job's, of all models and formats."""
    return list(read_all(MEASURED))


def said(records: list[Shown], columns: str, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    """What a run of these records prints as its summary."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(terminal_summary, "shown_records", lambda _reporter: (records, []))
    monkeypatch.setattr(terminal_summary, "further_tables", lambda _config: [])
    monkeypatch.setattr(terminal_summary, "record_paths", lambda _reporter: [MEASURED / "cpu" / "case.json"])
    lines: list[str] = []
    reporter: Any = SimpleNamespace(
        isatty=terminal, section=lines.append, write_line=lines.append, config=None
    )
    terminal_summary.pytest_terminal_summary(reporter)
    return "\n".join(lines)


def test_no_line_of_it_is_wider_than_80_columns_and_every_case_has_one(records: list[Shown]) -> None:
    text = narrow_summary(records, 80)

    assert max(map(len, text.splitlines())) <= 80
    for record in records:
        if record.loads:
            best = max(load.throughput_per_s.value for load in record.loads)
            assert f"{best:.1f} ± " in text


def test_a_terminal_of_80_columns_gets_it_and_is_told_how_to_see_the_whole_table(
    records: list[Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = said(records, "80", monkeypatch, terminal=True)

    assert "| Model" not in text
    assert "python -m reports tables" in text


def test_a_wide_terminal_and_a_log_get_the_whole_table(
    records: list[Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "| Model" in said(records, "300", monkeypatch, terminal=True)
    assert "| Model" in said(records, "80", monkeypatch, terminal=False)
