"""Text of another's making, such as a server's error or a value of a record, made fit to be shown anywhere.

Each medium has more to escape, at its own border: `reports.words.markdown` and the like. It needs the standard library alone.
"""

import re
import reprlib

LONGEST = 2000
"""Characters of a text in a sentence. The longest of this suite's own, all versions of a machine, has some 1,000."""

_SHORT = reprlib.Repr()
_SHORT.maxstring, _SHORT.maxother, _SHORT.maxlevel = 80, 80, 2

# Control characters but for tab and newline, halves of pairs, what no XML has, line ends that only some programs know,
# and marks that turn the direction of what follows.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


def visible(text: str) -> str:
    """The text with what a terminal would obey, and a reader not see, written out: `\\x1b`. Tabs and newlines stay."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def one_line(text: str, longest: int = LONGEST) -> str:
    """The same on one line of at most so many characters, three of which say that some were cut."""
    return cut(" ".join(visible(cut(text, 4 * longest)).split()), longest)


def cut(text: str, longest: int = LONGEST) -> str:
    """The text with what is in the middle of a longer one left out: its end may say what to do."""
    if len(text) <= longest:
        return text
    kept = longest - 3
    return f"{text[: kept - kept // 4]}...{text[len(text) - kept // 4 :]}"


def quoted(value: object) -> str:
    """A value of whatever kind and size as Python writes it, for an error."""
    return one_line(_SHORT.repr(value), 200)
