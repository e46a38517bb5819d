"""Samples in requests, and what a server receives from a real perf_analyzer."""

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests import toy
from tritonproof import client
from tritonproof.client.input_data import MAX_BYTES, InputData, input_data, remaining_data
from tritonproof.client.requests import ServedModel, SharedMemory
from tritonproof.measure import perf_analyzer
from tritonproof.measure.passes import LoadJob
from tritonproof.record.speed import LoadPoint
from tritonproof.serve.loading import load_build
from tritonproof.serve.server import Server
from tritonproof.spec import Tensor

ROWS = np.arange(9, dtype=np.float32)[:, None] * np.ones((1, 4), np.float32)
"""Samples whose every number is their index."""

_NOTING = """
import json, os
def load(artifact, parameters):
    file = open(os.path.join(os.path.dirname(artifact), "seen"), "a", buffering=1)
    def predict(arrays):
        print(json.dumps(arrays[0][:, 0].astype(int).tolist()), file=file)
        return [2 * arrays[0]]
    return predict
"""


@pytest.fixture(scope="module")
def watched(server_of_models: tuple[Server, Path]) -> Iterator[tuple[LoadJob, Path]]:
    """A job of the model, and the file in which it notes the samples of each request."""
    server, folder = server_of_models
    built = toy.make_build(folder, f"W{os.getpid()}", _NOTING)
    model = built.case.model
    with input_data(model, toy.samples_of({model.inputs[0].name: ROWS}), server.scratch) as data:
        load_build(server, built, toy.ONLINE._replace(scenario="offline"))
        served = ServedModel(server, str(built.case), model, data)
        yield LoadJob(served, LoadPoint("offline", 1, 1), "none"), built.artifact.with_name("seen")


@pytest.mark.parametrize("shared_memory", ["system", "none"])
@pytest.mark.parametrize(("batch", "concurrency"), [(1, 1), (2, 1), (4, 3)])
def test_requests_cycle_through_all_samples(
    watched: tuple[LoadJob, Path], shared_memory: SharedMemory, batch: int, concurrency: int
) -> None:
    job, notes = watched
    before = len(notes.read_text().splitlines())
    point = LoadPoint("offline", batch, concurrency)
    perf_analyzer.run_pass(dataclasses.replace(job, point=point, shared_memory=shared_memory), 0.06)
    requests = [tuple(json.loads(line)) for line in notes.read_text().splitlines()[before:]]

    expected = [tuple(map(int, samples)) for samples in job.served.data.requests(batch)]
    assert len(expected) == len(ROWS), "9 has no divisor in common with these batches"
    assert set(requests) == set(expected), "what the record's number of samples stands for"
    if concurrency == 1:
        last = requests[-2 * len(expected) :]  # of the last attempt: a busy machine may need several
        begin = expected.index(last[0])
        assert last == 2 * (expected[begin:] + expected[:begin])
    else:
        for thread in range(concurrency):  # a busy machine may let one wait longer than another
            counts = [requests.count(request) for request in expected[thread::concurrency]]
            assert max(counts) - min(counts) <= 2, "each sends its own in turn"


def data_of(row_bytes: int, count: int = 64) -> InputData:
    rows = np.broadcast_to(np.uint8(0), (count, row_bytes))
    return InputData([str(n) for n in range(count)], {"IN": rows})


@pytest.mark.parametrize("batch", [1, 2, 7, 128])
def test_every_sample_takes_every_batch_position(batch: int) -> None:
    requests = np.array(data_of(100).requests(batch))
    assert len(requests) > 50
    assert all(set(requests[:, position]) == set(range(len(requests))) for position in range(batch))


@pytest.mark.parametrize(
    ("row_bytes", "batch", "most"),
    [(600_000, 8, 13), (600_000, 1, 64), (12_288, 128, 42), (MAX_BYTES, 4, 3), (0, 1, 64)],
)
def test_input_data_stays_within_its_size_limit(row_bytes: int, batch: int, most: int) -> None:
    texts = InputData(data_of(1).ids, {"TEXT": np.full((64, 1), b"x" * row_bytes, object)})
    for data in (data_of(row_bytes), texts):
        assert 3 <= data.sample_count(batch) <= most


@pytest.mark.parametrize(
    ("groups", "sent"),
    [
        ([(1000, 1 << 12)], [4]),
        ([(9, 1 << 15)], [3]),
        ([(9, 1 << 11), (8, 1 << 14), (1, 1)], [7, 0, 1]),
        ([(200, 1), (100, 2), (1, 3)], [42, 21, 1]),
        ([(4, 1), *((1, length) for length in range(2, 80))], [3, *[1] * 61, *[0] * 17]),
    ],
    ids=["64 KiB", "three at least", "one shape is too large", "in proportion", "many shapes"],
)
def test_loaded_samples_of_all_shapes_fit_one_bound(
    groups: list[tuple[int, int]], sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of groups of so many samples of so many FP32 numbers each."""
    monkeypatch.setattr(client.input_data, "MAX_BYTES", 64 << 10)
    rows = [{"IN": np.arange(count, dtype=np.float32)[:, None].repeat(size, 1)} for count, size in groups]
    first, *rest = map(toy.samples_of, rows)
    samples = dataclasses.replace(first, other_shapes=rest)
    model = toy.model(inputs=(Tensor("IN", "FP32", (-1,)),))

    def found(data: InputData) -> list[tuple[int, float]]:
        inputs = [data.inputs([number])["IN"] for number in range(len(data.ids))]
        return [(values.size, values[0, 0]) for values in inputs]

    with input_data(model, samples, None) as data:
        loaded = found(data)
        order = [int(sample) for (sample,) in data.requests(1)]
    assert sorted(order) == list(range(len(loaded)))
    assert (order == sorted(order)) is (len(groups) == 1), "shapes meet in the server"
    assert [sum(size == each for each, _ in loaded) for _, size in groups] == sent
    remaining = [row for data in remaining_data(model, samples) for row in found(data)]
    assert sorted([*loaded, *remaining]) == sorted((size, n) for count, size in groups for n in range(count))


def test_load_data_of_transposed_pictures_are_in_c_order() -> None:
    pictures = toy.samples_of({"IN": np.ones((6, 4, 4, 3), np.float32).transpose(0, 3, 1, 2)})
    with input_data(toy.model(inputs=(Tensor("IN", "FP32", (3, 4, 4)),)), pictures, None) as data:
        assert data.arrays["IN"].flags.c_contiguous
