"""The input data of load: the samples that requests are made of, and perf_analyzer's files of them."""

import base64
import contextlib
import dataclasses
import functools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.host.scratch import report_full_disk, scratch_folder
from tritonproof.serve.messages import content_size_bytes, raw_content
from tritonproof.spec import Arrays, Model, Samples, Tensor

MAX_BYTES = 64 << 20
"""The most bytes of the samples that requests of one batch size are made of."""
MAX_SAMPLES = 64
"""The most different samples. With rows of 12 KiB, 64 samples lengthened perf_analyzer's start by 0.03 s and
500 by 0.2 s, and a whole pass is half a second."""
_MIN_SAMPLES = 3
"""The fewest samples: with one, the answer to an earlier request looks right; with two, in even batches."""


@dataclass(frozen=True)
class InputData:
    """The different samples that requests under load are made of in turn, as many as fit the bounds above.

    perf_analyzer 2.51 walks the steps of its input data in this order: request k of a pass begins at step k x
    batch, holds the steps that follow, and wraps after the last. Each request in flight has a thread, and
    thread t sends the requests t, t + threads, ... (UpdateJsonData and GetInputData of its sources, r24.10).
    With shared memory it makes a region for each step, which holds a whole batch from that step on.
    tests/client/test_input_data.py watches what a server gets.
    """

    ids: Sequence[str]
    """The ids of the samples in `arrays`, then of those in `others`."""
    arrays: Arrays
    """The inputs of the samples of the most frequent shape, [samples, ...] each, in the model's order."""
    others: Sequence[Arrays] = ()
    """The inputs of each sample of another shape, [1, ...] each: perf_analyzer mixes no shapes in a batch."""
    folder: Path | None = None
    """Where perf_analyzer's files of the samples lie; None for samples that only this process sends."""

    @property
    def batchable_count(self) -> int:
        """How many samples, the first ones, have the shape that batches are made of."""
        return len(self.ids) - len(self.others)

    @functools.cached_property
    def sample_bytes(self) -> Sequence[int]:
        return [content_size_bytes(self.inputs([sample])) for sample in range(len(self.ids))]

    def sample_count(self, batch: int) -> int:
        """How many different samples the requests of a batch size use: all if sent alone, else if possible a
        number coprime to the batch size, so that every sample occurs at every position of a batch."""
        if batch == 1:
            return len(self.ids)
        row_bytes = max(1, *self.sample_bytes[: self.batchable_count])
        limit = min(self.batchable_count, max(_MIN_SAMPLES, MAX_BYTES // (row_bytes * batch)))
        return next((count for count in range(limit, 1, -1) if math.gcd(count, batch) == 1), limit)

    def _order(self, batch: int) -> np.ndarray:
        """The samples' indices in perf_analyzer's order; several shapes are shuffled to mix in the server."""
        order = np.arange(self.sample_count(batch))
        return np.random.default_rng(0).permutation(order) if len(order) > self.batchable_count else order

    def requests(self, batch: int) -> list[np.ndarray]:
        """The indices of the samples in each different request of a batch size, in sending order."""
        order = self._order(batch)
        return [order[(number * batch + np.arange(batch)) % len(order)] for number in range(len(order))]

    def inputs(self, sample_indices: Sequence[int] | np.ndarray) -> Arrays:
        """The model's inputs of a request with these samples, given by index, [batch, ...] each."""
        if sample_indices[0] < self.batchable_count:
            return {name: values[np.asarray(sample_indices)] for name, values in self.arrays.items()}
        (sample,) = sample_indices
        return self.others[sample - self.batchable_count]

    def written_file(self, batch: int, model: Model) -> Path:
        """The file for perf_analyzer's --input-data with this batch size, written if it is missing."""
        assert self.folder is not None
        path = self.folder / f"{self.sample_count(batch)}.json"
        if not path.exists():
            declared = {tensor.name: tensor for tensor in model.inputs}
            steps = [
                {name: _content(declared[name], row) for name, (row,) in self.inputs([sample]).items()}
                for sample in self._order(batch)
            ]
            with report_full_disk(self.folder):
                whole = path.with_suffix(".part")
                whole.write_text(json.dumps({"data": steps}))
                whole.replace(path)
        return path


def _content(tensor: Tensor, row: np.ndarray) -> dict[str, Any]:
    content = {"b64": base64.b64encode(raw_content(row, tensor.dtype)).decode()}
    return {**content, "shape": list(row.shape)} if -1 in tensor.shape else content


@contextlib.contextmanager
def input_data(model: Model, samples: Samples, scratch: Path | None) -> Iterator[InputData]:
    """The first evaluation samples as load data, for the length of a block, with a folder below `scratch`.
    perf_analyzer's own floating-point data would be random bits, some of them infinities."""
    with scratch_folder("input", scratch) as folder:
        groups = (samples, *samples.other_shapes)
        chosen = _chosen(groups)
        ids = [name for group, rows in zip(groups, chosen, strict=True) for name in group.ids[: len(rows)]]
        others = [row for rows in chosen[1:] for row in rows]
        yield dataclasses.replace(_data_of(model, ids, chosen[0], others), folder=folder)


def remaining_data(model: Model, samples: Samples) -> Iterator[InputData]:
    """The evaluation samples that `input_data` leaves out, in parts within the same bounds, without files."""
    groups = (samples, *samples.other_shapes)
    for group, start in zip(groups, map(len, _chosen(groups)), strict=True):
        while rows := _chosen([group], start)[0]:
            yield _data_of(model, group.ids[start : start + len(rows)], rows)
            start += len(rows)


def _chosen(groups: Sequence[Samples], start: int = 0) -> list[list[Arrays]]:
    """The samples to send of each group of one shape, from index `start` on, [1, ...] each: first the fewest
    that group 0 needs, then one of each other group, then of all in proportion, within the bounds."""
    turns = (
        (index / len(group) if group_index or index >= _MIN_SAMPLES else -1.0, group_index, index)
        for group_index, group in enumerate(groups)
        for index in range(min(MAX_SAMPLES, len(group) - start))
    )
    chosen: list[list[Arrays]] = [[] for _ in groups]
    left_bytes = MAX_BYTES
    for share, group_index, index in sorted(turns)[:MAX_SAMPLES]:
        if len(chosen[group_index]) == index:  # else an earlier one of this shape did not fit
            row = groups[group_index].read([start + index])
            size = content_size_bytes(row)
            if size <= left_bytes or share < 0:
                chosen[group_index].append(row)
                left_bytes -= size
    return chosen


def _data_of(
    model: Model, ids: Sequence[str], alike: Sequence[Arrays], others: Sequence[Arrays] = ()
) -> InputData:
    names = [tensor.name for tensor in model.inputs if tensor.name in alike[0] or not tensor.optional]
    rows_of = {name: [row[name] for row in alike] for name in names}
    arrays = {name: np.ascontiguousarray(np.concatenate(rows)) for name, rows in rows_of.items()}
    return InputData(ids, arrays, others)
