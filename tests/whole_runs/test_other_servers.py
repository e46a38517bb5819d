"""MLServer in place of Triton, with a model of this test."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import wait_until
from tests.whole_runs.suite import suite
from tritonproof.base.errors import SetupError
from tritonproof.host.process import guarded
from tritonproof.serve.kinds import free_ports
from tritonproof.serve.remote import connect
from tritonproof.serve.server_spec import ServerSpec

MODEL = """
import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Model(MLModel):
    asked = 0

    async def predict(self, payload):
        values = NumpyCodec.decode_input(payload.inputs[0])
        Model.asked += 1
        right = (2 * values).astype(np.float32)
        answer = right if self.name == "doubler" else right + Model.asked
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("Y", answer)])
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The gRPC endpoint of MLServer, with a model that doubles and one that adds its number of requests."""
    folder = tmp_path_factory.mktemp("mlserver")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    subprocess.run([folder / "venv" / "bin" / "pip", "install", "--quiet", "mlserver==1.7.1"], check=True)
    ports = free_ports()
    settings = {"host": "127.0.0.1", "parallel_workers": 0}
    settings |= {"http_port": ports.http, "grpc_port": ports.grpc, "metrics_port": ports.metrics}
    (folder / "settings.json").write_text(json.dumps(settings))
    for name in ("doubler", "counter"):
        (folder / name).mkdir()
        (folder / name / f"runtime_{name}.py").write_text(MODEL)
        tensors = {"datatype": "FP32", "shape": [-1, 4]}
        metadata = {"inputs": [{"name": "X", **tensors}], "outputs": [{"name": "Y", **tensors}]}
        settings_of_model = {"name": name, "implementation": f"runtime_{name}.Model", **metadata}
        (folder / name / "model-settings.json").write_text(json.dumps(settings_of_model))
    command = [str(folder / "venv" / "bin" / "mlserver"), "start", str(folder)]
    paths = ":".join(str(folder / name) for name in ("doubler", "counter"))
    endpoint = f"127.0.0.1:{ports.grpc}"

    def is_ready() -> bool:
        try:
            connect(ServerSpec("remote", endpoint)).client.close()
        except SetupError:
            return False
        return True

    with (folder / "log").open("wb") as log:
        environment = {"PYTHONPATH": paths, "PATH": "/usr/bin:/bin", "HOME": str(folder)}
        with guarded(command, environment=environment, output=log, grace_s=5.0):
            wait_until(is_ready, said=(folder / "log").read_text)
            yield endpoint


@pytest.mark.contract
def test_other_server_is_tested_within_its_features(address: str, tmp_path: Path) -> None:
    run = suite("--repository", "remote", "--triton", address, "-v", results=tmp_path)
    right, wrong = run.record("remote-doubler-asis"), run.record("remote-counter-asis")

    assert run.status == 12, run.text  # the counter's answers are wrong
    assert right.serving is not None
    assert (right.serving.kind, right.serving.triton) == ("remote", "mlserver 1.7.1")
    assert right.machine.is_client
    gates = {"repeated", "in-flight", "batches", "transport", "declared"}
    assert {gate.gate for gate in right.gates if not gate.fault} == gates
    assert "repeated" in {gate.gate for gate in wrong.gates if gate.fault}
    assert not right.points, "perf_analyzer needs what the server does not give"
