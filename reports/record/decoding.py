"""JSON to dataclasses by msgspec, where it is installed: some ten times faster than `reports.record.files` by itself.

It says whether a file is a whole one and nothing of what is wrong with it; `files` does, and without msgspec it reads too.
"""

import dataclasses
import functools
import importlib
import operator
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from reports.record import domains
from reports.record.domains import Domain

msgspec: Any
try:
    msgspec = importlib.import_module("msgspec")
except ModuleNotFoundError:  # a bare environment reads the same records, slower
    msgspec = None

_Kind = TypeVar("_Kind")
_KEY = re.compile(rb'"\s*:')
"""Matches at the end of each key in the bytes of JSON, and perhaps within texts."""
VERSION_KEY = "schema"
"""The key that every file has to have, although the values that it is read into have a default for it."""


def plain(kind: type[_Kind], content: bytes) -> _Kind | None:
    """What a file holds, with the attributes of the dataclass `kind`, but for its methods; None where it is not a whole
    one of that kind, or msgspec is not there. Lists are tuples, and an unknown key or a wrong type is refused."""
    return _decoded(kind, content, "decode")


def plain_lines(kind: type[_Kind], content: bytes) -> Sequence[_Kind] | None:
    """What each line holds, as `plain` does; None where one of them is not whole, or msgspec is not there."""
    return _decoded(kind, content, "decode_lines")


def _decoded(kind: Any, content: bytes, method: str) -> Any:
    """What a method of msgspec's decoder gives; None where the content is not whole, or msgspec is not there."""
    if msgspec is None:
        return None
    try:
        return getattr(_decoder(kind), method)(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def may_repeat_a_key(content: bytes) -> bool:
    """Whether an object in JSON may have a key twice, of which every parser keeps one in silence. False is certain."""
    if msgspec is None:
        return True
    try:
        return len(_KEY.findall(content)) > _keys_in(msgspec.json.decode(content))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return True


def _keys_in(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_keys_in, value.values()))
    return sum(map(_keys_in, value)) if isinstance(value, list) else 0


def built(kind: type[_Kind], value: Any) -> _Kind:
    """The dataclass of a value that `plain` gave; the value itself where it is one."""
    of: Any = kind
    return value if isinstance(value, kind) else _builder(of)(value)


@functools.cache
def hints(kind: Any) -> Mapping[str, Any]:
    """The types of a dataclass's fields; finding them takes longer than reading a value."""
    return typing.get_type_hints(kind, include_extras=True)


@functools.cache
def _decoder(kind: Any) -> Any:
    return msgspec.json.Decoder(_mirror(kind))


def _mirror(kind: Any) -> Any:
    """The type that msgspec reads for one of the schema's: a list becomes a tuple, a dataclass a struct of its fields, each
    with its domain."""
    kind, domain = domains.of(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return functools.reduce(operator.or_, map(_mirror, arguments))
    if origin is Sequence:
        return _limited(types.GenericAlias(tuple, (_mirror(arguments[0]), ...)), domain)
    if origin is tuple:
        return types.GenericAlias(tuple, tuple(map(_mirror, arguments)))
    if origin is Mapping:
        keys = _limited(str, domains.KEY)
        return _limited(types.GenericAlias(dict, (keys, _mirror(arguments[1]))), domain)
    is_value_of_ours: bool = dataclasses.is_dataclass(kind)
    return _struct(kind) if is_value_of_ours else _limited(kind, domain)


def _limited(kind: Any, domain: Domain | None) -> Any:
    if domain is None:
        return kind
    limits = {"ge": domain.least, "le": domain.most, "max_length": domain.longest, "pattern": domain.pattern}
    return Annotated[kind, msgspec.Meta(**{name: one for name, one in limits.items() if one is not None})]


@functools.cache
def _struct(kind: Any) -> Any:
    fields: list[Any] = []
    for field in dataclasses.fields(kind):
        known = _mirror(hints(kind)[field.name])
        if field.default is not dataclasses.MISSING and field.name != VERSION_KEY:
            fields.append((field.name, known, field.default))
        elif field.default_factory is not dataclasses.MISSING:
            fields.append((field.name, known, msgspec.field(default_factory=field.default_factory)))
        else:
            fields.append((field.name, known))
    return msgspec.defstruct(
        kind.__name__, fields, forbid_unknown_fields=True, frozen=True, kw_only=True, gc=False
    )


@functools.cache
def _builder(kind: Any) -> Any:
    """A function from a value that msgspec read to that of the schema; None where they are the same."""
    kind, _ = domains.of(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        build = _builder(next(one for one in arguments if one is not types.NoneType))
        return build and (lambda value: None if value is None else build(value))
    if origin in (Sequence, tuple):
        build = _builder(arguments[0])
        return build and (lambda values: tuple([build(value) for value in values]))
    if origin is Mapping:
        build = _builder(arguments[1])
        return build and (lambda values: {name: build(value) for name, value in values.items()})
    return _of_dataclass(kind) if dataclasses.is_dataclass(kind) else None


def _of_dataclass(kind: Any) -> Callable[[Any], Any]:
    fields = [(name, _builder(of)) for name, of in hints(kind).items()]

    def build(value: Any) -> Any:
        return kind(
            **{name: getattr(value, name) if of is None else of(getattr(value, name)) for name, of in fields}
        )

    return build
