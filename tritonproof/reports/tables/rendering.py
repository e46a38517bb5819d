"""Renders tables and text as markdown, HTML and CSV and for a terminal; all text is escaped here, once."""

import dataclasses
import functools
import io
import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tritonproof.base.sanitize import one_line
from tritonproof.record.quantities import NOT_SHOWN, NOTHING
from tritonproof.reports.tables.table import NOTES, Block, Bullets, Column, Heading, Table

if TYPE_CHECKING:
    import pandas as pd
    from markdown_it import MarkdownIt
    from rich.console import Console

_MAX_LINE_CHARS = 5000
"""The most characters of a cell or line. A reason for a hidden speed takes some hundreds a load point."""


def markdown(blocks: Iterable[Block]) -> str:
    return "\n\n".join(_markdown(block) for block in blocks if block)


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {markdown_text(block.text)}"
    if isinstance(block, Bullets):
        return "\n".join(f"- {markdown_text(line)}" for line in block.lines)
    if isinstance(block, Table):
        return "\n\n".join([_grid(block), *map(_markdown, notes_below(block))])
    return markdown_text(block)


def notes_below(table: Table) -> list[Block]:
    """The text below a table: the legend of its columns, its marks, and its notes."""
    return [block for block in (table.legend, Bullets(table.remarks), *table.notes) if block]


def _grid(table: Table) -> str:
    lines = [[markdown_text(cell) for cell in line] for line in (table.titles, *table.texts)]
    widths = [max(3, *map(len, cells)) for cells in zip(*lines, strict=True)]
    ends = (":" if column.is_right_aligned else "-" for column in table.columns)
    rule = ["-" * (width - 1) + end for width, end in zip(widths, ends, strict=True)]
    titles, *rows = (_padded(line, widths, table.columns) for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in (titles, rule, *rows))


def _padded(cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column[Any]]) -> list[str]:
    sides = (">" if column.is_right_aligned else "<" for column in columns)
    return [f"{cell:{side}{width}}" for cell, side, width in zip(cells, sides, widths, strict=True)]


def html(blocks: Iterable[Block], level: int = 3) -> str:
    """The blocks' markdown as HTML, with `level` for the highest heading. Only markup of the suite itself is
    rendered: no name in a record becomes a link, a picture or HTML."""
    parts = list(blocks)
    shift = level - min((part.level for part in parts if isinstance(part, Heading)), default=level)
    parts = [part._replace(level=part.level + shift) if isinstance(part, Heading) else part for part in parts]
    rendered: str = _parser().render(markdown(parts))
    return rendered.replace(' style="text-align:right"', ' class="number"')


@functools.cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("zero").enable(["table", "heading", "list", "backticks", "escape", "emphasis"])
    parser.add_render_rule("table_open", lambda *_: '<div class="wrap"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def as_csv(blocks: Iterable[Block]) -> str:
    """All tables, each after the headings above it. A column of figures has only numbers; columns beside it
    have their bounds, and texts that say more, such as a unit. A missing figure is empty."""
    import pandas as pd

    sections, rows = [*_sections(blocks)], []
    numeric = {
        column.title
        for _, table in sections
        for column, *cells in zip(table.columns, *table.rows, strict=True)
        if column.quantity or any(cell.value is not None for cell in cells)
    }
    for section, table in sections:
        for cells, marks in zip(table.rows, table.marks, strict=True):
            values: dict[str, Any] = {"Section": section}
            for column, cell in zip(table.columns, cells, strict=True):
                title, text = column.title, None if cell.text == NOTHING else plain(cell.text)
                if column is NOTES:  # the column of marks has their codes instead of letters
                    continue
                values[title] = cell.value if title in numeric else text
                if cell.low is not None:
                    values |= {f"{title}, low": cell.low, f"{title}, high": cell.high}
                if title in numeric and text and text != NOT_SHOWN and not _FIGURE.fullmatch(text):
                    values[f"{title}, text"] = text
            rows.append(values | {"Marks": " ".join(mark.code for mark in marks) or None})
    return csv_text(pd.DataFrame(rows))


_FIGURE = re.compile(r"[+-]?[\d.]+(e[+-]\d+)?( ± [\d.-]+( %)?| \([\d.+-]+ (to [\d.+-]+|or more)\))?[+]?")
"""A text that says only its number and its bounds."""


def csv_text(frame: "pd.DataFrame") -> str:
    """The rows as CSV, with an apostrophe before each text that a spreadsheet would take for a formula."""

    def cell(value: Any) -> Any:
        line = one_line(value) if isinstance(value, str) else value
        return f"'{line}" if isinstance(line, str) and line.startswith(("=", "+", "-", "@")) else line

    return frame.map(cell).rename(columns=cell).to_csv(index=False)


def _sections(blocks: Iterable[Block]) -> Iterator[tuple[str, Table]]:
    headings: dict[int, str] = {}
    for block in blocks:
        if isinstance(block, Heading):
            headings = {level: heading for level, heading in headings.items() if level < block.level}
            headings[block.level] = plain(block.text)
        elif isinstance(block, Table) and block:
            yield " / ".join(headings.values()), block


def show(blocks: Iterable[Block], console: "Console", *, is_first: bool = True) -> None:
    """Print the blocks. A table that is too wide shrinks to its main columns, or to a paragraph per row."""
    from rich.markdown import Markdown

    for block in (part for part in blocks if part):
        is_wide = isinstance(block, Table) and _width(block) > console.width
        # rich itself leaves a line empty before a list or a table.
        if not is_first and (is_wide or not isinstance(block, Bullets | Table)):
            console.print()
        if isinstance(block, Table) and is_wide:
            _show_narrowed(block, console)
        else:
            console.print(Markdown(markdown([block])))
        is_first = False


def terminal_text(blocks: Iterable[Block], width: int) -> str:
    from rich.console import Console

    out = io.StringIO()
    show(blocks, Console(file=out, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")


def _width(table: Table) -> int:
    lines = [[plain(cell) for cell in line] for line in (table.titles, *table.texts)]
    return sum(max(map(len, cells)) + 2 for cells in zip(*lines, strict=True))


def _show_narrowed(table: Table, console: "Console") -> None:
    is_main = [column.narrow is not None for column in table.columns]
    columns = itertools.compress(table.columns, is_main)
    main = [dataclasses.replace(column, title=column.narrow or "") for column in columns]
    rows = [[*itertools.compress(cells, is_main)] for cells in table.rows]
    lines = _lines(dataclasses.replace(table, columns=main, rows=rows)) if main else []
    if lines and max(map(len, lines)) <= console.width:
        # Rows keep all their cells: the legend then says why a rank without its ratio is missing.
        table = dataclasses.replace(table, columns=main)
    else:  # a paragraph for each row: its first cell, then the others, each after the title of its column
        lines, (_, *titles) = [], map(plain, table.titles)
        for first, *others in (map(plain, row) for row in table.texts):
            named = zip(titles, others, strict=True)
            parts = [first, *(f"{title}: {cell}" for title, cell in named if cell not in ("", "-"))]
            lines.append(textwrap.fill("; ".join(parts), console.width, subsequent_indent="   "))
    console.print("\n".join(lines), markup=False, highlight=False)
    show(notes_below(table), console, is_first=False)


def _lines(table: Table) -> list[str]:
    """The table as lines without rules; if rows share a first cell, it becomes a heading above them."""
    rows = [[plain(cell) for cell in cells] for cells in table.texts]
    start = 1 if len({row[0] for row in rows}) < len(rows) else 0
    columns = table.columns[start:]
    widths = [max(map(len, cells)) for cells in zip(table.titles, *rows, strict=True)][start:]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(_padded(cells[start:], widths, columns)).rstrip()

    lines = [line(table.titles)]
    for head, group in itertools.groupby(rows, key=lambda row: row[0]):
        lines += [*([head] if start else []), *map(line, group)]
    return lines


RENDERINGS = {"markdown": markdown, "html": html, "csv": as_csv}


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


# Characters that end a cell, begin HTML, an HTML entity, a link or picture (which need a bracket), code,
# struck-out or emphasised text, or escape any of these. An underscore within a word does none of this.
_MARKUP = re.compile(
    r"[\\|\[`*]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|~(?=~)|(?<=~)~|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
)


class Formatted(str):
    """Markdown in which text of foreign origin is escaped already: `markdown_text` and `markdown` leave it
    alone. There is no other way to emphasise: asterisks in a text are shown."""


def bold(value: str) -> Formatted:
    return Formatted(f"**{markdown_text(value)}**")


def italic(value: str) -> Formatted:
    return Formatted(f"*{markdown_text(value)}*")


def join_markdown(values: Iterable[str], between: str) -> Formatted:
    """The texts, of which those that are not Formatted are escaped, joined by `between`."""
    return Formatted(between.join(map(markdown_text, values)))


def plain(value: str) -> str:
    """The text for a terminal or CSV, without Markdown's asterisks, backticks and escapes."""
    unmarked = re.sub(r"\\(.)|\*+", r"\1", value) if isinstance(value, Formatted) else value
    return unmarked.replace("`", "")


def code(value: str) -> str:
    """Text of any origin as code on one line; a backtick, which would end it, becomes an apostrophe."""
    return f"`{one_line(value, _MAX_LINE_CHARS).replace('`', chr(39)) or ' '}`"


def markdown_text(value: str) -> str:
    """Text of any origin on one line, harmless everywhere: it makes no table, HTML, link or picture. Code in
    backticks, which sentences of this suite contain, stays code, and Formatted text stays as it is. Never
    pass escaped text, to this function or to `markdown`: it would be escaped twice."""
    return value if isinstance(value, Formatted) else _escaped(value)


@functools.lru_cache(4096)  # tables repeat most of their texts: it saves a quarter of the time
def _escaped(value: str) -> str:
    line = one_line(value, _MAX_LINE_CHARS)
    # If single backticks are even in number, each second one ends the code that the one before began.
    has_code = line.count("`") % 2 == 0 and "``" not in line
    parts = re.split("(`[^`]*`)", line) if has_code else [line]
    line = "".join(
        part.replace("|", "\\|") if has_code and part.startswith("`") else _MARKUP.sub(r"\\\g<0>", part)
        for part in parts
    )
    if number := re.match(r"\d{1,9}(?=[.)]\s)", line):
        return f"{number[0]}\\{line[number.end() :]}"
    return f"\\{line}" if re.match(r">|(?:#{1,6}|[-+])\s", line) else line
