"""Markdown tables of plain text."""

import re
from collections.abc import Iterable, Sequence


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]], alignment: str) -> str:
    """A markdown table with aligned columns; `alignment` has `l` or `r` for each column."""
    lines = [[text(cell) for cell in line] for line in (columns, *rows)]
    widths = [max(3, *map(len, cells)) for cells in zip(*lines, strict=True)]
    rule = [
        "-" * (width - 1) + ":" if a == "r" else "-" * width
        for width, a in zip(widths, alignment, strict=True)
    ]
    padded = [
        [
            cell.rjust(width) if a == "r" else cell.ljust(width)
            for cell, width, a in zip(line, widths, alignment, strict=True)
        ]
        for line in lines
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in (padded[0], rule, *padded[1:]))


def text(value: str) -> str:
    """`value` on one line, and harmless inside a markdown table."""
    return re.sub(r"(?<!\\)(\||<(?=[A-Za-z/!?]))", r"\\\1", " ".join(value.split()))
