"""Text within a line of markdown: emphasis, code, and foreign text, which is escaped once."""

import re
from collections.abc import Iterable

from reports.record.sanitize import in_markdown, one_line

LONGEST = 5000
"""Characters of a cell or a line; the longest reason for a hidden speed takes some hundreds a load point."""


class Emphasised(str):
    """Emphasised text of any origin, as escaped markdown that `text` and `markdown` leave alone. There is no
    other way to emphasise: asterisks in a text are shown."""

    __slots__ = ()

    def __new__(cls, parts: Iterable[tuple[str, str]], between: str = "; ") -> "Emphasised":
        """Each part with its sign, such as `**`, around it; an emphasised one stays as it is."""
        return super().__new__(cls, between.join(f"{sign}{text(part)}{sign}" for sign, part in parts))


def bold(value: str) -> Emphasised:
    return Emphasised([("**", value)])


def italic(value: str) -> Emphasised:
    return Emphasised([("*", value)])


def joined(values: Iterable[str], between: str) -> Emphasised:
    """Texts, some of them emphasised, with a separator."""
    return Emphasised((("", value) for value in values), between)


def as_is(value: str) -> Emphasised:
    """Markdown that the suite itself wrote."""
    return str.__new__(Emphasised, value)


def plain(value: str) -> str:
    """The text without signs of emphasis and code, and without escapes, for a terminal or CSV."""
    unmarked = re.sub(r"\\(.)|\*+", r"\1", value) if isinstance(value, Emphasised) else value
    return unmarked.replace("`", "")


def code(value: str) -> str:
    """Text of any origin as code on one line; a backtick, which would end it, becomes an apostrophe."""
    return f"`{one_line(value, LONGEST).replace('`', chr(39)) or ' '}`"


def text(value: str) -> str:
    """Text of any origin on one line, harmless everywhere: it makes no table, HTML, link or picture. Code in
    backticks, which sentences of this suite contain, stays code, and Emphasised text stays as it is. Never
    pass escaped text, to this function or to `markdown`: it would be escaped twice."""
    return value if isinstance(value, Emphasised) else in_markdown(value, LONGEST)
