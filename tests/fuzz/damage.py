"""What a hostile or unlucky file may hold: Hypothesis strategies that start from a correct file."""

import contextlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

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

RAW = st.sampled_from((*_NUMBERS, *_WORDS)) | st.sampled_from(_TEXTS).map(json.dumps)
"""JSON, or what looks like it, in place of a value."""
TOKENS = st.sampled_from((*_NUMBERS, *_WORDS, *_TEXTS)) | st.text(max_size=5)
"""Replacements for a word, a number or a sign of a text."""
_PLACE = "\ue000here\ue000"
_TWIN = "\ue001"
"""Marks a key that must occur twice in an object."""


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


def encoded_otherwise(content: bytes) -> st.SearchStrategy[bytes]:
    """A text in UTF-8 as other programs save it, or with zeros behind it."""
    kinds = st.sampled_from(("utf-16", "utf-16-le", "utf-32", "utf-8-sig"))
    return kinds.map(lambda kind: content.decode().encode(kind)) | st.just(content + bytes(4096))


def text_of(content: bytes) -> st.SearchStrategy[bytes]:
    """The bytes of a text, or the text with some of its words, numbers and signs replaced."""
    parts = re.findall(r"\w+|\s+|[^\w\s]", content.decode())
    edits = st.lists(st.tuples(st.integers(0, max(0, len(parts) - 1)), TOKENS), min_size=1, max_size=3)

    def replaced(changes: list[tuple[int, str]]) -> bytes:
        new = dict(changes)
        words = (new.get(place, part) for place, part in enumerate(parts))
        return "".join(words).encode(errors="surrogatepass")

    return edits.map(replaced) | bytes_of(content) | encoded_otherwise(content)


def json_of(content: bytes) -> st.SearchStrategy[bytes]:
    """A JSON text with one or two values, at any depth, replaced, removed, repeated or put beside an unknown
    key; or other bytes, or the text in another encoding."""
    places = list(_places(json.loads(content)))
    actions = st.sampled_from(("replace", "replace", "drop", "add", "double"))
    change = st.tuples(st.sampled_from(places), actions, RAW)
    changes = st.lists(change, min_size=1, max_size=2)
    changed = changes.map(lambda chosen: _changed(json.loads(content), chosen))
    return changed | bytes_of(content) | encoded_otherwise(content)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        yield from _places(value, (*path, key))


def _changed(tree: Any, changes: Sequence[tuple[tuple[Any, ...], str, str]]) -> bytes:
    whole = {"": tree}
    for number, (path, action, _) in enumerate(changes):
        parent: Any = whole
        *above, last = ("", *path)
        with contextlib.suppress(LookupError, TypeError):  # the other change took the place away
            for key in above:
                parent = parent[key]
            if action == "drop":
                del parent[last]
            elif action == "add" and isinstance(parent, dict):
                parent["unknown"] = f"{_PLACE}{number}"
            elif action == "double" and isinstance(parent, dict):
                parent[f"{last}{_TWIN}"] = f"{_PLACE}{number}"
            else:
                parent[last] = f"{_PLACE}{number}"
    text = json.dumps(whole.get("", "")).replace(json.dumps(_TWIN)[1:-1], "")
    for number, (_, _, raw) in enumerate(changes):
        text = text.replace(json.dumps(f"{_PLACE}{number}"), raw)
    return text.encode()


def archive_of(content: bytes) -> st.SearchStrategy[bytes]:
    """A ZIP archive with one file's bytes changed and new checksums; or other bytes."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    def rewritten(change: tuple[str, bytes]) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in (members | dict([change])).items():
                archive.writestr(name, data)
        return buffer.getvalue()

    inner = st.sampled_from(sorted(members)).flatmap(
        lambda name: st.tuples(st.just(name), bytes_of(members[name]))
    )
    return inner.map(rewritten) | bytes_of(content)


Damage = Callable[[bytes], st.SearchStrategy[bytes]]
"""From a file's correct content to the contents to try."""
