"""Text with tables for a terminal that is too narrow for them: a paragraph for each row in place of lines that break anywhere."""

import re
import textwrap

_CELLS = re.compile(r"(?<!\\)\|")


def folded(block: str, width: int) -> str:
    """The text in lines of at most so many columns. A table that is wider becomes a paragraph for each row, which begins
    with the row's first cell and names the column of each other one."""
    return "\n\n".join(_folded(part, width) for part in block.split("\n\n"))


def _folded(part: str, width: int) -> str:
    lines = part.splitlines()
    if all(len(line) <= width for line in lines):
        return part
    if not part.startswith("|"):
        return "\n".join(textwrap.fill(line, width, subsequent_indent=_indent(line)) for line in lines)
    (_first, *columns), _rule, *rows = map(_cells, lines)
    return "\n".join(_row(columns, cells, width) for cells in rows)


def _row(columns: list[str], cells: list[str], width: int) -> str:
    first, *others = cells
    said = [
        f"{column}: {cell}" for column, cell in zip(columns, others, strict=True) if cell not in ("", "-")
    ]
    return textwrap.fill("; ".join([first, *said]), width, subsequent_indent="   ")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in _CELLS.split(line.strip())[1:-1]]


def _indent(line: str) -> str:
    return "  " if line.startswith("- ") else ""
