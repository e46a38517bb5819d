"""The suite sends models to a Triton that others run, and recognises programs that are not servers."""

import contextlib
import dataclasses
import json
import socketserver
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tritonclient.utils import InferenceServerException

from tests import toy
from tests.helpers import ROOT, wait_until
from tests.serve.programs import HANG_S, doubled_by, port_of, serve_everybody
from tritonproof.base.errors import ProofError, SetupError
from tritonproof.build.builds import CaseBuild
from tritonproof.serve import connection
from tritonproof.serve.connection import http_get
from tritonproof.serve.launch import serve
from tritonproof.serve.loading import lacks_backend, load_build
from tritonproof.serve.remote import connect
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import NativeBackend


@pytest.fixture(scope="module")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Triton as users start it by hand, with a repository that these tests do not write to."""
    log = tmp_path_factory.mktemp("logs") / "server.log"
    with serve_everybody(ServerSpec("embedded"), ServerSetup(models, log, "cpu")) as started:
        yield started


def reached(server: Server) -> contextlib.AbstractContextManager[Server]:
    """That server as a run of the suite reaches it by its address."""
    return serve(ServerSpec("remote", server.address), ServerSetup(Path("unused"), Path("unused"), "cpu"))


@pytest.fixture(scope="module")
def remote(server: Server) -> Iterator[Server]:
    with reached(server) as ours:
        yield ours


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> CaseBuild:
    """A model that doubles its input, in no server's repository."""
    return toy.make_build(tmp_path_factory.mktemp("here"), "sent", toy.DOUBLING)


def ready_on(server: Server) -> set[str]:
    """The names of a server's loaded models."""
    return {model.name for model in server.client.get_inference_statistics().model_stats}


def test_remote_server_keeps_exactly_its_own_models(
    server: Server, sent: CaseBuild, doubling: CaseBuild, tmp_path: Path
) -> None:
    tripling = toy.make_build(tmp_path, "doubling", toy.DOUBLING.replace("2 *", "3 *"))
    assert str(tripling.case) == str(doubling.case), "a name that somebody else's model has"
    load_build(server, doubling, toy.ONLINE)
    before = ready_on(server)
    with reached(server) as ours:
        load_build(ours, tripling, toy.ONLINE)
        load_build(ours, sent, toy.ONLINE)
        assert len(ready_on(server)) == len(before) + 2
        with reached(server) as another:
            load_build(another, sent, toy.ONLINE)
            assert doubled_by(another, sent)
        assert doubled_by(ours, sent)
        assert not doubled_by(ours, tripling)
        assert doubled_by(server, doubling)
    assert ready_on(server) == before
    assert doubled_by(server, doubling)


KILLED = """
import os, sys
from pathlib import Path
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonproof.build.configuration import config_json
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.serve.launch import serve
address, folder = sys.argv[1], Path(sys.argv[2])
config = text_format.Parse((folder / "config.pbtxt").read_text(), ModelConfig())
config.name = ""
files = {f"file:1/{path.name}": path.read_bytes() for path in folder.glob("1/*.*")}
with serve(ServerSpec("remote", address), ServerSetup(None, None, "cpu")) as server:
    server.client.load_model(folder.name + server.suffix, config=config_json(config), files=files)
    os._exit(9)
"""


def leave_a_model(server: Server, sent: CaseBuild) -> None:
    """Start a run that loads a model and then dies."""
    command = [sys.executable, "-c", KILLED, server.address, str(sent.folder)]
    assert subprocess.call(command, cwd=ROOT, timeout=HANG_S) == 9


def test_next_run_removes_leftover_models_on_remote_server(server: Server, sent: CaseBuild) -> None:
    """The server lists a model only once it is loaded, possibly after the next run has begun."""
    before = ready_on(server)
    leave_a_model(server, sent)
    assert ready_on(server) != before
    with reached(server):
        assert ready_on(server) == before
        leave_a_model(server, sent)
        assert ready_on(server) != before
    assert ready_on(server) == before


def test_abandoned_load_leaves_no_model_on_remote_server(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, loaded = ready_on(server), tmp_path / "loaded"
    slow = f"import time\ntime.sleep(4)\nopen({str(loaded)!r}, 'w').close()\n"
    built = toy.make_build(tmp_path, "slow", slow + toy.DOUBLING)
    with reached(server) as ours:
        monkeypatch.setattr(connection, "LOADING_S", 1.0)
        with pytest.raises(ProofError):
            load_build(ours, built, toy.ONLINE)
    wait_until(loaded.exists)
    time.sleep(1)
    assert ready_on(server) == before


def test_replaced_model_leaves_no_copies_on_remote_server(remote: Server, tmp_path: Path) -> None:
    built = toy.make_build(tmp_path, "replaced", toy.DOUBLING)
    content = uuid.uuid4().bytes
    built.artifact.write_bytes(content)

    def copies() -> list[Path]:
        paths = []
        for path in Path("/tmp").glob("folder*/1/model.bin"):
            with contextlib.suppress(OSError):  # another server's, or another user's
                paths += [path] if path.read_bytes() == content else []
        return paths

    load_build(remote, built, toy.ONLINE)
    assert len(copies()) == 1
    load_build(remote, built, toy.ONLINE._replace(scenario="offline"))
    remote.unload(remote.name_of(built.case))
    wait_until(lambda: not copies(), said=copies)


def test_missing_backend_differs_from_backend_error(remote: Server, tmp_path: Path) -> None:
    for backend in ("onnxruntime", "pytorch", "tensorrt"):
        config = json.dumps({"name": "native", "backend": backend, "default_model_filename": "model.bin"})
        with pytest.raises(InferenceServerException) as caught:
            remote.client.load_model("native", config=config, files={"file:1/model.bin": b"weights"})
        assert lacks_backend(caught.value)
    build = toy.make_build(tmp_path, "native", toy.DOUBLING)
    raw = dataclasses.replace(build.case.format, backend=NativeBackend(name="python"))
    case = dataclasses.replace(build.case, format=raw)
    native = dataclasses.replace(build, case=case)
    with pytest.raises(ProofError, match=r"cpu-native-raw-fp32.*model\.(py|bin)"):
        load_build(remote, native, toy.ONLINE)


def test_proxy_is_ignored_for_server_on_this_host(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert connect(ServerSpec("remote", server.address)).version == server.version
    assert b"triton" in http_get(f"127.0.0.1:{port_of(server, 'http')}/v2", HANG_S)


@pytest.mark.parametrize("greeting", [b"HTTP/1.0 200 OK\r\n\r\nhello", b"SSH-2.0-OpenSSH_9.2\r\n", b""])
def test_other_program_is_not_accepted_as_server(greeting: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 0.5)

    class Greeting(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(greeting)
            while self.request.recv(4096):
                pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as listening:
        threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
        address = f"127.0.0.1:{listening.server_address[1]}"
        with pytest.raises(SetupError, check=lambda error: error.where == f"--triton {address}"):
            connect(ServerSpec("remote", address))
        listening.shutdown()
