"""Markdown tables of plain text."""

from collections.abc import Iterable, Sequence

from reports.record.foreign import in_markdown, one_line

_LONGEST = 5000
"""Characters of a cell or a line; the longest reason why no speed is shown has some hundreds a load point."""


class Emphasised(str):
    """Text of whatever origin that is emphasised, as markdown: it is escaped, and `text` and `markdown` leave it as it is.

    There is no other way to emphasise: asterisks in a text are shown as what they are."""

    __slots__ = ()

    def __new__(cls, parts: Iterable[tuple[str, str]], between: str = "; ") -> "Emphasised":
        """Each part with its sign, such as `**`, around it. One that is emphasised already stays as it is."""
        return super().__new__(cls, between.join(f"{sign}{text(part)}{sign}" for sign, part in parts))


def bold(value: str) -> Emphasised:
    """Text of whatever origin in bold."""
    return Emphasised([("**", value)])


def italic(value: str) -> Emphasised:
    """Text of whatever origin in italics."""
    return Emphasised([("*", value)])


def joined(values: Iterable[str], between: str) -> Emphasised:
    """Texts of which some are emphasised, with what stands between any two."""
    return Emphasised((("", value) for value in values), between)


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


def code(value: str) -> str:
    """Text of whatever origin as code on one line; a backtick, which would end it, becomes an apostrophe."""
    return f"`{one_line(value, _LONGEST).replace('`', chr(39)) or ' '}`"


def text(value: str) -> str:
    """Text of whatever origin on one line, harmless wherever it stands: no table, HTML, link or picture comes of it.

    Code in backticks stays what it is, since sentences of this suite have it, and so does what is Emphasised. It is escaped once:
    what it gave, and what is given to `markdown`, is not to be escaped before.
    """
    return value if isinstance(value, Emphasised) else in_markdown(value, _LONGEST)
