"""A Triton model that leaks at each request or each loading, on a real server."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests import toy
from tests.measure.timed_server import write_echoing
from tritonproof.accuracy.limits import AnswerLimits, NumberLimits
from tritonproof.client.input_data import input_data
from tritonproof.client.requests import ServedModel
from tritonproof.measure.passes import LoadJob
from tritonproof.record.speed import LoadPoint
from tritonproof.serve.launch import serve
from tritonproof.serve.messages import inputs_of
from tritonproof.serve.server_spec import ServerSetup, ServerSpec

LEAKS = {
    "1 KiB": "self.kept.append(os.urandom(1024))",
    "a file": "self.count % 20 or os.open(os.devnull, os.O_RDONLY)",
    "a segment": "self.count % 20 or open(f'/dev/shm/tritonproof-test-{os.getpid()}-{self.count}', 'wb').write(b'x' * (20 << 10))",
}
"""The code that a model runs at each request, by its leak."""


@dataclass(frozen=True)
class Served:
    """A model on its own server."""

    job: LoadJob
    load: Callable[[], None]
    """Unloads the model, loads it, and sends it a request."""


@contextlib.contextmanager
def served(folder: Path, *, request: str = "pass", loading: str = "pass") -> Iterator[Served]:
    """A real server with a model that runs this code at each request and each loading."""
    name = f"soaked_{os.getpid()}"
    model = write_echoing(folder / "models", name, request=request, loading=loading, instances=2)
    samples = model.samples("evaluation", None, None)
    with (
        serve(ServerSpec("embedded"), ServerSetup(folder / "models", folder / "server.log", "cpu")) as server,
        input_data(model, samples, server.scratch) as data,
    ):
        expected = {f"{name}_OUT": data.arrays[f"{name}_IN"]}
        expected_answers = toy.expected_answers(data.ids, expected, AnswerLimits(NumberLimits(1e-6, 2e-7)))
        sample = {f"{name}_IN": np.ones((1, 4), np.float32)}

        def load() -> None:
            server.unload(name)
            server.client.load_model(name)
            server.client.infer(name, inputs_of(model, sample))

        server.client.load_model(name)
        served_model, point = ServedModel(server, name, model, data), LoadPoint("online", 1, 4)
        yield Served(LoadJob(served_model, point, "system", expected_answers=expected_answers), load)
