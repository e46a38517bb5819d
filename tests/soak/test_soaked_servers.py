"""Real servers: a leak of 1 KiB per request is found, and a clean server passes."""

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fixtures.accuracy.compare_answers import AnswerLimits, expect
from fixtures.measure.job import ExpectedAnswers, Job
from fixtures.measure.load_data import input_data
from fixtures.measure.usage import MEMORY, read_usage, watch
from fixtures.serve.launch import serve
from fixtures.serve.server import inputs_of
from fixtures.serve.server_spec import ServerSpec
from fixtures.soak import keep_loaded, load_again, soak_entry
from fixtures.spec import LoadPoint
from reports.record.schema import Soak
from reports.tables.soak import soak_text
from tests.measure.timed_server import write_echoing

pytestmark = pytest.mark.campaign

SECONDS = 40.0
"""Length of a soak: a fifteenth of what users are advised, so a leak adds up to a fifteenth."""
LOADING_S = 540.0
"""A third of it is for loadings: the test needs fourteen, and on a busy machine the Python backend takes
several seconds for each."""
SEGMENT = "open(f'/dev/shm/tritonproof-test-{os.getpid()}-{self.count}', 'wb').write(b'x' * (20 << 10))"
LEAKS = {
    "1 KiB": "self.kept.append(os.urandom(1024))",
    "a file": "self.count % 20 or os.open(os.devnull, os.O_RDONLY)",
    "a segment": f"self.count % 20 or {SEGMENT}",
}
"""The code that a model runs at each request, by its leak."""
LOADING_LEAK = "open(f'/dev/shm/tritonproof-test-{os.getpid()}', 'wb').write(b'x' * (8 << 20))"


def soak(folder: Path, *, loads_again: bool = False, loading: str = "pass", request: str = "pass") -> Soak:
    """Soak a real server whose model runs this code at each loading and each request."""
    name = f"soaked_{os.getpid()}"
    model = write_echoing(folder / "models", name, request=request, loading=loading, instances=2)
    samples = model.samples("evaluation", None, None)
    sample = inputs_of(model, {f"{name}_IN": np.ones((1, 4), np.float32)})
    with (
        serve(ServerSpec("embedded"), folder / "models", folder / "server.log", device="cpu") as server,
        input_data(model, samples, server.scratch) as data,
    ):
        answers = expect(data.ids, {f"{name}_OUT": data.rows[f"{name}_IN"]})
        expected = ExpectedAnswers(answers, AnswerLimits(1e-6, 1e-6, 1.0))
        point, memory = LoadPoint("online", 1, 4), data.below(server.scratch)

        def load() -> None:
            server.unload(name)
            server.client.load_model(name)
            server.client.infer(name, sample)

        server.client.load_model(name)
        read = functools.partial(read_usage, watch(server))
        loaded = keep_loaded(
            Job(server, name, model, point, "system", memory, expected=expected), SECONDS, read
        )
        loadings = load_again(load, LOADING_S, read, most=16) if loads_again else []
        return soak_entry(point, loaded, loadings)


def leaking(found: Soak) -> set[tuple[str, str]]:
    assert found.answers is not None
    assert found.answers.verified > found.answers.wrong == 0
    return {(growth.what, growth.per) for growth in found.growth if growth.verdict == "failed"}


@pytest.fixture
def no_segments_left() -> Iterator[None]:
    """Removes the segments that a model leaked on purpose."""
    yield
    for path in MEMORY.glob("tritonproof-test-*"):
        path.unlink()


@pytest.mark.parametrize(
    ("leak", "what"), zip(LEAKS, ("memory of its stubs", "open files", "shared memory"), strict=True)
)
@pytest.mark.usefixtures("no_segments_left")
def test_leak_per_request_is_found_with_its_size(leak: str, what: str, tmp_path: Path) -> None:
    result = soak(tmp_path, request=LEAKS[leak])

    assert leaking(result) == {(what, "request")}, soak_text(result)
    if leak == "1 KiB":
        slope = next(growth.slope for growth in result.growth if growth.what == what)
        # Python and malloc add less than a tenth to 1,024 bytes.
        assert slope.low < 1.1 * 1024
        assert slope.high > 1024


@pytest.mark.usefixtures("no_segments_left")
def test_leak_per_loading_is_found(tmp_path: Path) -> None:
    result = soak(tmp_path, loads_again=True, loading=LOADING_LEAK)

    assert leaking(result) == {("shared memory", "loading")}, soak_text(result)


def test_clean_server_passes(tmp_path: Path) -> None:
    result = soak(tmp_path, loads_again=True)

    assert {growth.verdict for growth in result.growth} == {"passed"}, soak_text(result)
    assert {growth.per for growth in result.growth} == {"request", "loading"}
