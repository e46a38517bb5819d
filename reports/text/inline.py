"""Text within a line of markdown: what is emphasised, code, and text of whatever origin, which is escaped
once."""

import re
from collections.abc import Iterable

from reports.record.sanitize import in_markdown, one_line

LONGEST = 5000
"""Characters of a cell or a line; the longest reason why no speed is shown has some hundreds a load point."""


class Emphasised(str):
    """Text of whatever origin that is emphasised, as markdown: it is escaped, and `text` and `markdown` leave
    it as it is.

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


def as_is(value: str) -> Emphasised:
    """A text of the suite's own that is markdown already."""
    return str.__new__(Emphasised, value)


def plain(value: str) -> str:
    """The text without the signs of emphasis and code, and without what escapes others: as a terminal or CSV
    has it."""
    said = re.sub(r"\\(.)|\*+", r"\1", value) if isinstance(value, Emphasised) else value
    return said.replace("`", "")


def code(value: str) -> str:
    """Text of whatever origin as code on one line; a backtick, which would end it, becomes an apostrophe."""
    return f"`{one_line(value, LONGEST).replace('`', chr(39)) or ' '}`"


def text(value: str) -> str:
    """Text of whatever origin on one line, harmless wherever it stands: no table, HTML, link or picture comes
    of it.

    Code in backticks stays what it is, since sentences of this suite have it, and so does what is Emphasised.
    It is escaped once: what it gave, and what is given to `markdown`, is not to be escaped before.
    """
    return value if isinstance(value, Emphasised) else in_markdown(value, LONGEST)
