"""The four ways to have a Triton, proven with the real one wherever no GPU and no Docker engine is needed."""

import contextlib
import dataclasses
import json
import os
import socket
import stat
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from fixtures.build.repository import BuiltModel
from fixtures.errors import InputError, NotAvailableError, ProofError
from fixtures.serve import wheels
from fixtures.serve.backends import local_backends, serves_natively
from fixtures.serve.choice import IMAGE, RELEASE, Choice, in_words, parse_choice
from fixtures.serve.command import Ports, check_docker, docker_command, free_ports
from fixtures.serve.launch import serve
from fixtures.serve.remote import connect
from fixtures.serve.server import Limits, Server, lacks_backend
from tests.conftest import DEPLOYMENT, DOUBLING, MakeBuild, command_line, program_name

EMBEDDED = Choice("embedded")
HANG_S = 30.0  # bounds a hang


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model repository."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def doubling(models: Path, make_build: MakeBuild) -> BuiltModel:
    """A model that doubles its input."""
    return make_build(models, "doubling", DOUBLING)


@pytest.fixture(scope="module")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An embedded Triton for that repository."""
    with serve(EMBEDDED, models, tmp_path_factory.mktemp("logs") / "server.log", device="cpu") as started:
        yield started


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Triton that was started apart, with an empty repository, as the suite finds it by its address."""
    folder = tmp_path_factory.mktemp("remote")
    (folder / "empty").mkdir()
    with (
        serve(EMBEDDED, folder / "empty", folder / "server.log", device="cpu") as theirs,
        serve(Choice("remote", theirs.address), folder / "unused", folder / "no.log", device="cpu") as ours,
    ):
        yield ours


def double(server: Server, build: BuiltModel, values: np.ndarray) -> np.ndarray:
    """What the served model makes of the values."""
    from tritonclient.grpc import InferInput

    tensor = InferInput(build.case.model.inputs[0].name, list(values.shape), "FP32")
    tensor.set_data_from_numpy(values)
    answer = server.client.infer(str(build.case), [tensor], client_timeout=HANG_S)
    result: np.ndarray = answer.as_numpy(build.case.model.outputs[0].name)
    return result


def process_of(server: Server) -> psutil.Process:
    """The process of a server that this test session started."""
    option = f"--grpc-port={server.address.rpartition(':')[2]}"
    (found,) = (
        process
        for process in psutil.Process().children(recursive=True)
        if program_name(process) == "tritonserver" and option in command_line(process)
    )
    return found


def port_of(server: Server, service: str) -> int:
    """The port at which such a server offers http, grpc or metrics."""
    options = dict(part.split("=", 1) for part in process_of(server).cmdline() if "=" in part)
    return int(options[f"--{service}-port"])


def script(path: Path, text: str) -> Path:
    """A program of a few lines of shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


VALUES = np.arange(8, dtype=np.float32).reshape(2, 4)


# --- what --triton means -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("embedded", Choice("embedded")),
        ("docker", Choice("docker", IMAGE)),
        ("docker:", Choice("docker", IMAGE)),
        ("docker:my/triton:1", Choice("docker", "my/triton:1")),
        ("localhost:8001", Choice("remote", "localhost:8001")),
        ("10.0.0.7:65535", Choice("remote", "10.0.0.7:65535")),
        ("gpu-box_2.example.org:8001", Choice("remote", "gpu-box_2.example.org:8001")),
        ("[::1]:8001", Choice("remote", "[::1]:8001")),
    ],
)
def test_an_option_names_a_server(text: str, choice: Choice) -> None:
    assert parse_choice(text) == choice


@pytest.mark.parametrize(
    "text",
    [
        "",
        "embeded",
        "embedded:1",
        ":8001",
        "host",
        "host:",
        "host:0",
        "host:65536",
        "host:http",
        "http://host:8001",
    ],
)
def test_an_option_that_names_no_server_says_what_would(text: str) -> None:
    with pytest.raises(
        InputError, match=r"unknown server .*\n.*--triton\n.*embedded, local\[:PATH\], docker"
    ):
        parse_choice(text)


def test_a_local_server_is_found_by_path_and_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = script(tmp_path / "bin" / "tritonserver", "exit 0")
    assert parse_choice(f"local:{program}") == Choice("local", str(program))
    monkeypatch.setenv("PATH", str(program.parent))
    assert parse_choice("local") == Choice("local", "tritonserver")
    assert local_backends("tritonserver") == tmp_path / "backends"


def test_a_local_server_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no program .*\n.*where: --triton local:/nowhere/triton"):
        parse_choice("local:/nowhere/triton")


def test_the_default_is_local_where_tritonserver_is_on_path_else_embedded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert parse_choice(None) == EMBEDDED
    script(tmp_path / "tritonserver", "exit 0")
    assert parse_choice(None) == Choice("local", "tritonserver")


def test_each_choice_is_described_without_starting_it() -> None:
    assert in_words(EMBEDDED) == (
        "Triton 2.51.0 embedded (nvidia-pytriton 0.7.0), served by Python-backend runtimes"
    )
    assert in_words(Choice("local", "/opt/t")) == "local /opt/t, native backends"
    assert in_words(Choice("docker", IMAGE)) == f"container {IMAGE}, native backends"
    assert in_words(Choice("remote", "host:8001")) == "Triton at host:8001"


# --- embedded ----------------------------------------------------------------------------------------------


def test_the_embedded_server_is_the_release_the_container_has(server: Server) -> None:
    assert server.version == "2.51.0"
    assert RELEASE == "24.10"
    assert server.is_on_this_host


def test_a_model_is_loaded_for_either_scenario_answers_and_is_unloaded(
    server: Server, doubling: BuiltModel
) -> None:
    name = str(doubling.case)
    for scenario, batched in (("offline", False), ("online", True)):
        assert server.load(doubling, DEPLOYMENT, scenario) == "python"  # type: ignore[arg-type]
        assert double(server, doubling, VALUES).tolist() == (2 * VALUES).tolist()
        assert server.client.get_model_config(name).config.HasField("dynamic_batching") is batched
    server.unload(name)
    assert not server.client.is_model_ready(name)


def test_the_server_listens_on_loopback_alone(server: Server) -> None:
    listening = [c.laddr for c in process_of(server).net_connections() if c.status == psutil.CONN_LISTEN]
    assert len(listening) == 3
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_nobody_else_can_read_the_tensors_of_requests(server: Server, doubling: BuiltModel) -> None:
    assert server.scratch is not None
    server.load(doubling, DEPLOYMENT, "offline")
    segments = list(Path("/dev/shm").glob(f"{server.scratch.name}*"))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (server.scratch, *segments)]

    assert segments
    assert {mode & 0o077 for mode in modes} == {0}
    assert "\nUmask:\t0077\n" in Path(f"/proc/{process_of(server).pid}/status").read_text()


def test_the_log_and_nothing_else_is_kept(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    with serve(EMBEDDED, models, tmp_path / "logs" / "server.log", device="cpu") as server:
        process, ports = process_of(server), Ports(*_listening(process_of(server)))
        assert list((tmp_path / "temporary").iterdir()) != []
    assert not process.is_running()
    for port in dataclasses.astuple(ports):
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", port))
    assert "Started GRPCInferenceService" in (tmp_path / "logs" / "server.log").read_text()
    assert list((tmp_path / "temporary").iterdir()) == []


def _listening(process: psutil.Process) -> list[int]:
    return [c.laddr.port for c in process.net_connections() if c.status == psutil.CONN_LISTEN]


def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_host(
    models: Path, doubling: BuiltModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serve(EMBEDDED, models, tmp_path / "log", device="cpu", ready_s=HANG_S) as server:
        server.load(doubling, DEPLOYMENT, "online")
        assert connect(server.address).version == "2.51.0"


def test_ports_are_three_and_free() -> None:
    ports = dataclasses.astuple(free_ports())
    assert len(set(ports)) == 3
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


# --- models that do not load -------------------------------------------------------------------------------


def test_a_model_that_does_not_load_is_an_error_with_the_end_of_the_log(
    server: Server, models: Path, make_build: MakeBuild
) -> None:
    bad = make_build(models, "bad", "def load(artifact, settings):\n    raise ValueError('upside down')\n")
    with pytest.raises(ProofError) as caught:
        server.load(bad, DEPLOYMENT, "online")
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("Triton did not load cpu-bad-raw-fp32: ")
    assert f"  | the end of {server.log}:" in rest
    assert any("failed to load 'cpu-bad-raw-fp32'" in line for line in rest)
    assert f"  where: {bad.folder}" in rest


def test_a_model_that_ends_its_own_process_is_an_error(
    server: Server, models: Path, make_build: MakeBuild, doubling: BuiltModel
) -> None:
    source = "import os\ndef load(artifact, settings):\n    os._exit(3)\n"
    with pytest.raises(ProofError, match="Triton did not load cpu-exiting-raw-fp32"):
        server.load(make_build(models, "exiting", source), DEPLOYMENT, "online")
    assert server.load(doubling, DEPLOYMENT, "online") == "python"


def test_a_server_that_dies_while_loading_is_said_to_have_ended(
    models: Path, make_build: MakeBuild, tmp_path: Path
) -> None:
    source = "import os\ndef load(artifact, settings):\n    os.kill(os.getppid(), 9)\n"
    deadly = make_build(models, "deadly", source)
    with serve(EMBEDDED, models, tmp_path / "log", device="cpu") as server:
        for _once_and_again in range(2):
            with pytest.raises(
                ProofError, match="Triton ended, or answers no more, while it loaded cpu-deadly"
            ):
                server.load(deadly, DEPLOYMENT, "online")
        assert "loading: cpu-deadly-raw-fp32" in server.log_tail()


def test_a_server_that_hangs_is_given_up(
    models: Path, doubling: BuiltModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(EMBEDDED, models, tmp_path / "log", device="cpu") as started:
        server = dataclasses.replace(started, limits=Limits(0.5, 0.5, 0.5))
        process = process_of(server)
        process.suspend()
        began = time.monotonic()
        with pytest.raises(ProofError, match="answers no more"):
            server.load(doubling, DEPLOYMENT, "online")
        with pytest.raises(Exception, match="Deadline Exceeded"):
            server.unload(str(doubling.case))
    assert not process.is_running()
    assert time.monotonic() - began < HANG_S


# --- remote ------------------------------------------------------------------------------------------------


def test_a_remote_server_gets_the_model_with_its_files(remote: Server, doubling: BuiltModel) -> None:
    assert remote.kind == "remote"
    assert remote.log is None
    assert remote.log_tail() == ""
    assert remote.load(doubling, DEPLOYMENT, "online") == "python", "it has no native backend"
    assert double(remote, doubling, VALUES).tolist() == (2 * VALUES).tolist()
    remote.unload(str(doubling.case))
    assert not remote.client.is_model_ready(str(doubling.case))


def test_a_remote_server_keeps_nothing_of_a_model_that_was_replaced(
    remote: Server, models: Path, make_build: MakeBuild
) -> None:
    build = make_build(models, "sent", DOUBLING)
    content = uuid.uuid4().bytes
    build.artifact.write_bytes(content)

    def copies() -> list[Path]:
        found = Path("/tmp").glob("folder*/1/model.bin")
        return [path for path in found if path.read_bytes() == content]

    remote.load(build, DEPLOYMENT, "online")
    assert len(copies()) == 1
    remote.load(build, DEPLOYMENT, "offline")
    remote.unload(str(build.case))

    deadline = time.monotonic() + HANG_S
    while copies() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert copies() == []


@pytest.mark.parametrize("backend", ["onnxruntime", "pytorch", "tensorrt"])
def test_the_suite_knows_triton_s_words_for_a_missing_backend(remote: Server, backend: str) -> None:
    config = json.dumps({"name": "native", "backend": backend, "default_model_filename": "model.bin"})
    with pytest.raises(Exception) as caught:  # noqa: PT011 - tritonclient's own, imported where it is used
        remote.client.load_model("native", config=config, files={"file:1/model.bin": b"weights"})
    assert lacks_backend(str(caught.value))


def test_an_error_of_the_native_backend_is_not_taken_for_a_missing_one(
    remote: Server, tmp_path: Path, make_build: MakeBuild
) -> None:
    build = make_build(tmp_path, "native", DOUBLING)
    format_ = dataclasses.replace(build.case.format, backend="python")
    native = dataclasses.replace(build, case=dataclasses.replace(build.case, format=format_))
    with pytest.raises(ProofError, match=r"Triton did not load cpu-native-raw-fp32: .*model\.(py|bin)"):
        remote.load(native, DEPLOYMENT, "online")


def test_nobody_listens() -> None:
    address = f"127.0.0.1:{free_ports().grpc}"
    with pytest.raises(InputError, match=rf"no Triton answers .*\n.*--triton {address}\n.*gRPC port"):
        connect(address)


def test_the_http_port_is_recognised(server: Server) -> None:
    with pytest.raises(InputError, match=r"this is Triton's HTTP port\n.*\n.*give its gRPC port"):
        connect(f"127.0.0.1:{port_of(server, 'http')}")


class _WebServer(BaseHTTPRequestHandler):
    body, status = b"hello", 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class _OtherInterface(_WebServer):
    body = b'{"name": "not triton"}'


class _NotFound(_WebServer):
    status = 404


@pytest.mark.parametrize("handler", [_WebServer, _OtherInterface, _NotFound])
def test_a_web_server_is_not_taken_for_triton(handler: type[_WebServer]) -> None:
    with HTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        with pytest.raises(InputError, match="the port is in use by a program that is not Triton"):
            connect(f"127.0.0.1:{web.server_port}")
        web.shutdown()


@contextlib.contextmanager
def listener(greeting: bytes | None) -> Iterator[str]:
    """A program that greets whoever connects, or (None) never says anything."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        sock.settimeout(HANG_S)
        kept = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    kept.append(sock.accept()[0])
                    if greeting:
                        kept[-1].sendall(greeting)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{sock.getsockname()[1]}"
        sock.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in kept:
            connection.close()


def test_a_program_with_a_protocol_of_its_own_is_not_taken_for_triton() -> None:
    with (
        listener(b"SSH-2.0-OpenSSH_9.2\r\n") as address,
        pytest.raises(InputError, match="the port is in use by a program that is not Triton"),
    ):
        connect(address)


def test_a_program_that_never_answers_is_given_up() -> None:
    started = time.monotonic()
    with listener(None) as address, pytest.raises(InputError, match="no Triton answers"):
        connect(address, answer_s=0.5, probe_s=0.5)
    assert time.monotonic() - started < HANG_S


# --- local -------------------------------------------------------------------------------------------------


def wrapper(folder: Path, options: str = "") -> Path:
    """The embedded Triton laid out as an installed one: bin/tritonserver and backends/ beside it."""
    backends = wheels.backend_folder(folder)
    libraries = f"{wheels.libpython()}:{wheels.triton_libraries()}:$LD_LIBRARY_PATH"
    program = wheels.embedded_triton() / "bin" / "tritonserver"
    return script(
        folder / "bin" / "tritonserver",
        f'export LD_LIBRARY_PATH="{libraries}" PATH="{Path(sys.executable).parent}:$PATH"\n'
        f'exec "{program}" "$@" --backend-directory="{backends}" {options}',
    )


def test_a_local_server_serves_from_its_own_backends(
    models: Path, doubling: BuiltModel, tmp_path: Path
) -> None:
    choice = parse_choice(f"local:{wrapper(tmp_path)}")
    with serve(choice, models, tmp_path / "log", device="cpu") as server:
        assert server.kind == "local"
        assert server.backends == tmp_path / "backends"
        assert server.load(doubling, DEPLOYMENT, "online") == "python"
        assert double(server, doubling, VALUES).tolist() == (2 * VALUES).tolist()


def test_a_server_that_refuses_models_is_an_input_error(
    models: Path, doubling: BuiltModel, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    choice = Choice("local", str(wrapper(tmp_path, "--model-control-mode=none")))
    with (
        serve(choice, tmp_path / "empty", tmp_path / "log", device="cpu") as theirs,
        pytest.raises(InputError, match=r"does not accept models\n.*\n.*--model-control-mode=explicit"),
    ):
        connect(theirs.address).load(doubling, DEPLOYMENT, "online")


def test_a_native_backend_is_preferred_to_the_suite_s_runtime(doubling: BuiltModel, tmp_path: Path) -> None:
    (tmp_path / "onnxruntime").mkdir()
    assert serves_natively(Choice("local", "t"), tmp_path, doubling.case.format)


def test_the_suite_s_runtime_serves_where_only_the_python_backend_is(
    doubling: BuiltModel, tmp_path: Path
) -> None:
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "triton_python_backend_stub").touch()
    assert not serves_natively(Choice("local", "t"), tmp_path, doubling.case.format)


def test_a_format_without_a_native_backend_is_never_served_by_one(
    doubling: BuiltModel, tmp_path: Path
) -> None:
    format_ = dataclasses.replace(doubling.case.format, backend="")
    for name in ("pytorch", "python"):
        (tmp_path / name).mkdir()
    (tmp_path / "python" / "triton_python_backend_stub").write_bytes(b"")

    assert not serves_natively(Choice("local", "t"), tmp_path, format_)
    with pytest.raises(NotAvailableError, match="raw needs a server with the suite's packages"):
        serves_natively(Choice("docker", "image"), None, format_)


@pytest.mark.parametrize(("others", "named"), [((), "none"), (("pytorch", "identity"), "identity, pytorch")])
def test_a_server_with_neither_is_not_available_and_lists_what_it_has(
    doubling: BuiltModel, tmp_path: Path, others: tuple[str, ...], named: str
) -> None:
    for name in others:
        (tmp_path / name).mkdir()
    with pytest.raises(
        NotAvailableError, match=f"needs Triton's onnxruntime or python backend; .* has {named}$"
    ):
        serves_natively(Choice("local", "t"), tmp_path, doubling.case.format)


def test_containers_serve_natively_and_the_embedded_server_does_not(
    doubling: BuiltModel, tmp_path: Path
) -> None:
    assert serves_natively(Choice("docker", IMAGE), None, doubling.case.format)
    assert not serves_natively(EMBEDDED, tmp_path, doubling.case.format)


# --- servers that do not start -----------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that the test can look into."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def start(program: Path, tmp_path: Path, **options: Any) -> None:
    """Start a local server that is expected to fail."""
    with serve(Choice("local", str(program)), tmp_path, tmp_path / "log", device="cpu", **options):
        raise AssertionError("it is taken for a server")


def test_a_server_that_ends_at_once_is_an_error_with_its_output(tmp_path: Path, temporary: Path) -> None:
    program = script(tmp_path / "bin" / "tritonserver", "echo 'libcudart.so.12: cannot open'; exit 1")
    with pytest.raises(ProofError, match=r"Triton ended with status 1 .*\n.*the end of .*\n  \| libcudart"):
        start(program, tmp_path)
    assert list(temporary.iterdir()) == []


def test_only_the_last_lines_of_a_long_log_are_shown(tmp_path: Path) -> None:
    program = script(tmp_path / "bin" / "tritonserver", "seq 1000; exit 1")
    with pytest.raises(ProofError) as caught:
        start(program, tmp_path)
    assert str(caught.value).splitlines()[2:] == [f"  | {n}" for n in range(986, 1001)]
    assert (tmp_path / "log").read_text().startswith("1\n2\n")


def test_a_program_that_cannot_run_is_an_error_with_the_reason(tmp_path: Path) -> None:
    program = script(tmp_path / "bin" / "tritonserver", "exit 0")
    program.write_bytes(b"\x7fELF")
    with pytest.raises(ProofError, match=r"cannot start .*: Exec format error"):
        start(program, tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        "failed to start HTTP service: Unavailable - Socket '127.0.0.1:1' already in use",
        "Bind for 127.0.0.1:1 failed: port is already allocated",
    ],
)
def test_a_taken_port_is_tried_again_with_others(tmp_path: Path, temporary: Path, words: str) -> None:
    program = script(
        tmp_path / "bin" / "tritonserver", f'echo "$@" >> {tmp_path}/starts; echo "{words}"; exit 1'
    )
    with pytest.raises(ProofError, match=r"found its ports in use, 3 times\n.*\n  \| "):
        start(program, tmp_path)
    starts = (tmp_path / "starts").read_text().splitlines()
    assert len(set(starts)) == 3
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("which", ["http", "grpc", "metrics"])
def test_the_real_server_s_words_for_a_taken_port_are_known(
    models: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first = dataclasses.replace(free_ports(), **{which: taken.getsockname()[1]})
        attempts = iter([first, free_ports()])
        with serve(
            EMBEDDED, models, tmp_path / "log", device="cpu", find_ports=lambda: next(attempts)
        ) as server:
            assert server.version == "2.51.0"
    assert next(attempts, None) is None
    assert list(temporary.iterdir()) == []


def test_another_triton_at_the_ports_is_not_taken_for_ours(server: Server, tmp_path: Path) -> None:
    theirs = Ports(*(port_of(server, service) for service in ("http", "grpc", "metrics")))
    program = script(tmp_path / "bin" / "tritonserver", "sleep 600")
    with pytest.raises(ProofError, match="not ready within 1 s"):
        start(program, tmp_path, ready_s=1.0, find_ports=lambda: theirs)


def test_a_server_that_never_gets_ready_is_given_up(tmp_path: Path, temporary: Path) -> None:
    program = script(tmp_path / "bin" / "tritonserver", "echo loading the world; sleep 600")
    with pytest.raises(ProofError, match=r"not ready within 1 s\n.*\n  \| loading the world"):
        start(program, tmp_path, ready_s=1.0)
    assert [p for p in psutil.Process().children(recursive=True) if str(program) in command_line(p)] == []
    assert list(temporary.iterdir()) == []


def test_a_missing_library_leaves_no_folder_behind(
    models: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise InputError("no libpython")

    monkeypatch.setattr(wheels, "libpython", missing)
    with pytest.raises(InputError), serve(EMBEDDED, models, tmp_path / "log", device="cpu"):
        pass
    assert list(temporary.iterdir()) == []


# --- docker ------------------------------------------------------------------------------------------------

PORTS = Ports(http=50000, grpc=50001, metrics=50002)


def docker(device: str = "cuda", shared_memory: str = "system") -> list[str]:
    """The command for a repository below the working directory."""
    return docker_command(
        IMAGE,
        Path("models"),
        PORTS,
        device=device,  # type: ignore[arg-type]
        shared_memory=shared_memory,
        name="tritonproof-1",
    )


def test_the_container_is_named_removed_and_of_nvidia_s_release() -> None:
    command = docker()
    options, inside = command[: command.index("tritonserver")], command[command.index("tritonserver") :]
    assert options[:4] == ["docker", "run", "--rm", "--init"]
    assert "--name=tritonproof-1" in options
    assert options[-1] == IMAGE == "nvcr.io/nvidia/tritonserver:24.10-py3"
    assert {"--id=tritonproof-1", "--model-repository=/models", "--model-control-mode=explicit"} <= set(
        inside
    )


def test_the_container_s_ports_are_published_on_loopback_alone() -> None:
    command = docker()
    published = [part for part in command if part.startswith(("--publish", "-p"))]
    assert published == [f"--publish=127.0.0.1:5000{n}:800{n}" for n in range(3)]
    assert not any(part.startswith(("--net", "-P")) for part in command)
    assert {"--http-port=8000", "--grpc-port=8001", "--metrics-port=8002"} <= set(command)


def test_the_models_are_mounted_read_only() -> None:
    assert f"--volume={Path.cwd()}/models:/models:ro" in docker()


@pytest.mark.parametrize(("device", "given"), [("cuda", True), ("cpu", False)])
def test_the_container_gets_gpus_where_the_target_is_one(device: str, given: bool) -> None:
    assert ("--gpus=all" in docker(device)) is given


@pytest.mark.parametrize(
    ("shared_memory", "option"),
    [("system", "--ipc=host"), ("none", "--shm-size=2g"), ("cuda", "--shm-size=2g")],
)
def test_the_container_shares_the_host_s_memory_when_tensors_go_through_it(
    shared_memory: str, option: str
) -> None:
    both = {"--ipc=host", "--shm-size=2g"}
    assert both & set(docker(shared_memory=shared_memory)) == {option}


@pytest.mark.parametrize("text", [None, "echo 'Cannot connect to the Docker daemon' >&2; exit 1"])
def test_a_machine_without_a_docker_engine_gets_one_clear_line(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    (tmp_path / "bin").mkdir()
    if text is not None:
        script(tmp_path / "bin" / "docker", text)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(InputError) as caught:
        check_docker()
    assert str(caught.value).splitlines() == [
        "no Docker engine answers on this machine",
        "  where: --triton docker",
        "  cure:  start one, or use --triton embedded",
    ]
    with pytest.raises(InputError), serve(Choice("docker", IMAGE), tmp_path, tmp_path / "log", device="cpu"):
        pass
    assert list(temporary.iterdir()) == []


def test_a_container_that_outlives_its_client_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(
        tmp_path / "bin" / "docker",
        f'echo "$@" >> {tmp_path}/calls; [ "$1" != run ] || {{ echo "no such image"; exit 125; }}',
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with (
        pytest.raises(ProofError, match=r"status 125 .*\n.*\n  \| no such image"),
        serve(Choice("docker", IMAGE), tmp_path, tmp_path / "log", device="cpu"),
    ):
        pass
    info, run, remove = (tmp_path / "calls").read_text().splitlines()
    name = next(part for part in run.split() if part.startswith("--name=")).partition("=")[2]
    assert info == "info"
    assert remove == f"rm --force {name}"
