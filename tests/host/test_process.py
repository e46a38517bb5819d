"""The suite captures the output of programs, ends hanging ones, and passes few environment variables on."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests import toy
from tests.helpers import ENDED_S, ROOT, Household, present
from tests.safe_io.refusals import within
from tests.serve.programs import IMAGE, script
from tritonproof.base.errors import ProofError
from tritonproof.efficiency.worker import artifact_worker
from tritonproof.frameworks import NO_TELEMETRY
from tritonproof.host import process as process_module
from tritonproof.host.process import ProgramError, last_lines, log_end, minimal_environment, run_program
from tritonproof.measure import perf_analyzer_io
from tritonproof.serve.launch import serve
from tritonproof.serve.loading import load_build
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup, ServerSpec

SECRETS = {
    name: f"the secret {name}"
    for name in (
        *("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "DATABASE_URL"),
        # Match a pattern of passed variables, but are named like secrets.
        *("NVIDIA_API_KEY", "DOCKER_PASSWORD", "TF_cloud_credentials", "TRITONPROOF_TOKEN"),
        # Code that Python would run.
        *("PYTHONSTARTUP", "PYTHONPATH"),
    )
}
SPEED = {"OMP_NUM_THREADS": "2", "KMP_AFFINITY": "disabled", "MALLOC_TRIM_THRESHOLD_": "2147483647"}


@pytest.fixture(autouse=True)
def caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller's environment with secrets, and with settings that affect speed."""
    for name, value in {**SECRETS, **SPEED}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(process_module.EXTRA_VARIABLES, raising=False)


def environments(pid: int) -> list[dict[str, str]]:
    """The environments of a process and its descendants, from the kernel."""
    process = psutil.Process(pid)
    return [one.environ() for one in (process, *process.children(recursive=True))]


def secrets_in(environment: Mapping[str, str]) -> set[str]:
    """The names of the caller's secrets among the values of an environment."""
    return {name for name, value in SECRETS.items() if value in environment.values()}


def assert_handed_on(found: list[dict[str, str]]) -> None:
    """Assert that each environment has the speed settings and no secret."""
    for environment in found:
        assert secrets_in(environment) == set()
        assert SPEED.items() <= environment.items()
        assert environment["PATH"].endswith(os.environ["PATH"])


def test_models_served_and_in_process_get_speed_variables_but_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server works, too: the stub finds this Python and its packages with any PATH of the caller."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    built = toy.make_build(tmp_path / "models", "doubling", "import scipy\n" + toy.DOUBLING)
    with serve(ServerSpec("embedded"), ServerSetup(tmp_path / "models", tmp_path / "log", "cpu")) as server:
        assert load_build(server, built, toy.ONLINE) == "python"
        served = environments(present(server.pid))
    assert len(served) == 3, "the guard, the server and the model's process"
    assert_handed_on(served)
    sample = {built.case.model.inputs[0].name: np.ones((1, 4), np.float32)}
    with artifact_worker(built, toy.DEPLOYMENT, sample) as worker:
        worker.wait_ready()
        beside = environments(worker.process.pid)
    assert len(beside) == 2, "the guard and the model's process"
    assert_handed_on(beside)


def test_load_generator_gets_proxies_only_for_remote_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTP_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "proxy")
    here, elsewhere = (
        perf_analyzer_io.environment(Server(ServerSpec("remote", address), address, "", None, None))
        for address in ("127.0.0.1:8001", "gpu-host:8001")
    )
    assert_handed_on([here, elsewhere])
    assert "proxy" not in here.values()
    assert list(elsewhere.values()).count("proxy") == 3


def test_every_docker_call_gets_engine_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = f'env > {tmp_path}/"$1".env; [ "$1" != image ] || echo "[{{}}]"; [ "$1" != run ]'
    docker = script(tmp_path / "bin" / "docker", calls)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere")
    spec = ServerSpec("docker", IMAGE)
    with pytest.raises(ProofError), serve(spec, ServerSetup(tmp_path, tmp_path / "log", "cpu")):
        pass
    for call in ("info", "run", "rm"):
        lines = (tmp_path / f"{call}.env").read_text().splitlines()
        assert "DOCKER_HOST=tcp://elsewhere" in lines
        assert secrets_in(dict(line.partition("=")[::2] for line in lines)) == set()


def test_secrets_are_passed_only_if_the_user_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    more = (*process_module.DOCKER_VARIABLES, *process_module.CHECKOUT_VARIABLES)
    assert secrets_in(minimal_environment(more)) == set()
    monkeypatch.setenv(process_module.EXTRA_VARIABLES, "PYTHONPATH, HF_TOKEN,NOT_SET")
    assert secrets_in(minimal_environment()) == {"PYTHONPATH", "HF_TOKEN"}


def test_onnx_runtime_leaves_no_telemetry_files(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    inherited = {name: value for name, value in os.environ.items() if name not in (*NO_TELEMETRY, "CI")}
    environment = inherited | {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", "import tritonproof.frameworks, onnxruntime"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
    assert NO_TELEMETRY.items() <= minimal_environment().items(), "nor do servers"


def test_output_and_status_of_program_are_kept() -> None:
    ended = run_program(["sh", "-c", r"printf 'out\377'; printf 'err\377' >&2; exit 3"], limit_s=ENDED_S)
    killed = run_program(["sh", "-c", "kill -9 $$"], limit_s=ENDED_S)
    assert process_module.how_ended(killed.status) == process_module.how_ended(128 + 9)
    assert (ended.status, ended.output, ended.text, ended.error_text) == (3, b"out\xff", "out�", "err�")
    with pytest.raises(ProgramError, match="nowhere"):
        run_program(["/nowhere"], limit_s=ENDED_S)


def test_hanging_program_and_its_children_are_ended(household: Household) -> None:
    with pytest.raises(ProgramError):
        run_program(["sh", "-c", "sleep 600 & sleep 600"], environment=household.environment, limit_s=1)
    assert household.left(ENDED_S) == []


def test_last_lines_of_huge_log_are_read(tmp_path: Path) -> None:
    """Empty lines do not count."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(1 << 36)
        file.seek(0, os.SEEK_END)
        file.write(b"cut off, and so left out" * 10_000 + b"\nfirst\n\nthe \x1b[31mreason\xff\n\n")
    first, reason = within(8, lambda: last_lines(log, 5))
    assert first == "first"
    assert "reason" in reason
    assert "\x1b" not in log_end(log)


def test_endless_line_is_shown_by_its_end(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 1_000_000 + b"the reason")
    (line,) = last_lines(tmp_path / "log", 5)
    assert line.endswith("the reason")
    assert len(line) < 100_000


@pytest.mark.parametrize("put", [lambda _path: None, os.mkfifo, lambda path: path.symlink_to("/etc/passwd")])
def test_non_log_has_no_lines(put: Callable[[Path], object], tmp_path: Path) -> None:
    put(tmp_path / "log")
    assert last_lines(tmp_path / "log", 3) == []
