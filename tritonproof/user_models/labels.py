"""Labels of a user's samples, from CSV, JSON or NumPy's files."""

import contextlib
import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.safe_io import arrays, files

_WHAT = "the labels"
_FIX = "see what a file of labels holds in docs/samples.md"


@dataclass(frozen=True)
class LabelOptions:
    """What the command line says about the labels of a model's samples."""

    file: Path
    metric: str
    floor: float | None
    """The limit of the metric; None if only the framework's score limits it."""


def read_labels(path: Path, ids: Sequence[str], every_id: Sequence[str]) -> np.ndarray:
    """The labels of the samples `ids`, [samples, ...], in that order. A CSV file has a sample's name and
    numbers in each line, and perhaps a line of titles; JSON an object, and .npz an array, by the samples'
    names, with or without a file suffix; .npy the labels of all samples in the order of `every_id`. Raises
    InputError for any other file, and if a sample has no label."""
    readers = {
        ".csv": _read_csv,
        ".json": _read_json,
        ".npz": lambda archive: ((name, arrays.array(archive, name)) for name in arrays.members(archive)),
        ".npy": lambda npy_path: _read_array(npy_path, every_id),
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        what = f"labels are in {', '.join(readers)} files"
        raise InputError(what, where=f"--labels {path}", fix="save them as one of these")
    with files.readable(_WHAT, path, _FIX):
        by_name = _by_sample(list(reader(path)), set(ids), path)
    if missing := [name for name in ids if name not in by_name]:
        first = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        fix = "name each label after its sample, which is named after its file; docs/samples.md"
        raise InputError(f"{len(missing)} of {len(ids)} samples have no label: {first}", where=path, fix=fix)
    labels = [by_name[name] for name in ids]
    for name, array in zip(ids, labels, strict=True):
        if array.shape != labels[0].shape:
            shapes = f"{labels[0].shape} and {array.shape}"
            raise _unreadable(path, f"those of {ids[0]} and {name} have different shapes, {shapes}")
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise _unreadable(path, f"the label of {name} is no number; give classes as numbers from 0")
    return np.stack(labels)


_Named = tuple[str, np.ndarray]
"""A name as the file has it, and its label."""


def _by_sample(named: Sequence[_Named], ids: Set[str], path: Path) -> dict[str, np.ndarray]:
    """The labels by sample, whose name has a suffix or none in the file. Raises InputError for several."""
    exact = [(name, value) for name, value in named if name in ids]
    unlabelled = ids - {name for name, _ in exact}
    by_stem = [(stem, value) for name, value in named if (stem := name.rpartition(".")[0]) in unlabelled]
    for name, count in Counter(name for name, _ in (*exact, *by_stem)).items():
        if count > 1:
            raise _unreadable(path, f"the sample {excerpt(name)} has {count} labels; give it one")
    return dict((*exact, *by_stem))


def _read_csv(path: Path) -> Iterator[_Named]:
    text = io.StringIO(files.read_text(path, _WHAT, _FIX), newline="")
    lines = [(number, line) for number, line in enumerate(csv.reader(text), 1) if line]
    for index, (number, (name, *texts)) in enumerate(lines):
        values = []
        with contextlib.suppress(ValueError):
            values = [float(text) if set(text) & set(".eEnN") else int(text) for text in texts]
        if not values and index == 0:  # titles
            continue
        if not values:
            raise _unreadable(path, f"line {number} is not a name and numbers: {excerpt(','.join(texts))!r}")
        yield name.strip(), np.array(values[0] if len(values) == 1 else values)


def _read_json(path: Path) -> Iterator[_Named]:
    entries: Any = files.read_json(path, _WHAT, _FIX)
    if not isinstance(entries, Mapping):
        raise _unreadable(path, "it is no object from samples' names to labels")
    return ((name, np.array(value)) for name, value in entries.items())


def _read_array(path: Path, ids: Sequence[str]) -> Iterator[_Named]:
    values = arrays.array(path)
    if values.ndim == 0 or len(values) != len(ids):
        raise _unreadable(path, f"it holds an array of shape {values.shape} for {len(ids)} samples")
    return zip(ids, values, strict=True)


def _unreadable(path: Path, problem: str) -> InputError:
    return InputError(f"{_WHAT} cannot be read: {problem}", where=path, fix=_FIX)
