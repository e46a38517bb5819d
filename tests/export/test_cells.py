"""Records as CSV: a cell is a value, wherever its text comes from."""

import csv
import io

import pandas as pd
import pytest

from reports.tables.rendering import csv_text


def cells(frame: pd.DataFrame) -> list[list[str]]:
    """The heading and the rows as a reader of CSV has them."""
    return list(csv.reader(io.StringIO(csv_text(frame))))


@pytest.mark.parametrize("value", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\n=1", "\x00=1"])
def test_a_text_is_no_formula_in_a_cell_or_a_heading(value: str) -> None:
    for row in cells(pd.DataFrame({value: [value], "batch": [8]})):
        assert row[0][0] in "'\\"
        assert "\n" not in row[0]


def test_numbers_stay_numbers() -> None:
    assert cells(pd.DataFrame({"ratio": [-0.5, None], "passed": [True, False]}))[1:] == [
        ["-0.5", "True"],
        ["", "False"],
    ]
