"""Samples whose files contain the inputs' values: NumPy's files, and perf_analyzer's input data in JSON, a
list of requests of one row each (source: perf_analyzer r24.10, src/data_loader.cc)."""

import base64
import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.safe_io import arrays
from tritonproof.safe_io.files import MAX_REQUEST_BYTES, check_count, read_json, readable
from tritonproof.spec import ANY, Tensor, fits


@dataclass(frozen=True)
class UserSample:
    """One row of the model's inputs, in a file that is read only when needed."""

    id: str
    """The sample's name: the file's without suffix, and a number if the file has several samples."""
    where: str
    """The file, and the location in it, for errors."""
    shapes: Mapping[str, tuple[int, ...]]
    """The shape of the row in each input, by the input's name."""
    read: Callable[[], Mapping[str, Any]]
    """Reads the row: each input's values by its name, in the shapes above."""


def in_memory(sample_id: str, where: str, row: Mapping[str, np.ndarray]) -> UserSample:
    """A sample whose values are read already."""
    return UserSample(sample_id, where, {name: values.shape for name, values in row.items()}, lambda: row)


def shape_text(shape: Sequence[int]) -> str:
    """A shape as errors show it: 3 x any x 224."""
    lengths = ("any" if length == ANY else str(length) for length in shape)
    return excerpt(" x ".join(lengths)) or "a single value"


def read_numpy_files(files: Mapping[Path, str], inputs: Sequence[Tensor]) -> list[UserSample]:
    """The samples in `files`, each with its stem: arrays in folders of the inputs' names, an archive for each
    sample, or stacks. Raises InputError for a damaged file, or one that belongs to no input."""
    groups: dict[str, dict[str, tuple[Path, str]]] = {}
    for path, stem in files.items():
        for sample_name, name, member in _arrays_of(path, stem, [tensor.name for tensor in inputs]):
            if name in groups.setdefault(sample_name, {}):
                what = f"two files hold the input {name} of the sample {sample_name!r}"
                raise InputError(what, where=path, fix="give each sample a file name of its own")
            groups[sample_name][name] = path, member
    return [sample for name, group in groups.items() for sample in _in_arrays(name, group, inputs)]


def _arrays_of(path: Path, stem: str, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """For each array in a file: the sample's name, the input, and the member of an archive."""
    if path.suffix.lower() == ".npz":
        members = dict.fromkeys(arrays.members(path))
        unknown = [excerpt(name) for name in members if name not in names]
        if len(members) - len(unknown) < len(names) and (unknown or not members):
            what = f"the archive has {', '.join(unknown[:5]) or 'nothing'}, which is no input of the model"
            raise InputError(what, where=path, fix=f"name arrays after inputs: {', '.join(names)}")
        yield from ((stem, name, name) for name in members if name in names)
    elif above := [name for name in names if stem.startswith(f"{name}/")]:
        name = max(above, key=len)
        yield stem.removeprefix(f"{name}/"), name, ""
    elif stem in names:
        yield "sample", stem, ""
    elif len(names) == 1:
        yield stem, names[0], ""
    else:
        fix = f"put it into a folder of its input's name: {', '.join(sorted(names))}"
        raise InputError("the file belongs to none of the model's inputs", where=path, fix=fix)


def _sample_id(stem: str, number: int, count: int) -> str:
    """The name of a sample by its number from 0, in a file with `count` samples."""
    return stem if count == 1 else f"{stem}-{number:0{max(4, len(str(count - 1)))}d}"


def _in_arrays(
    stem: str, group: dict[str, tuple[Path, str]], inputs: Sequence[Tensor]
) -> Iterator[UserSample]:
    """The sample of one array for each input, or the samples along the first axis of these arrays."""
    declared = {tensor.name: tensor.shape for tensor in inputs}
    shapes, counts = {}, {}
    for name, (path, member) in group.items():
        shape, _ = arrays.shape_and_bytes(path, member)
        row = declared.get(name, shape)
        if row == (1,) and len(shape) < 2 and shape != (1,):
            shape = (*shape, 1)  # the axis that Triton has for a single number
        shapes[name] = shape
        if len(shape) == len(row) + 1:
            shapes[name], counts[name] = shape[1:], shape[0]
    where = ", ".join(dict.fromkeys(str(path) for path, _ in group.values()))
    different = {counts.get(name, 1) for name in group}
    if len(different) > 1:
        counted = ", ".join(f"{name} {counts.get(name, 1)}" for name in group)
        what = f"the inputs have different numbers of samples: {counted}"
        raise InputError(what, where=where, fix="give the same number of samples for each input")
    (count,) = different
    check_count(count, where)
    for number in range(count):
        location = where if count == 1 else f"{where}, row {number}"
        read = functools.partial(_read, group, counts.keys(), number)
        yield UserSample(_sample_id(stem, number, count), location, shapes, read)


def _read(group: dict[str, tuple[Path, str]], stacks: Collection[str], number: int) -> dict[str, Any]:
    row = {}
    for name, (path, member) in group.items():
        values = _of_archive(path, member) if member else arrays.array(path)
        row[name] = values[number] if name in stacks else values
    return row


_of_archive = functools.lru_cache(maxsize=4)(arrays.array)
"""An array of an archive, cached: reading a row means to unpack the whole array."""


_FIX = 'write it as perf_analyzer takes it: {"data": [{"INPUT": {"content": [1, 2], "shape": [2]}}]}'


class _Requests(msgspec.Struct):
    data: list[dict[str, Any] | list[dict[str, Any]]]
    """Requests of one row each, or streams of them."""


class _Values(msgspec.Struct, forbid_unknown_fields=True):
    """An input of a request that is written as an object, not as a list of values."""

    content: "list[Any] | _Values" = []
    b64: str | None = None
    shape: tuple[Annotated[int, msgspec.Meta(ge=0, le=MAX_REQUEST_BYTES)], ...] | None = None


def read_request_files(files: Mapping[Path, str], inputs: Sequence[Tensor]) -> list[UserSample]:
    """The samples in `files`, each with its stem. Raises InputError with the location in the file."""
    return [sample for path, stem in files.items() for sample in _in_requests(path, stem, inputs)]


def _in_requests(path: Path, stem: str, inputs: Sequence[Tensor]) -> Iterator[UserSample]:
    what = "the list of requests, `data`,"
    with readable(what, path, _FIX):
        data = msgspec.convert(read_json(path, what, _FIX), _Requests).data
    requests: list[tuple[str, dict[str, Any]]] = []
    for number, entry in enumerate(data):
        if isinstance(entry, list):
            requests += [(f"data[{number}][{step}]", request) for step, request in enumerate(entry)]
        else:
            requests.append((f"data[{number}]", entry))
    check_count(len(requests), path)
    for number, (location, request) in enumerate(requests):
        where = f"{path}, {location}"
        sent = {tensor.name: tensor for tensor in inputs if tensor.name in request}
        row = {name: _values(request[name], tensor, f"{where}.{name}") for name, tensor in sent.items()}
        unknown = [excerpt(name) for name in request if name not in row]
        if unknown and len(row) < len(inputs):
            what = f"a request has {', '.join(unknown[:5])}, which is no input of the model"
            raise InputError(what, where=where, fix=_FIX)
        yield in_memory(_sample_id(stem, number, len(requests)), where, row)


def _values(entry: Any, tensor: Tensor, where: str) -> np.ndarray:
    """An input's values in their shape, from a list, or an object with `content` or `b64`."""
    with readable("an input", where, _FIX):
        encoded = _Values(entry) if isinstance(entry, list) else msgspec.convert(entry, _Values)
        inner = encoded.content if isinstance(encoded.content, _Values) else encoded
        if inner.b64 is not None:
            values = arrays.values_of(base64.b64decode(inner.b64, validate=True), tensor.dtype, (-1,))
            if values is None:
                raise ValueError(f"its bytes are no {tensor.dtype}")
        else:  # NumPy would make fractions of 1 beside 2**63
            values = np.asarray(inner.content, object if tensor.dtype in ("BYTES", "UINT64") else None)
    if encoded.shape is None and fits(values.shape, tensor.shape):
        return values  # nested as the row is
    declared = filled = tensor.shape if encoded.shape is None else encoded.shape
    if declared.count(ANY) == 1:
        length = values.size // max(1, -math.prod(declared))  # as long as the values need
        filled = tuple(length if side == ANY else side for side in declared)
    if ANY in filled or math.prod(filled) != values.size:
        what = f"an input has {values.size} values for the shape {shape_text(declared)}"
        raise InputError(what, where=where, fix=_FIX)
    return values.reshape(filled)
