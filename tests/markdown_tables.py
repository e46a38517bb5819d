"""Reads markdown tables back, for the tests of what is written as one."""

import re


def cells(text: str) -> list[list[str]]:
    """The cells of each row of all tables in a text, headings included."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    found = [[cell.strip() for cell in row] for row in rows]
    return [row for row in found if set("".join(row)) - set("-:")]
