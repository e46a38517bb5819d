"""Two users of one thing at once: runs of one case, a checkpoint changed in mid-run, a server of somebody else."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np

from fixtures.serve.launch import serve
from fixtures.serve.server_spec import ServerSpec
from tests.faults.classifier import write_network
from tests.faults.place import MODEL, OWN, OWN_SERVED, PASSED, Place, ProgramResult, Scenario


def _one_case(place: Place) -> ProgramResult:
    """Two runs convert one case, and serve what one of them has converted."""
    (place.folder / "repos").mkdir()
    first = place.start(*OWN_SERVED)
    log = place.log
    second = place.run(*OWN_SERVED)
    status = first.wait(240)
    assert status == PASSED, f"the other ended with {status}:\n{log.read_text()}"
    return second


def _rebuilt_meanwhile(place: Place) -> ProgramResult:
    """Another run converts another checkpoint into the same folder while this one evaluates."""
    place.start(*OWN_SERVED)
    log, evaluation = place.log, place.runs[-1]
    place.says("evaluate through Triton")
    checkpoint = place.folder / "other.onnx"
    write_network(checkpoint, factor=1.01)
    options = ("--models", MODEL, "-k", OWN, "--convert-only", "--checkpoint", f"classifier={checkpoint}")
    conversion = place.run(*options)
    assert conversion.status == PASSED, conversion.text
    assert evaluation.wait(240) == PASSED, log.read_text()
    assert "other.onnx" not in str(place.record(OWN).build)
    return ProgramResult(evaluation.returncode, log.read_text())


@contextlib.contextmanager
def _shared(place: Place) -> Iterator[Any]:
    """A Triton that somebody else started, with a model of the case's name."""
    repository = place.folder / "theirs"
    folder = repository / OWN / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(
        "import numpy as np\nimport triton_python_backend_utils as pb_utils\nclass TritonPythonModel:\n    "
        "def execute(self, requests):\n        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', "
        "np.array([42], np.float32))]) for _ in requests]\n"
    )
    (folder.parent / "config.pbtxt").write_text(
        "backend: 'python'\ninput [{ name: 'IN', data_type: TYPE_FP32, dims: [1] }]\n"
        "output [{ name: 'OUT', data_type: TYPE_FP32, dims: [1] }]\n"
    )
    with serve(
        ServerSpec("embedded"), repository, place.folder / "server.log", device="cpu", open_to_all=True
    ) as server:
        server.client.load_model(OWN)
        yield server


def _answers(server: Any) -> float:
    from tritonclient.grpc import InferInput

    tensor = InferInput("IN", [1], "FP32")
    tensor.set_data_from_numpy(np.zeros(1, np.float32))
    return float(server.client.infer(OWN, [tensor]).as_numpy("OUT")[0])


def _models(server: Any) -> set[tuple[str, str]]:
    index = server.client.get_model_repository_index().models
    return {(model.name, model.state) for model in index if model.state == "READY"}


def _remote_killed(place: Place) -> ProgramResult:
    """The next run removes from a shared server what a killed one has left there, and nothing else."""
    with _shared(place) as server:
        place.start(*OWN_SERVED, "--triton", server.address)
        place.says("evaluate through Triton")
        place.runs[-1].send_signal(signal.SIGKILL)
        ended = place.ends(90)
        place.run(*OWN_SERVED, "--triton", server.address)
        assert _models(server) == {(OWN, "READY")}, f"left on the server: {_models(server)}"
        assert _answers(server) == 42.0
    return ended


SCENARIOS = [
    Scenario("two runs of one case", _one_case, (PASSED,)),
    Scenario("another run converts another checkpoint meanwhile", _rebuilt_meanwhile, (PASSED,)),
    Scenario("SIGKILL to pytest with a remote server", _remote_killed, (-signal.SIGKILL,)),
]
