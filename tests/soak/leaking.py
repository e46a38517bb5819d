"""A Triton model that leaks at each request or each loading, on a real server."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fixtures.accuracy.compare_answers import Closeness, expect
from fixtures.measure.job import Check, Job
from fixtures.measure.load_data import input_data
from fixtures.serve.launch import serve
from fixtures.serve.server import inputs_of
from fixtures.serve.server_spec import Choice
from fixtures.spec import LoadPoint
from tests import toy

_MODEL = """\
import os, threading
import numpy
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.kept, self.count = [], 0
        {loading}

    def execute(self, requests):
        responses = []
        for request in requests:
            self.count += 1
            {request}
            given = pb_utils.get_input_tensor_by_name(request, "{name}_IN").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("{name}_OUT", given)]))
        return responses
"""
_CONFIG = """\
backend: "python"
max_batch_size: 8
input {{ name: "{name}_IN" data_type: TYPE_FP32 dims: 4 }}
output {{ name: "{name}_OUT" data_type: TYPE_FP32 dims: 4 }}
instance_group {{ count: {instances} kind: KIND_CPU }}
"""
LEAKS = {
    "nothing": "pass",
    "1 KiB": "self.kept.append(os.urandom(1024))",
    "a file": "self.count % 20 or os.open(os.devnull, os.O_RDONLY)",
    "a segment": "self.count % 20 or open(f'/dev/shm/tritonproof-test-{os.getpid()}-{self.count}', 'wb').write(b'x' * (20 << 10))",
}
"""The code that a model runs at each request, by its leak."""


@dataclass(frozen=True)
class Served:
    """A model on its own server."""

    job: Job
    load: Callable[[], None]
    """Unloads the model, loads it, and sends it a request."""


def write(
    repository: Path, name: str, *, request: str = "pass", loading: str = "pass", instances: int = 1
) -> None:
    """Put a model into a repository that runs this code at each request and each loading."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(_MODEL.format(name=name, request=request, loading=loading))
    (version.parent / "config.pbtxt").write_text(_CONFIG.format(name=name, instances=instances))


@contextlib.contextmanager
def served(
    folder: Path, *, request: str = "pass", loading: str = "pass", concurrency: int = 4, instances: int = 2
) -> Iterator[Served]:
    """A real server with a model that runs this code at each request and each loading."""
    name = f"soaked_{os.getpid()}"
    write(folder / "models", name, request=request, loading=loading, instances=instances)
    toy_model = toy.model()
    model = dataclasses.replace(
        toy_model,
        name=name,
        inputs=(dataclasses.replace(toy_model.inputs[0], name=f"{name}_IN"),),
        outputs=(dataclasses.replace(toy_model.outputs[0], name=f"{name}_OUT"),),
    )
    samples = toy.samples()
    renamed = dataclasses.replace(
        samples, load=lambda indices: {f"{name}_IN": samples.load(indices)[toy.INPUT]}
    )
    with (
        serve(Choice("embedded"), folder / "models", folder / "server.log", device="cpu") as server,
        input_data(model, renamed, server.scratch) as data,
    ):
        check = Check(expect(data.ids, {f"{name}_OUT": data.rows[f"{name}_IN"]}), Closeness(1e-6, 1e-6, 1.0))
        point = LoadPoint("online", 1, concurrency)
        sample = {f"{name}_IN": np.ones((1, 4), np.float32)}

        def load() -> None:
            server.unload(name)
            server.client.load_model(name)
            server.client.infer(name, inputs_of(model, sample))

        server.client.load_model(name)
        job = Job(server, name, model, point, "system", data.below(server.scratch), check=check)
        yield Served(job, load)
