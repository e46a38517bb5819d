"""Renders tables, and the text between them, as markdown, HTML, CSV and JSON and for a terminal.

This module escapes all text, whatever its origin, once. Functions import pandas, rich and markdown-it-py.
"""

import dataclasses
import functools
import io
import itertools
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape as html_escape
from typing import TYPE_CHECKING, Any

from reports.record.sanitize import LONGEST_LINE, Emphasised, as_is, in_json, one_line, plain, text
from reports.tables.table import Block, Bullets, Cell, Heading, Row, Table

if TYPE_CHECKING:
    import pandas as pd
    from markdown_it import MarkdownIt
    from rich.console import Console

_FORMULA = ("=", "+", "-", "@")
"""The first characters of texts that a spreadsheet would compute."""

# --- markdown ----------------------------------------------------------------------------------------------


def markdown(blocks: Iterable[Block]) -> str:
    return "\n\n".join(part for block in blocks if block for part in _markdown(block))


def _markdown(block: Block) -> Iterator[str]:
    if isinstance(block, Heading):
        yield f"{'#' * block.level} {text(block.text)}"
    elif isinstance(block, Bullets):
        yield "\n".join(f"- {text(line)}" for line in block.lines)
    elif isinstance(block, Table):
        yield _grid(block)
        yield from (part for below in below(block) for part in _markdown(below))
    else:
        yield text(block)


def below(table: Table) -> list[Block]:
    """The text below a table: the legend of its columns, its marks, and its notes."""
    marks_title = [as_is("Marked points (*):")] if table.is_starred and table.remarks else []
    return [block for block in (table.legend, *marks_title, Bullets(table.remarks), *table.notes) if block]


def _grid(table: Table) -> str:
    lines = [[text(cell) for cell in line] for line in (table.titles, *table.texts)]
    widths = [max(3, *map(len, cells)) for cells in zip(*lines, strict=True)]
    sides = _sides(table)
    rule = ["-" * (width - 1) + (":" if right else "-") for width, right in zip(widths, sides, strict=True)]
    padded = [_padded(line, widths, sides) for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in (padded[0], rule, *padded[1:]))


def _sides(table: Table) -> list[bool]:
    """Whether the cells below each title align right."""
    return [*(column.is_number for column in table.columns), False][: len(table.titles)]


def _padded(cells: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> list[str]:
    return [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, is_right, strict=True)
    ]


# --- HTML --------------------------------------------------------------------------------------------------


def html(blocks: Iterable[Block], level: int = 3) -> str:
    """The blocks as HTML, with their highest heading at `level`. A cell's number is its `data-value`, to sort
    by; no name in a record becomes a link, a picture or HTML."""
    shown = [block for block in blocks if block]
    highest = min((block.level for block in shown if isinstance(block, Heading)), default=level)
    return "\n".join(part for block in shown for part in _html(block, level - highest))


def _html(block: Block, shift: int) -> Iterator[str]:
    if isinstance(block, Heading):
        tag = f"h{min(6, block.level + shift)}"
        yield f"<{tag}>{inline_html(block.text)}</{tag}>"
    elif isinstance(block, Bullets):
        yield "<ul>\n" + "\n".join(f"<li>{inline_html(line)}</li>" for line in block.lines) + "\n</ul>"
    elif isinstance(block, Table):
        yield f'<div class="wrap">{_html_table(block)}</div>'
        yield from (part for below in below(block) for part in _html(below, shift))
    else:
        yield f"<p>{inline_html(block)}</p>"


def _html_table(table: Table) -> str:
    sides = [' class="number"' if right else "" for right in _sides(table)]
    heads = [f"<th{side}>{inline_html(title)}</th>" for side, title in zip(sides, table.titles, strict=True)]
    rows = []
    for row, texts in zip(table.rows, table.texts, strict=True):
        values = ["" if cell.value is None else f' data-value="{cell.value!r}"' for cell in row.cells]
        cells = [
            f"<td{side}{value}>{inline_html(cell_text)}</td>"
            for side, value, cell_text in itertools.zip_longest(sides, values, texts, fillvalue="")
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head, body = "".join(heads), "\n".join(rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def inline_html(said: str) -> str:
    """A text as one line of HTML, in which only code and emphasis are marked up."""
    if not isinstance(said, Emphasised) and "`" not in said:  # as nearly all cells are
        return html_escape(one_line(said, LONGEST_LINE))
    return _inline_parser().renderInline(text(said))


@functools.cache
def _inline_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("zero").enable(["backticks", "escape", "emphasis"])


# --- JSON and CSV ------------------------------------------------------------------------------------------


def as_json(blocks: Iterable[Block]) -> str:
    """Each table with the headings above it: its columns, its rows by title, and its notes."""
    tables = [{"section": section} | _json(table) for section, table in _sections(blocks)]
    return in_json(json.dumps(tables, indent=2, ensure_ascii=False))


def _json(table: Table) -> dict[str, Any]:
    columns = [
        {"title": item.title, "unit": item.quantity and item.quantity.unit, "meaning": item.meaning or None}
        for item in table.columns
    ]
    titles = [item.title for item in table.columns]
    rows = [
        {
            "cells": dict(zip(titles, map(_json_cell, row.cells), strict=True)),
            "marks": [{"code": item.code, "text": item.text} for item in row.marks],
        }
        for row in table.rows
    ]
    notes = [note.lines if isinstance(note, Bullets) else [note] for note in (table.legend, *table.notes)]
    return {
        "columns": columns,
        "rows": rows,
        "notes": [plain(item) for lines in notes for item in lines if item],
    }


def _json_cell(cell: Cell) -> str | dict[str, Any]:
    if cell.value is None:
        return plain(cell.text)
    return {name: value for name, value in vars(cell).items() if value is not None}


def as_csv(blocks: Iterable[Block]) -> str:
    """All tables below each other, with the headings above each in the first column."""
    import pandas as pd

    rows = [
        {"Section": section} | _named(table, row)
        for section, table in _sections(blocks)
        for row in table.rows
    ]
    return csv_text(pd.DataFrame(rows))


def _named(table: Table, row: Row) -> dict[str, Any]:
    """The values of a row by title, each with its bounds; the text if there is no value."""
    values: dict[str, Any] = {}
    for column, cell in zip(table.columns, row.cells, strict=True):
        values[column.title] = plain(cell.text) if cell.value is None else cell.value
        if cell.low is not None:
            values |= {f"{column.title}, low": cell.low, f"{column.title}, high": cell.high}
    return values | {"Marks": " ".join(mark.code for mark in row.marks) or None}


def csv_text(frame: "pd.DataFrame") -> str:
    """The rows as CSV, with an apostrophe before each text that a spreadsheet would take for a formula."""
    cells = frame.map(_csv_cell)
    cells.columns = [_csv_cell(name) for name in frame.columns]
    return cells.to_csv(index=False)


def _csv_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    line = one_line(value)
    return f"'{line}" if line.startswith(_FORMULA) else line


def _sections(blocks: Iterable[Block]) -> Iterator[tuple[str, Table]]:
    """Each table, after the headings above it."""
    headings: dict[int, str] = {}
    for block in blocks:
        if isinstance(block, Heading):
            headings = {level: heading for level, heading in headings.items() if level < block.level}
            headings[block.level] = plain(block.text)
        elif isinstance(block, Table) and block:
            yield " / ".join(headings.values()), block


# --- terminal ----------------------------------------------------------------------------------------------


def show(blocks: Iterable[Block], console: "Console") -> None:
    """Print the blocks. A table that is too wide shrinks to its main columns, or to a paragraph per row."""
    from rich.markdown import Markdown

    is_first = True
    for block in (part for part in blocks if part):
        is_rich = isinstance(block, Bullets) or (isinstance(block, Table) and _width(block) <= console.width)
        if not is_first and not is_rich:  # rich itself leaves a line empty before a list or a table
            console.print()
        if isinstance(block, Table):
            _show_table(block, console)
        else:
            console.print(Markdown(markdown([block])))
        is_first = False


def terminal_text(blocks: Iterable[Block], width: int) -> str:
    from rich.console import Console

    out = io.StringIO()
    show(blocks, Console(file=out, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")


def _show_table(table: Table, console: "Console") -> None:
    from rich.markdown import Markdown

    shown, narrow = table, _narrowed(table)
    if _width(table) <= console.width:
        console.print(Markdown(_grid(table)))
    else:
        lines = _lines(narrow) if narrow.columns else []
        if lines and max(map(len, lines)) <= console.width:
            # Rows keep all their cells: the legend then says why a rank without its ratio is missing.
            shown = dataclasses.replace(table, columns=narrow.columns)
        else:
            lines = list(_folded(table, console.width))
        console.print("\n".join(lines), markup=False, highlight=False)
    notes = below(shown)
    if notes and not isinstance(notes[0], Bullets):
        console.print()
    show(notes, console)


def _width(table: Table) -> int:
    """The width of the table, in characters of a terminal."""
    lines = [[plain(cell) for cell in line] for line in (table.titles, *table.texts)]
    return sum(max(map(len, cells)) + 2 for cells in zip(*lines, strict=True))


def _narrowed(table: Table) -> Table:
    """The columns that have a narrow title, under that title."""
    columns = [
        dataclasses.replace(column, title=column.narrow)
        for column in table.columns
        if column.narrow is not None
    ]
    is_shown = [column.narrow is not None for column in table.columns]
    rows = [dataclasses.replace(row, cells=[*itertools.compress(row.cells, is_shown)]) for row in table.rows]
    return dataclasses.replace(table, columns=columns, rows=rows)


def _lines(table: Table) -> list[str]:
    """The table as lines, without rules. A first cell that rows share becomes a heading above them."""
    rows = [[plain(cell) for cell in cells] for cells in table.texts]
    titles = [column.title for column in table.columns]
    titles += [""] * (len(table.titles) - len(titles))  # the letters of notes need none
    has_heads = len({row[0] for row in rows}) < len(rows)
    start = 1 if has_heads else 0
    widths, sides = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)], _sides(table)
    gaps = ["", *("  " if title else " " for title in titles[start + 1 :])]

    def line(cells: Sequence[str]) -> str:
        padded = _padded(cells[start:], widths[start:], sides[start:])
        return "".join(map("".join, zip(gaps, padded, strict=True))).rstrip()

    lines, head = [line(titles)], ""
    for row in rows:
        if has_heads and row[0] != head:
            head = row[0]
            lines.append(head)
        lines.append(line(row))
    return lines


def _folded(table: Table, width: int) -> Iterator[str]:
    """A paragraph for each row: its first cell, then the others, each after the title of its column."""
    _, *titles = map(plain, table.titles)
    for row in table.texts:
        first, *others = map(plain, row)
        named = [
            f"{title}: {cell}" for title, cell in zip(titles, others, strict=True) if cell not in ("", "-")
        ]
        yield textwrap.fill("; ".join([first, *named]), width, subsequent_indent="   ")


# --- any form ----------------------------------------------------------------------------------------------

RENDERINGS: Mapping[str, Callable[[Sequence[Block]], str]] = {
    "markdown": markdown,
    "html": html,
    "json": as_json,
    "csv": as_csv,
}


def print_as(form: str, blocks: Sequence[Block]) -> None:
    """Print the blocks in a form: one of RENDERINGS, or `terminal`."""
    if form != "terminal":
        print(RENDERINGS[form](blocks).rstrip("\n"))
        return
    from rich.console import Console
    from rich.theme import Theme

    # Bold text says what is worse, italics what is better.
    styles = {"markdown.strong": "bold red", "markdown.em": "green", "markdown.code": "cyan"}
    show(blocks, Console(theme=Theme(styles)))
