"""Makes foreign text, such as a server's error or a record's value, safe to show anywhere. Markdown, which
benchmarks and reports both write, is escaped here; CSV, pages and annotations where they are written."""

import functools
import re
from collections.abc import Iterable

MAX_CHARS = 2000
"""The most characters of a text in a sentence. The longest, all versions of a machine, has some 1,000."""
MAX_LINE_CHARS = 5000
"""The most characters of a cell or line. A reason for a hidden speed takes some hundreds a load point."""

# Control characters except tab and newline, lone surrogates, characters that XML forbids, line ends that only
# some programs know, and marks that change the direction of text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)

# Characters that end a cell, begin HTML, an HTML entity, a link or picture (which need a bracket), code,
# struck-out or emphasised text, or escape any of these. An underscore within a word does none of this.
_MARKUP = re.compile(
    r"[\\|\[`*]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|~(?=~)|(?<=~)~|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
)


def is_printable(name: str) -> bool:
    """Whether a name has no control characters, and no surrogates, which stand for bytes not in UTF-8."""
    return re.search("[\x00-\x1f\x7f-\x9f\ud800-\udfff]", name) is None


def visible(text: str) -> str:
    """The text with invisible and control characters escaped: `\\x1b`. Tabs and newlines stay."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def one_line(text: str, longest: int = MAX_CHARS) -> str:
    """The visible text on one line of at most `longest` characters; `...` replaces the middle of a longer."""
    return cut(" ".join(visible(cut(text, 4 * longest)).split()), longest)


def excerpt(text: str, longest: int = 100) -> str:
    """A user's text as an error repeats it: cut, and without anything that a terminal would act on."""
    return one_line(text, longest)


def path_text(path: object, longest: int = MAX_CHARS) -> str:
    """A path on one line of any output: tabs and newlines are escaped too."""
    return cut(visible(str(path)).replace("\n", "\\n").replace("\t", "\\t"), longest)


def cut(text: str, longest: int = MAX_CHARS) -> str:
    """The text, with `...` for its middle if it exceeds `longest` characters: the end may contain the fix."""
    if len(text) <= longest:
        return text
    room = longest - 3
    return f"{text[: room - room // 4]}...{text[len(text) - room // 4 :]}"


def quoted(value: str) -> str:
    """A value for an error, as Python writes it, in at most 80 characters."""
    return one_line(repr(value), 80)


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
    return f"`{one_line(value, MAX_LINE_CHARS).replace('`', chr(39)) or ' '}`"


def markdown_text(value: str) -> str:
    """Text of any origin on one line, harmless everywhere: it makes no table, HTML, link or picture. Code in
    backticks, which sentences of this suite contain, stays code, and Formatted text stays as it is. Never
    pass escaped text, to this function or to `markdown`: it would be escaped twice."""
    return value if isinstance(value, Formatted) else _escaped(value)


@functools.lru_cache(4096)  # tables repeat most of their texts: it saves a quarter of the time
def _escaped(value: str) -> str:
    line = one_line(value, MAX_LINE_CHARS)
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
