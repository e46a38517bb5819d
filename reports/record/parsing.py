"""JSON to the dataclasses of the schema, field by field: what is wrong is named by its key, with what it should be.

It needs the standard library alone. What another made is shown by its text, so that is made `foreign.visible` here.
"""

import dataclasses
import json
import math
import re
import types
import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from reports.record import decoding, domains
from reports.record.domains import Domain
from reports.record.foreign import one_line, quoted, visible

_Kind = TypeVar("_Kind")
_HIDDEN = re.compile(
    rb"[\x7f]|\\u(?:00[01]|007[fF]|00[89]|061[cC]|200[eEfF]|202[89a-eA-E]|206[6-9]|[dD][89a-fA-F]|[fF][eE][fF]{2}|[fF]{3}[eEfF])"
    rb"|\\[bfr]|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xed[\xa0-\xbf]"
    rb"|\xef(?:\xbb\xbf|\xbf[\xbe\xbf])"
)
"""Matches in the bytes of JSON what may be a character that `foreign.visible` writes out."""


class RecordError(Exception):
    """A record file that cannot be used; the message names the file, the key and the cure."""


def is_visible(content: bytes) -> bool:
    """Whether the texts in JSON hold nothing that `foreign.visible` writes out."""
    return _HIDDEN.search(content) is None


def parsed(kind: type[_Kind], content: bytes, version: int, where: str) -> _Kind:
    """The dataclass `kind` of schema `version` that the content of a file holds; raises RecordError, which begins with
    `where` and names the key, where it is not a whole one."""
    try:
        # As UTF-8 without a mark before it, which is JSON's one encoding: Python's parser takes others for bytes.
        data = json.loads(
            content.decode(), parse_constant=_refuse, parse_float=_finite, object_pairs_hook=each_key_once
        )
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else one_line(str(error), 200)
        raise RecordError(f"{where}: not JSON ({why}). Delete it and measure the case again.") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema is None:
        raise RecordError(
            f"{where}: missing key 'schema': this suite did not write it. Take the file out of the folder."
        )
    if schema != version or isinstance(schema, bool):
        raise RecordError(
            f"{where}: schema is {quoted(schema)}, this version reads {version}. Measure the case again, "
            "or read it with the version that wrote it."
        )
    return _parse(kind, data, where)


def _refuse(constant: str) -> None:
    """NaN and the infinities are no JSON, although Python's parser takes them."""
    raise ValueError(f"it holds {constant}")


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for `json.loads`. Of a key that is there twice one value would be lost, and nobody could say which
    was meant: that is a ValueError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"it has the key {one_line(twice, 100)!r} twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def _wrong(where: str, problem: str) -> RecordError:
    return RecordError(f"{where}: {problem}. Delete the file and measure the case again.")


def _parse(kind: Any, value: Any, where: str) -> Any:
    """Turn plain JSON into the dataclass `kind`, checking names, types and domains on the way down."""
    kind, domain = domains.of(kind)
    found = _of_type(kind, value, where, domain)
    if domain is not None and not domains.holds(domain, found):
        raise _wrong(where, f"expected {domain.text()}, found {quoted(value)}")
    return found


def _of_type(kind: Any, value: Any, where: str, domain: Domain | None) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        kind = next(argument for argument in arguments if argument is not type(None))
        return _parse(kind, value, where)
    if dataclasses.is_dataclass(kind):
        return _parse_dataclass(kind, value, where)
    if origin in (Sequence, tuple):
        if not isinstance(value, list):
            raise _wrong(where, f"expected a list, found {quoted(value)}")
        if origin is tuple and len(value) != len(arguments):
            raise _wrong(where, f"expected a list of {len(arguments)}, found {quoted(value)}")
        if domain is not None and not domains.holds(domain, value):
            return value  # before each of its entries is looked at
        return tuple(_parse(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _wrong(where, f"expected an object, found {quoted(value)}")
        if domain is not None and not domains.holds(domain, value):
            return value  # before each of its entries is looked at
        return {
            _parse(Annotated[str, domains.KEY], key, f"{where}: a key"): _parse(
                arguments[1], item, f"{where}.{quoted(key)[1:-1]}"
            )
            for key, item in value.items()
        }
    if origin is Literal:
        if value not in arguments:
            raise _wrong(where, f"expected one of {', '.join(arguments)}, found {quoted(value)}")
        return value
    if kind is float and type(value) is int:
        return float(value) if abs(value) < 2**1023 else value
    if type(value) is not kind:
        raise _wrong(where, f"expected {kind.__name__}, found {quoted(value)}")
    return visible(value) if isinstance(value, str) else value


def _parse_dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, f"expected an object, found {quoted(value)}")
    hints = decoding.hints(kind)
    unknown = sorted(set(value) - set(hints))
    required = {f.name for f in dataclasses.fields(kind) if f.default is f.default_factory}
    missing = sorted(required - set(value))
    if unknown or missing:
        problem = f"unknown key {quoted(unknown[0])}" if unknown else f"missing key {missing[0]!r}"
        raise _wrong(where, problem)
    return kind(**{key: _parse(hints[key], item, f"{where}: {key}") for key, item in value.items()})
