"""The input data of load: the samples from which requests are made, and perf_analyzer's files of them."""

import base64
import contextlib
import dataclasses
import functools
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.host.scratch import report_full_disk, scratch_folder
from tritonproof.serve.messages import content_bytes, raw_content
from tritonproof.spec import Arrays, Model, Samples

MAX_BYTES = 64 << 20
"""The most bytes of input data from which requests of one batch size are made."""
MAX_SAMPLES = 64
"""The most different samples. With rows of 12 KiB, 64 samples lengthened perf_analyzer's start by 0.03 s and
500 by 0.2 s, and a whole pass is half a second."""
_MIN_SAMPLES = 3
"""The fewest different samples: with one, the answer to the request before looks right, and two are the same
in every even batch."""


@dataclass(frozen=True)
class InputData:
    """The different samples from which requests under load are made, as many as fit a bound, in turn.

    perf_analyzer 2.51 walks the steps of its input data in this order: request k of a pass begins at step
    k x batch, holds the steps that follow, and wraps after the last. Each of several requests in flight has a
    thread, and thread t sends the requests t, t + threads, ... (UpdateJsonData and GetInputData of its
    sources, r24.10). With shared memory it makes a region for each step, which holds a whole batch from that
    step on. tests/client/test_input_data.py watches what a server gets.
    """

    folder: Path
    ids: Sequence[str]
    arrays: Arrays
    """The model's inputs, [samples, ...] each, in the model's order."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """Triton's type of those inputs whose elements differ on the wire from those in memory."""
    shaped: Collection[str] = ()
    """The inputs with a variable dimension, whose shape is in every request."""
    other_shapes: Sequence["InputData"] = ()
    """Samples of other shapes, for requests of one sample: perf_analyzer makes no mixed batches."""

    @functools.cached_property
    def row_bytes(self) -> int:
        """The bytes of the largest sample."""
        sizes = [map(content_bytes, rows) for rows in self.arrays.values()]
        return max(map(sum, zip(*sizes, strict=True)), default=0)

    def count(self, batch: int) -> int:
        """How many different samples the requests of a batch size use: if possible coprime to the batch size,
        so that every sample occurs at every place of a batch."""
        fitting = max(_MIN_SAMPLES, MAX_BYTES // max(1, self.row_bytes * batch))
        limit = min(fitting, len(self.ids))
        return next((count for count in range(limit, 1, -1) if math.gcd(count, batch) == 1), limit)

    def other_shapes_for(self, batch: int) -> Sequence["InputData"]:
        """The samples of other shapes that requests of a batch size use too."""
        return self.other_shapes if batch == 1 else ()

    def requests(self, batch: int) -> list[np.ndarray]:
        """The samples of each different request of a batch size, by their indices, in sending order."""
        count = self.count(batch)
        return [(number * batch + np.arange(batch)) % count for number in range(count)]

    def inputs(self, samples: Sequence[int] | np.ndarray) -> Arrays:
        """The model's inputs of a request that holds these samples, by their indices, [batch, ...] each."""
        return {name: values[np.asarray(samples)] for name, values in self.arrays.items()}

    def path(self, batch: int) -> Path:
        """Where `written_file` is for a batch size; it may not exist yet."""
        suffix = "-and-others" if self.other_shapes_for(batch) else ""
        return self.folder / f"{self.count(batch)}{suffix}.json"

    def written_file(self, batch: int) -> Path:
        """The file for perf_analyzer's --input-data with the samples for a batch size, made if missing."""
        path = self.path(batch)
        if not path.exists():
            other_shapes = self.other_shapes_for(batch)
            parts = [(self, self.count(batch)), *((data, len(data.ids)) for data in other_shapes)]
            steps = [
                {name: self._content(name, values[sample]) for name, values in data.arrays.items()}
                for data, count in parts
                for sample in range(count)
            ]
            with report_full_disk(self.folder):
                whole = path.with_suffix(".part")
                whole.write_text(json.dumps({"data": steps}))
                whole.replace(path)
        return path

    def _content(self, name: str, row: np.ndarray) -> dict[str, Any]:
        content = {"b64": base64.b64encode(raw_content(row, self.dtypes.get(name, ""))).decode()}
        return {**content, "shape": list(row.shape)} if name in self.shaped else content


@contextlib.contextmanager
def input_data(model: Model, samples: Samples, scratch: Path | None) -> Iterator[InputData]:
    """The first evaluation samples as load data, in a folder below `scratch` that lasts as long as the block.
    perf_analyzer's own floating-point data are random bits, some of them infinities."""
    with scratch_folder("input", scratch) as folder:
        groups = (samples, *samples.other_shapes)
        first, *rest = (_data_of(model, group, range(_count(model, group)), folder) for group in groups)
        yield dataclasses.replace(first, other_shapes=rest)


def remaining_data(model: Model, samples: Samples) -> Iterator[InputData]:
    """All evaluation samples beyond the rows of `input_data`, in parts as large as it, without files."""
    for group in (samples, *samples.other_shapes):
        step = _count(model, group)
        for start in range(step if group is samples else 0, len(group), step):
            yield _data_of(model, group, range(start, min(start + step, len(group))), Path())


def _count(model: Model, samples: Samples) -> int:
    row_bytes = sum(tensor.row_bytes for tensor in model.inputs)
    return min(MAX_SAMPLES, len(samples), max(_MIN_SAMPLES, MAX_BYTES // row_bytes))


def _data_of(model: Model, samples: Samples, indices: range, folder: Path) -> InputData:
    loaded = samples.read(indices)
    tensors = [tensor for tensor in model.inputs if tensor.name in loaded or not tensor.optional]
    rows = {tensor.name: np.ascontiguousarray(loaded[tensor.name]) for tensor in tensors}
    dtypes = {tensor.name: tensor.dtype for tensor in tensors if tensor.dtype in ("BYTES", "BF16")}
    shaped = [tensor.name for tensor in tensors if -1 in tensor.shape]
    return InputData(folder, [samples.ids[index] for index in indices], rows, dtypes, shaped)
