"""A table as CSV whose cells are values: a spreadsheet computes what begins like a formula, wherever it comes from."""

from typing import Any

import pandas as pd

from reports.record.foreign import one_line

_FORMULA = ("=", "+", "-", "@")


def csv_text(frame: pd.DataFrame) -> str:
    """The rows as CSV; a text that begins like a formula has an apostrophe before it, which makes it a text to a
    spreadsheet."""
    cells = frame.map(_cell)
    cells.columns = [_cell(name) for name in frame.columns]
    return cells.to_csv(index=False)


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
