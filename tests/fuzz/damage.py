"""What a hostile or unlucky file may hold: Hypothesis strategies that start from a correct file."""

import json
import re
from collections.abc import Callable

from hypothesis import strategies as st

_TEXTS = (
    *("", "\0", "\x1b[31mred", "a\nb", "a\r\n::error::b", "\u202ereversed", "\ud800", "\udcff", "=1+1"),
    *("<script>", "![](http://x)", "../../etc/passwd", "/dev/zero", "x" * 100_000, "%s%n{0}"),
)
"""Texts that a terminal, a page, a file's name or a message must not take as they are."""
_NUMBERS = (
    *("1e999", "-1e999", "9" * 400, "9" * 5000, "-1", "0", "1e-320", "1e308", "-0.0", "0.5", "2e9"),
    *(str(2**53 + 1), str(2**63), str(-(2**63) - 1)),
)
"""Numbers in JSON and TOML that no field should accept unchecked."""
_DEEP = ("[" * 3000 + "]" * 3000, "[" * 100_000, '{"a":' * 3000 + "1" + "}" * 3000)
_WORDS = ("null", "true", "[]", "{}", "[[]]", "NaN", "Infinity", "-Infinity", "[1, [2]]", '{"": 1}', *_DEEP)
TOKENS = (
    st.sampled_from((*_NUMBERS, *_WORDS))
    | st.sampled_from(_TEXTS).map(json.dumps)
    | st.sampled_from(_TEXTS)
    | st.text(max_size=5)
)
"""Replacements for a word, a number or a text in quotes."""


def bytes_of(content: bytes) -> st.SearchStrategy[bytes]:
    """Any bytes, or those of a file with a few removed, inserted or changed."""
    # A place, the number of bytes to remove there, and the bytes to insert.
    lengths = st.integers(0, 8) | st.integers(0, len(content))
    limits = st.sampled_from((b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\0" * 8, b"\xff\xff\xff\x7f"))
    edit = st.tuples(st.integers(0, len(content)), lengths, st.binary(max_size=8) | limits)

    def edited(edits: list[tuple[int, int, bytes]]) -> bytes:
        changed = content
        for place, length, new in edits:
            changed = changed[:place] + new + changed[place + length :]
        return changed

    return st.binary(max_size=100) | st.lists(edit, min_size=1, max_size=4).map(edited)


def text_of(content: bytes) -> st.SearchStrategy[bytes]:
    """The bytes of a text, or the text with a word, a number or a text in quotes replaced, in JSON a key or a
    value. Of several at once the first error would hide the others."""
    parts = re.split(r'("[^"]*"|[\w.+-]+)', content.decode())
    places = st.sampled_from(range(1, len(parts), 2))

    def replaced(edit: tuple[int, str]) -> bytes:
        place, token = edit
        return "".join((*parts[:place], token, *parts[place + 1 :])).encode(errors="surrogatepass")

    return st.tuples(places, TOKENS).map(replaced) | bytes_of(content)


Damage = Callable[[bytes], st.SearchStrategy[bytes]]
"""From a file's correct content to the contents to try."""
