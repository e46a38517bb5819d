"""What a server really gets of the load data: a real perf_analyzer and a model that notes which sample lies where."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fixtures.measure import perf_analyzer
from fixtures.measure.job import Job, SharedMemory
from fixtures.measure.load_data import input_data
from fixtures.serve.server import Server
from fixtures.spec import LoadPoint
from tests.conftest import DEPLOYMENT, MakeBuild
from tests.toy import samples_of

NAME = f"W{os.getpid()}"
ROWS = np.arange(9, dtype=np.float32)[:, None] * np.ones((1, 4), np.float32)
"""Samples whose every number is their index."""

_NOTING = """
import json, os
def load(artifact, settings):
    file = open(os.path.join(os.path.dirname(artifact), "seen"), "a", buffering=1)
    def predict(arrays):
        print(json.dumps(arrays[0][:, 0].astype(int).tolist()), file=file)
        return [2 * arrays[0]]
    return predict
"""

Seen = Callable[[LoadPoint, SharedMemory], list[tuple[int, ...]]]


@pytest.fixture(scope="module")
def watched(make_build: MakeBuild, server_of_models: tuple[Server, Path]) -> Iterator[tuple[Job, Path]]:
    """A job of the model, and the file in which it notes the samples of each request."""
    server, folder = server_of_models
    built = make_build(folder, NAME, _NOTING)
    model = built.case.model
    with input_data(model, samples_of({model.inputs[0].name: ROWS}), server.scratch) as data:
        server.load(built, DEPLOYMENT, "offline")
        job = Job(server, str(built.case), model, LoadPoint("offline", 1, 1), "none", data)
        yield job, built.artifact.with_name("seen")


@pytest.fixture
def seen(watched: tuple[Job, Path]) -> Seen:
    """The samples of each request of one run, in the order in which the server ran them."""
    job, notes = watched

    def run(point: LoadPoint, shared_memory: SharedMemory) -> list[tuple[int, ...]]:
        before = len(notes.read_text().splitlines())
        perf_analyzer.take(dataclasses.replace(job, point=point, shared_memory=shared_memory), 0.06)
        return [tuple(json.loads(line)) for line in notes.read_text().splitlines()[before:]]

    return run


@pytest.mark.parametrize("shared_memory", ["system", "none"])
@pytest.mark.parametrize(("batch", "concurrency"), [(1, 1), (2, 1), (4, 3)])
def test_requests_walk_through_all_samples_in_turn(
    seen: Seen,
    watched: tuple[Job, Path],
    shared_memory: SharedMemory,
    batch: int,
    concurrency: int,
) -> None:
    found = seen(LoadPoint("offline", batch, concurrency), shared_memory)

    expected = [tuple(map(int, samples)) for samples in watched[0].data.requests(batch)]
    assert len(expected) == len(ROWS), "9 has no divisor in common with these batches"
    assert set(found) == set(expected), (
        "the requests that the record's number of samples and the answers stand for"
    )
    if concurrency == 1:
        assert found[: 2 * len(expected)] == 2 * expected
    else:
        counts = [found.count(request) for request in expected]
        assert max(counts) <= 2 * min(counts) + 4, "none comes far more often than another"
