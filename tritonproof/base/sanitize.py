"""Makes foreign text, such as a server's error or a record's value, safe to show anywhere. Markdown, CSV,
pages and annotations escape it where they are written."""

import re

MAX_CHARS = 2000
"""The most characters of a text in a sentence. The longest, all versions of a machine, has some 1,000."""

# Control characters except tab and newline, lone surrogates, characters that XML forbids, line ends that only
# some programs know, and marks that change the direction of text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
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
