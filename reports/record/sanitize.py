"""Makes foreign text, such as a server's error or a value of a record, fit to be shown anywhere. Markdown,
written on both sides of the records, is escaped here; CSV, pages and annotations at their own borders."""

import functools
import re
import reprlib

LONGEST = 2000
"""Characters of a text in a sentence. This suite's longest, all versions of a machine, has some 1,000."""

_SHORT = reprlib.Repr()
_SHORT.maxstring, _SHORT.maxother, _SHORT.maxlevel = 80, 80, 2

# Control characters but for tab and newline, halves of pairs, what no XML has, line ends that only some
# programs know, and marks that turn the direction of what follows.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, and Python's stand-ins for bytes that are not UTF-8."""

_CODE = re.compile("(`[^`]*`)")
# What would end a cell; HTML; links and pictures, which need a bracket; characters by their HTML name; code,
# struck-out and emphasised text; and what escapes any of these. An underscore within a word is one, and an
# asterisk behind a figure a mark.
_MARKUP = re.compile(
    r"[\\|\[`]|\*(?!(?<=[0-9]\*)\Z)|<(?=[A-Za-z/!?])|&(?=#?\w+;)|~(?=~)|(?<=~)~|"
    r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
)


def is_printable(name: str) -> bool:
    """Whether a name can stand in records and in a line of any output."""
    return _CONTROL.search(name) is None


def visible(text: str) -> str:
    """The text with what is invisible, or what a terminal obeys, escaped: `\\x1b`. Tabs and newlines stay."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def in_json(text: str) -> str:
    """A text of JSON with the same characters escaped as JSON does: `\\u202e`."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str, longest: int = LONGEST) -> str:
    """The visible text on one line of at most so many characters, with `...` if it was cut."""
    return cut(" ".join(visible(cut(text, 4 * longest)).split()), longest)


def path_text(path: object, longest: int = LONGEST) -> str:
    """A path on one line of any output: tabs and newlines are escaped too."""
    return cut(visible(str(path)).replace("\n", "\\n").replace("\t", "\\t"), longest)


def cut(text: str, longest: int = LONGEST) -> str:
    """The text without the middle of a longer one: its end may contain the fix."""
    if len(text) <= longest:
        return text
    kept = longest - 3
    return f"{text[: kept - kept // 4]}...{text[len(text) - kept // 4 :]}"


@functools.lru_cache(maxsize=4096)  # of many records most cells are alike
def in_markdown(text: str, longest: int = LONGEST) -> str:
    """The text on one line of markdown, where it is read as it stands: it makes no table, HTML, link or
    picture. Only code between single backticks is rendered."""
    line = one_line(text, longest)
    # If backticks stand alone and in pairs, each second one ends what the one before began.
    has_code = line.count("`") % 2 == 0 and "``" not in line
    parts = _CODE.split(line) if has_code else [line]
    line = "".join(
        part.replace("|", "\\|") if has_code and part.startswith("`") else _MARKUP.sub(r"\\\g<0>", part)
        for part in parts
    )
    beginning = re.match(r"\d{1,9}(?=[.)]\s)", line)
    if beginning:
        return f"{beginning[0]}\\{line[beginning.end() :]}"
    return f"\\{line}" if re.match(r">|(?:#{1,6}|[-+])\s", line) else line


def quoted(value: object) -> str:
    """Any value as Python writes it, cut, for an error."""
    return one_line(_SHORT.repr(value), 200)
