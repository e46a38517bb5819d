"""Tables and what stands between them as markdown, HTML, CSV, JSON and for a terminal.

Text of whatever origin is escaped here, once. pandas, rich and markdown-it-py are imported where they are
used.
"""

import dataclasses
import functools
import io
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape as html_escape
from typing import TYPE_CHECKING, Any

from reports.record.sanitize import in_json, one_line
from reports.tables.table import Block, Bullets, Heading, Row, Table
from reports.text.inline import LONGEST, Emphasised, as_is, plain, text

if TYPE_CHECKING:
    import pandas as pd
    from markdown_it import MarkdownIt
    from rich.console import Console

_FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet would compute, wherever it comes from."""


# --- markdown ----------------------------------------------------------------------------------------------


def markdown(blocks: Iterable[Block]) -> str:
    """The blocks as markdown with aligned tables."""
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
    """What stands below a table: what its columns mean, what its marks say, and its notes."""
    marked = [as_is("Marked points (*):")] if table.is_starred and table.remarks else []
    return [one for one in (table.legend, *marked, Bullets(table.remarks), *table.notes) if one]


def _grid(table: Table) -> str:
    lines = [[text(cell) for cell in line] for line in (table.titles, *table.texts)]
    widths = [max(3, *map(len, cells)) for cells in zip(*lines, strict=True)]
    sides = _sides(table)
    rule = ["-" * (width - 1) + (":" if right else "-") for width, right in zip(widths, sides, strict=True)]
    padded = [_padded(line, widths, sides) for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in (padded[0], rule, *padded[1:]))


def _sides(table: Table) -> list[bool]:
    """Whether the cells of each title stand on the right."""
    return [*(one.is_number for one in table.columns), False][: len(table.titles)]


def _padded(cells: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> list[str]:
    return [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, is_right, strict=True)
    ]


# --- HTML --------------------------------------------------------------------------------------------------


def html(blocks: Iterable[Block], level: int = 3) -> str:
    """The blocks as HTML, their highest heading as `<h3>` or of another level. A number is the `data-value`
    of its cell, to sort by; no name found in a file becomes a link, a picture or HTML."""
    shown = [block for block in blocks if block]
    highest = min((block.level for block in shown if isinstance(block, Heading)), default=level)
    return "\n".join(part for block in shown for part in _html(block, level - highest))


def _html(block: Block, lower: int) -> Iterator[str]:
    if isinstance(block, Heading):
        tag = f"h{min(6, block.level + lower)}"
        yield f"<{tag}>{inline_html(block.text)}</{tag}>"
    elif isinstance(block, Bullets):
        yield "<ul>\n" + "\n".join(f"<li>{inline_html(line)}</li>" for line in block.lines) + "\n</ul>"
    elif isinstance(block, Table):
        yield f'<div class="wrap">{html_table(block)}</div>'
        yield from (part for below in below(block) for part in _html(below, lower))
    else:
        yield f"<p>{inline_html(block)}</p>"


def html_table(table: Table) -> str:
    sides = [' class="number"' if right else "" for right in _sides(table)]
    heads = "".join(
        f"<th{side}>{inline_html(one)}</th>" for side, one in zip(sides, table.titles, strict=True)
    )
    rows = []
    for row, texts in zip(table.rows, table.texts, strict=True):
        values = ["" if cell.value is None else f' data-value="{cell.value!r}"' for cell in row.cells]
        values += [""] * (len(texts) - len(values))
        cells = [
            f"<td{side}{value}>{inline_html(said)}</td>"
            for side, value, said in zip(sides, values, texts, strict=True)
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(rows)
    return f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def inline_html(said: str) -> str:
    """A text on one line as HTML: code and what is emphasised, and nothing else."""
    if not isinstance(said, Emphasised) and "`" not in said:  # as nearly all cells are
        return html_escape(one_line(said, LONGEST))
    return _inline_parser().renderInline(text(said))


@functools.cache
def _inline_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("zero").enable(["backticks", "escape", "emphasis"])


# --- JSON and CSV ------------------------------------------------------------------------------------------


def as_json(blocks: Iterable[Block]) -> str:
    """Every table with the headings that it stands under: its columns, its rows by title, and what stands
    below it."""
    found = [{"section": section} | _json(one) for section, one in _sections(blocks)]
    return in_json(json.dumps(found, indent=2, ensure_ascii=False))


def _json(table: Table) -> dict[str, Any]:
    columns = [
        {
            "title": one.title,
            "unit": one.quantity.unit if one.quantity else None,
            "meaning": one.meaning or None,
        }
        for one in table.columns
    ]
    rows = [
        {
            "cells": {
                column.title: plain(cell.text)
                if cell.value is None
                else {name: value for name, value in vars(cell).items() if value is not None}
                for column, cell in zip(table.columns, row.cells, strict=True)
            },
            "marks": [{"code": one.code, "text": one.text} for one in row.marks],
        }
        for row in table.rows
    ]
    return {"columns": columns, "rows": rows, "notes": list(_sentences(table))}


def _sentences(table: Table) -> Iterator[str]:
    for note in (table.legend, *table.notes):
        yield from map(plain, note.lines if isinstance(note, Bullets) else filter(None, [note]))


def as_csv(blocks: Iterable[Block]) -> str:
    """All tables below each other, with the headings that each stands under in the first column."""
    import pandas as pd

    rows = [{"Section": section} | _named(one, row) for section, one in _sections(blocks) for row in one.rows]
    return csv_text(pd.DataFrame(rows))


def _named(table: Table, row: Row) -> dict[str, Any]:
    """The values of a row by title, each with its bounds; the text where there is no value."""
    found: dict[str, Any] = {}
    for column, cell in zip(table.columns, row.cells, strict=True):
        found[column.title] = plain(cell.text) if cell.value is None else cell.value
        if cell.low is not None:
            found |= {f"{column.title}, low": cell.low, f"{column.title}, high": cell.high}
    return found | {"Marks": " ".join(one.code for one in row.marks) or None}


def csv_text(frame: "pd.DataFrame") -> str:
    """The rows as CSV; a text that begins like a formula has an apostrophe before it, which makes it a text
    to a spreadsheet."""
    cells = frame.map(_csv_cell)
    cells.columns = [_csv_cell(name) for name in frame.columns]
    return cells.to_csv(index=False)


def _csv_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    said = one_line(value)
    return f"'{said}" if said.startswith(_FORMULA) else said


def _sections(blocks: Iterable[Block]) -> Iterator[tuple[str, Table]]:
    """Every table, and the headings that it stands under."""
    under: dict[int, str] = {}
    for block in blocks:
        if isinstance(block, Heading):
            under = {level: said for level, said in under.items() if level < block.level}
            under[block.level] = plain(block.text)
        elif isinstance(block, Table) and block:
            yield " / ".join(under.values()), block


# --- terminal ----------------------------------------------------------------------------------------------


def show(blocks: Iterable[Block], console: "Console") -> None:
    """Print the blocks. A table that is too wide has the columns that are asked for most, or a paragraph for
    each row."""
    from rich.markdown import Markdown

    is_first = True
    for block in (one for one in blocks if one):
        is_rich = isinstance(block, Bullets) or (isinstance(block, Table) and _width(block) <= console.width)
        if not is_first and not is_rich:  # before a list and a table rich itself leaves a line empty
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


def console_of_output() -> "Console":
    """The terminal: bold stands for worse, italics for better."""
    from rich.console import Console
    from rich.theme import Theme

    return Console(
        theme=Theme({"markdown.strong": "bold red", "markdown.em": "green", "markdown.code": "cyan"})
    )


def _show_table(table: Table, console: "Console") -> None:
    from rich.markdown import Markdown

    shown = table
    if _width(table) <= console.width:
        console.print(Markdown(_grid(table)))
    elif lines := _narrow(table, console.width):
        narrow = [one for one in table.columns if one.narrow is not None]
        shown = dataclasses.replace(
            table, columns=[dataclasses.replace(one, title=one.narrow or one.title) for one in narrow]
        )
        console.print("\n".join(lines), markup=False, highlight=False)
    else:
        console.print("\n".join(_folded(table, console.width)), markup=False, highlight=False)
    further = below(shown)
    if further and not isinstance(further[0], Bullets):
        console.print()
    show(further, console)


def _width(table: Table) -> int:
    """The columns of a terminal that the table takes."""
    lines = [[plain(cell) for cell in line] for line in (table.titles, *table.texts)]
    return sum(max(map(len, cells)) + 2 for cells in zip(*lines, strict=True))


def _narrow(table: Table, width: int) -> list[str]:
    """The columns that have a narrow title, of which the first is a heading where rows share its cells;
    nothing where there are none, or where they are too wide too."""
    kept = [place for place, one in enumerate(table.columns) if one.narrow is not None]
    if not kept:
        return []
    columns = [table.columns[place] for place in kept]
    letters = range(len(table.columns), len(table.titles))
    rows = [[plain(cells[place]) for place in (*kept, *letters)] for cells in table.texts]
    titles = [*(one.narrow or "" for one in columns), *("" for _ in letters)]
    sides = [*(one.is_number for one in columns), *(False for _ in letters)]
    has_heads = len({row[0] for row in rows}) < len(rows)
    start = 1 if has_heads else 0
    widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
    gaps = ["  " if title else " " for title in titles]
    gaps[start] = ""

    def line(cells: Sequence[str]) -> str:
        padded = _padded(cells[start:], widths[start:], sides[start:])
        return "".join(map("".join, zip(gaps[start:], padded, strict=True))).rstrip()

    lines, head = [line(titles)], ""
    for row in rows:
        if has_heads and row[0] != head:
            head = row[0]
            lines.append(head)
        lines.append(line(row))
    return lines if max(map(len, lines)) <= width else []


def _folded(table: Table, width: int) -> Iterator[str]:
    """A paragraph for each row, which begins with its first cell and names the column of each other one."""
    _, *titles = map(plain, table.titles)
    for row in table.texts:
        first, *others = map(plain, row)
        said = [
            f"{title}: {cell}" for title, cell in zip(titles, others, strict=True) if cell not in ("", "-")
        ]
        yield textwrap.fill("; ".join([first, *said]), width, subsequent_indent="   ")


# --- any of them -------------------------------------------------------------------------------------------

RENDERINGS: Mapping[str, Callable[[Sequence[Block]], str]] = {
    "markdown": markdown,
    "html": html,
    "json": as_json,
    "csv": as_csv,
}
"""The renderings to standard output by name; `show` prints to a terminal."""


def print_as(form: str, blocks: Sequence[Block]) -> None:
    """Print the blocks in a form: one of RENDERINGS, or `terminal`."""
    if form == "terminal":
        show(blocks, console_of_output())
    else:
        print(RENDERINGS[form](blocks).rstrip("\n"))
