"""The user's folder of samples: NumPy's files, pictures, perf_analyzer's JSON, or texts; docs/samples.md."""

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.base.disk import strict_walk
from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt, is_printable
from tritonproof.safe_io.files import MAX_REQUEST_BYTES, readable, size_text
from tritonproof.spec import Arrays, Samples, Tensor, fits
from tritonproof.user_models import media_files
from tritonproof.user_models.media_files import SAMPLES_TOML, SUFFIXES
from tritonproof.user_models.value_files import UserSample, read_numpy_files, read_request_files, shape_text

_KINDS = {
    **dict.fromkeys((".npy", ".npz"), "NumPy's files"),
    **dict.fromkeys(SUFFIXES, "pictures"),
    ".json": "requests",
    ".txt": "texts",
}
CALIBRATION = "calibration"
"""The subfolder of the samples that calibrate INT8."""
_BESIDE = ("labels", "answers", CALIBRATION, "readme", "license")
"""The names, up to the first dot, of files and folders beside samples that are no samples."""


def read_samples(
    folder: Path, inputs: Sequence[Tensor], *, tokenizer: Path | None = None, several: bool = False
) -> Samples:
    """The samples in a folder for a model of these inputs; values are read only when needed. The samples
    decide the length of a dimension of -1, the same for all of them (see `sized_inputs`). With `several`,
    samples of other shapes become `other_shapes` of those of the most frequent shape. An optional input may
    be absent from all samples, but not from only some. `tokenizer` is the folder of a tokenizer.json, for
    texts. The files' names name and order the samples. Raises InputError."""
    samples = _user_samples(folder, inputs, tokenizer)
    names = {name for sample in samples for name in sample.shapes}
    present = [tensor for tensor in inputs if not tensor.optional or tensor.name in names]
    _check(samples, present)
    by_shape: dict[tuple[tuple[int, ...], ...], list[UserSample]] = {}
    for sample in samples:
        by_shape.setdefault(tuple(sample.shapes[tensor.name] for tensor in present), []).append(sample)
    if len(by_shape) > 1 and not several:
        descriptions = [
            f"{' and '.join(map(shape_text, shapes))} in {group[0].where}"
            for shapes, group in list(by_shape.items())[:2]
        ]
        what = f"the samples are of several shapes, of which a batch takes one: {', '.join(descriptions)}"
        fix = f"pad or cut them to one, as {SAMPLES_TOML} does for pictures and texts; or give one shape"
        raise InputError(what, where=folder, fix=fix)

    def of_one_shape(group: Sequence[UserSample]) -> Samples:
        ids = [sample.id for sample in group]
        return Samples(ids, lambda indices: _stack_samples([group[index] for index in indices], present))

    main, *rest = map(of_one_shape, sorted(by_shape.values(), key=len, reverse=True))
    return dataclasses.replace(main, other_shapes=rest)


def sized_inputs(inputs: Sequence[Tensor], samples: Samples) -> tuple[Tensor, ...]:
    """The inputs that the samples contain, with the shapes of the samples."""
    first = samples.read([0])
    return tuple(
        dataclasses.replace(tensor, shape=tuple(first[tensor.name].shape[1:]))
        for tensor in inputs
        if tensor.name in first
    )


def _user_samples(folder: Path, inputs: Sequence[Tensor], tokenizer: Path | None) -> list[UserSample]:
    """The samples in a folder, whose files are of one kind. Raises InputError for several kinds, or none."""
    with readable("the folder of samples", folder, "check the path in --samples"):
        files = _files(folder, {tensor.name for tensor in inputs})
    kinds = dict.fromkeys(_KINDS[path.suffix.lower()] for path in files)
    if len(kinds) > 1:
        what = f"the folder holds samples of several kinds: {' and '.join(kinds)}"
        fix = "keep one kind in a folder; files named labels or answers may lie beside them"
        raise InputError(what, where=folder, fix=fix)
    settings = media_files.read_settings(folder, *([folder.parent] if folder.name == CALIBRATION else []))
    match next(iter(kinds)):
        case "pictures":
            samples = media_files.read_pictures(folder, files, inputs, settings.image)
        case "requests":
            samples = read_request_files(files, inputs)
        case "texts":
            samples = media_files.read_texts(files, inputs, settings.text, tokenizer)
        case _:
            samples = read_numpy_files(files, inputs)
    if not samples:
        raise InputError("the files have no samples", where=next(iter(files)), fix="give at least one")
    return samples


def _files(folder: Path, inputs: Collection[str]) -> dict[Path, str]:
    """The files of samples below a folder, in the order of their stems: the paths below the folder without
    suffixes, which name the samples. Raises InputError for none, or for other files."""
    files = {}
    # Sorted at the end: a wrong folder, such as a home, fails at its first file.
    for path in strict_walk(folder, lambda inside: not _is_beside(inside, folder, inputs), follow_links=True):
        if _is_beside(path, folder, inputs) or path == folder / SAMPLES_TOML or path.is_dir():
            continue
        if path.suffix.lower() not in _KINDS:
            what = "the file is not of a kind that samples can have"
            raise InputError(what, where=path, fix=f"give {', '.join(_KINDS)}, or move it elsewhere")
        files[path] = path.relative_to(folder).with_suffix("").as_posix()
    if not files:
        fix = f"put {', '.join(_KINDS)} files there"
        raise InputError("the folder holds no samples", where=folder, fix=fix)
    return dict(sorted(files.items(), key=lambda entry: entry[::-1]))


def _is_beside(path: Path, folder: Path, inputs: Collection[str]) -> bool:
    """Whether a path is no sample and leads to none. A folder of an input's name leads to samples."""
    parts = path.relative_to(folder).parts
    is_named = parts[0] not in inputs and parts[0].lower().split(".")[0] in _BESIDE
    return is_named or any(part.startswith(".") for part in parts)


def _check(samples: Sequence[UserSample], inputs: Sequence[Tensor]) -> None:
    """Raise InputError if a sample does not fit, or has a name that is taken or that no record can have."""
    locations: dict[str, str] = {}
    for sample in samples:
        if sample.id in locations:
            what = f"two samples are named {sample.id!r}: {locations[sample.id]} and this one"
            raise InputError(what, where=sample.where, fix="give each sample a file name of its own")
        locations[sample.id] = sample.where
        if not is_printable(sample.id):
            name = excerpt(sample.id)
            what = f"the sample's name has control characters, or bytes that are not UTF-8: {name}"
            raise InputError(what, where=excerpt(sample.where), fix="rename the file, which names the sample")
        for tensor in inputs:
            _check_shape(sample, tensor)


def _check_shape(sample: UserSample, tensor: Tensor) -> None:
    shape = sample.shapes.get(tensor.name)
    if shape is None:
        what = f"the sample lacks the input {tensor.name}; it has {', '.join(sample.shapes) or 'nothing'}"
        raise InputError(what, where=sample.where, fix="name what is in the file after the model's inputs")
    if not fits(shape, tensor.shape):
        what = f"the sample is of shape {shape_text(shape)}, and the model takes {shape_text(tensor.shape)}"
        fix = "give rows without the batch, or many in one array, the first axis of which counts them"
        raise InputError(what, where=f"{sample.where}, input {tensor.name}", fix=fix)
    row_bytes = dataclasses.replace(tensor, shape=shape).row_bytes
    if row_bytes > MAX_REQUEST_BYTES:
        what = f"a row of the input {tensor.name} takes {size_text(row_bytes)}, and a request less than 2 GiB"
        raise InputError(what, where=sample.where, fix="give smaller samples, or a model of smaller inputs")


def _row_of(values: Any, tensor: Tensor, where: str) -> np.ndarray:
    """A sample's values in the model's type. Raises InputError if integers get fractions, or on overflow."""
    from tritonclient.utils import triton_to_np_dtype

    array, where = np.asarray(values), f"{where}, input {tensor.name}"
    what = f"the values are of NumPy's type {array.dtype}, and the input is {tensor.dtype}"
    fix = "give values of the type that the model takes"
    target = np.dtype(triton_to_np_dtype(tensor.dtype))  # objects for BYTES
    kinds = {"O": "SUO", "f": "biuf", "u": "biuO"}.get(target.kind, "biu")
    if array.dtype.kind not in kinds:
        raise InputError(what, where=where, fix=fix)
    if target.kind == "O":
        with readable("a text", where, "give texts in Unicode, or bytes"):
            encode = np.vectorize(lambda text: text if isinstance(text, bytes) else str.encode(text), "O")
            return np.asarray(encode(array))
    with np.errstate(over="ignore"), readable("a number", where, fix):
        cast = array.astype(target)
    changed = ~np.isfinite(cast) & np.isfinite(array) if target.kind == "f" else cast != array
    if changed.any():
        what = f"{array[changed].flat[0]} does not fit the input's type {tensor.dtype}"
        raise InputError(what, where=where, fix=fix)
    return cast


def _stack_samples(samples: Sequence[UserSample], inputs: Sequence[Tensor]) -> Arrays:
    """The inputs of the samples, [samples, ...] each, in the model's order. Raises InputError."""
    rows: dict[str, list[np.ndarray]] = {tensor.name: [] for tensor in inputs}
    for sample in samples:
        values = sample.read()
        for tensor in inputs:
            row = _row_of(values[tensor.name], tensor, sample.where)
            rows[tensor.name].append(row.reshape(sample.shapes[tensor.name]))
    return {name: np.stack(input_rows) for name, input_rows in rows.items()}
