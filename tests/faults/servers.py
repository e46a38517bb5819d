"""Addresses without a Triton, and servers that somebody else uses too."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice
from tests.faults.place import OWN, OWN_SERVED, Ended, Place
from tests.faults.scenario import INFRASTRUCTURE, PASSED, REFUSED, Scenario

_Answer = Callable[[socket.socket], None]


@contextlib.contextmanager
def _listening(answer: _Answer) -> Iterator[str]:
    """The address of a server that answers each connection with a function."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=_quietly, args=(answer, connection), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def _quietly(answer: _Answer, connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        answer(connection)


def _speak_http(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def _none(name: str, answer: _Answer) -> Scenario:
    def act(place: Place) -> Ended:
        with _listening(answer) as address:
            return place.run(*OWN_SERVED, "--triton", address, seconds=150)

    return Scenario(f"a server that {name}", act, (INFRASTRUCTURE, REFUSED), names="127.0.0.1")


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
        Choice("embedded"), repository, place.folder / "server.log", device="cpu", open_to_all=True
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


def _same_name(place: Place) -> Ended:
    with _shared(place) as server:
        ended = place.run(*OWN_SERVED, "--triton", server.address)
        assert _answers(server) == 42.0, "somebody else's model is gone"
        assert _models(server) == {(OWN, "READY")}, "something is left on it"
    return ended


def _remote_killed(place: Place) -> Ended:
    with _shared(place) as server:
        place.start(*OWN_SERVED, "--triton", server.address)
        place.says("evaluate through Triton")
        place.runs[-1].send_signal(signal.SIGKILL)
        ended = place.ends(90)
        place.run(*OWN_SERVED, "--triton", server.address)  # the next run cleans up
        assert _models(server) == {(OWN, "READY")}, f"left on the server: {_models(server)}"
        assert _answers(server) == 42.0
    return ended


SCENARIOS = [
    _none("says nothing", lambda _connection: time.sleep(600)),
    _none("speaks HTTP", _speak_http),
    Scenario(
        "a remote server serves somebody's model of the case's name",
        _same_name,
        (PASSED, REFUSED, INFRASTRUCTURE),
    ),
    Scenario("SIGKILL to pytest with a remote server", _remote_killed, (-signal.SIGKILL,)),
]
