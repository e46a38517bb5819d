"""Servers start and end with their block or their caller, even under load, and failed starts state the reason."""

import dataclasses
import socket
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import toy
from tests.helpers import command_line, present
from tests.serve.programs import doubled_by, installed_triton, port_of, process_of, script, serve_everybody
from tests.whole_runs.suite import TRACE, suite
from tritonproof.base.errors import ProofError, SetupError
from tritonproof.build.builds import CaseBuild
from tritonproof.host.scratch import SHARED_MEMORY_FOLDER
from tritonproof.serve import kinds
from tritonproof.serve.kinds import Ports, free_ports
from tritonproof.serve.launch import KINDS, serve
from tritonproof.serve.loading import load_build
from tritonproof.serve.remote import check_accepts_models
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup, ServerSpec, parse_server

EMBEDDED = ServerSpec("embedded")
SERVICES = ("http", "grpc", "metrics")
HELP = '[ "$*" = --help ] && exit'
"""The suite asks a server for its help before starting it, and waits for the answer."""


def test_only_the_log_of_a_server_remains(tmp_path: Path, temporary: Path) -> None:
    built = toy.make_build(tmp_path / "models", "doubling", toy.DOUBLING)
    log = tmp_path / "logs" / "server.log"
    with serve(EMBEDDED, ServerSetup(tmp_path / "models", log, "cpu")) as server:
        load_build(server, built, toy.ONLINE)
        process = process_of(server)
        ports = [port_of(server, service) for service in SERVICES]
        segments = f"{present(server.scratch).name}*"
        assert list(temporary.glob("*/runs/*")) == [server.scratch]
        assert list(SHARED_MEMORY_FOLDER.glob(segments))
    assert not process.is_running()
    for port in ports:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
    assert "Started GRPCInferenceService" in log.read_text()
    assert list(temporary.glob("*/runs/*")) == list(SHARED_MEMORY_FOLDER.glob(segments)) == []


@pytest.mark.parametrize("auto_complete", [False, True])
def test_model_in_any_path_starts_once_if_its_configuration_is_complete(
    tmp_path: Path, auto_complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "Modelle für it's $HOME;"
    (root / "tmp").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(root / "tmp"))
    built = toy.make_build(root / "models", "doubling", toy.DOUBLING)
    program, started = built.folder / "1" / "model.py", tmp_path / "started"
    count = f"with open({str(started)!r}, 'a') as file:\n    file.write('once more\\n')\n"
    program.write_text(program.read_text() + count)
    setup = ServerSetup(root / "models", root / "log", "cpu", auto_complete=auto_complete)
    with serve(EMBEDDED, setup) as server:
        load_build(server, built, toy.ONLINE)
        assert doubled_by(server, built)
    assert not present(server.scratch).exists()
    assert len(started.read_text().splitlines()) == (2 if auto_complete else 1)


def test_local_server_uses_its_own_backends(models: Path, doubling: CaseBuild, tmp_path: Path) -> None:
    spec = parse_server(f"local:{installed_triton(tmp_path)}")
    with serve(spec, ServerSetup(models, tmp_path / "log", "cpu")) as server:
        assert server.spec.kind == "local"
        assert server.program.backends == tmp_path / "backends"
        assert load_build(server, doubling, toy.ONLINE) == "python"
        assert doubled_by(server, doubling)


def test_server_without_model_control_is_refused_before_building(models: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refusing = ServerSpec("local", str(installed_triton(tmp_path, "--model-control-mode=none")))
    with serve_everybody(refusing, ServerSetup(tmp_path / "empty", tmp_path / "log", "cpu")) as server:
        with pytest.raises(SetupError, check=lambda error: error.where == f"--triton {server.address}"):
            check_accepts_models(ServerSpec("remote", server.address))
        folders = {"repos": tmp_path / "repos", "results": tmp_path / "results"}
        run = suite("-k", TRACE, "-m", "not speed", "--triton", server.address, **folders)
        assert (run.status, server.address in run.text) == (pytest.ExitCode.USAGE_ERROR, True)
        assert not list(folders["repos"].glob("cpu-*")), "nothing was built"
    check_accepts_models(ServerSpec("remote", server.address))  # unreachable now: not its error to report
    with serve_everybody(EMBEDDED, ServerSetup(models, tmp_path / "log", "cpu")) as server:
        check_accepts_models(ServerSpec("remote", server.address))


def test_unwritable_log_is_an_error_naming_its_path(models: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for log in (tmp_path, tmp_path / "file" / "log"):
        with pytest.raises(SetupError) as refused, serve(EMBEDDED, ServerSetup(models, log, "cpu")):
            pass
        assert refused.value.where == str(log)
        assert "--results" in refused.value.fix


def start(program: Path, tmp_path: Path, **options: Any) -> None:
    """Start a local server that is expected to fail."""
    with serve(ServerSpec("local", str(program)), ServerSetup(tmp_path, tmp_path / "log", "cpu", **options)):
        raise AssertionError("it is taken for a server")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("echo 'libcudart.so.12: cannot open'; exit 3", ["status 3", "  | libcudart.so.12"]),
        (f"{HELP}; kill -SEGV $$", ["SIGSEGV"]),
        ('echo "malloc $MALLOC_MMAP_MAX_"; exit 1', ["malloc 0"]),
    ],
)
def test_server_ending_at_start_is_an_error_with_output(
    tmp_path: Path, temporary: Path, text: str, named: list[str]
) -> None:
    program = script(tmp_path / "bin" / "tritonserver", text)
    with pytest.raises(ProofError) as caught:
        start(program, tmp_path, variables={"MALLOC_MMAP_MAX_": "0"})
    assert [part for part in named if part not in caught.value.what] == []
    assert list(temporary.glob("*/runs/*")) == []


def test_taken_port_is_recognized_and_retried(
    models: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        attempts = [dataclasses.replace(free_ports(), **{name: taken}) for name in SERVICES]
        monkeypatch.setattr(kinds, "free_ports", attempts.pop)
        with pytest.raises(ProofError), serve(EMBEDDED, ServerSetup(models, tmp_path / "log", "cpu")):
            pass
    assert attempts == []
    assert list(temporary.glob("*/runs/*")) == []


@pytest.mark.parametrize("taken", [False, True])
def test_server_that_never_gets_ready_is_given_up(
    server: Server, tmp_path: Path, temporary: Path, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another Triton at its ports is not mistaken for it."""
    before = list(temporary.glob("*/runs/*"))
    used_ports = Ports(*(port_of(server, service) for service in SERVICES))
    if taken:
        monkeypatch.setattr(kinds, "free_ports", lambda: used_ports)
    monkeypatch.setitem(KINDS, "local", dataclasses.replace(KINDS["local"], ready_s=1.0))
    program = script(tmp_path / "bin" / "tritonserver", f"{HELP}; echo loading the world; sleep 600")
    with pytest.raises(ProofError, match="loading the world"):
        start(program, tmp_path)
    left = psutil.Process().children(recursive=True)
    assert [process for process in left if str(program) in command_line(process)] == []
    assert list(temporary.glob("*/runs/*")) == before
