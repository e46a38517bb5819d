"""The suite captures the output of programs, ends hanging ones, and passes few environment variables on."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from fixtures import NO_TELEMETRY
from fixtures.efficiency.in_process import in_process
from fixtures.errors import ProofError
from fixtures.host.process import (
    CHECKOUT_VARIABLES,
    DOCKER_VARIABLES,
    EXTRA_VARIABLES,
    ProgramError,
    minimal_environment,
    run,
)
from fixtures.measure import perf_analyzer
from fixtures.serve.launch import serve
from fixtures.serve.server import Server
from fixtures.serve.server_spec import IMAGE, ServerSpec
from tests.conftest import DEPLOYMENT, DOUBLING, MakeBuild
from tests.helpers import ENDED_S, ROOT, wait_until
from tests.serve.programs import script

SECRETS = {
    "GITHUB_TOKEN": "secret-1",
    "AWS_SECRET_ACCESS_KEY": "secret-2",
    "HF_TOKEN": "secret-3",
    "DATABASE_URL": "secret-4",
    # Match a pattern of passed variables, but are named like secrets.
    "NVIDIA_API_KEY": "secret-5",
    "DOCKER_PASSWORD": "secret-6",
    "TF_cloud_credentials": "secret-7",
    "TRITONPROOF_TOKEN": "secret-8",
    # Code that Python would run.
    "PYTHONSTARTUP": "secret-9",
    "PYTHONPATH": "secret-10",
}
SPEED = {
    "OMP_NUM_THREADS": "2",
    "MKL_NUM_THREADS": "2",
    "KMP_AFFINITY": "disabled",
    "MALLOC_TRIM_THRESHOLD_": "2147483647",
}


@pytest.fixture(autouse=True)
def caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller's environment with secrets, and with settings that affect speed."""
    for name, value in {**SECRETS, **SPEED}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(EXTRA_VARIABLES, raising=False)


def environments(pid: int) -> Iterator[dict[str, str]]:
    """The environments of a process and its descendants, from the kernel."""
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            yield process.environ()


def secrets_in(environment: dict[str, str]) -> set[str]:
    """The caller's secrets among the values of an environment."""
    text = "\0".join(environment.values())
    return {value for value in SECRETS.values() if f"\0{value}\0" in f"\0{text}\0"}


def assert_handed_on(found: list[dict[str, str]]) -> None:
    """Assert that each environment has the speed settings and no secret."""
    for environment in found:
        assert secrets_in(environment) == set()
        assert SPEED.items() <= environment.items()
        assert environment["PATH"].endswith(os.environ["PATH"])


def test_models_served_and_in_process_get_speed_variables_but_no_secrets(
    make_build: MakeBuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server works, too: the stub finds this Python and its packages with any PATH of the caller."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    built = make_build(tmp_path / "models", "doubling", "import scipy\n" + DOUBLING)
    with serve(ServerSpec("embedded"), tmp_path / "models", tmp_path / "log", device="cpu") as server:
        assert server.load(built, DEPLOYMENT, "online") == "python"
        assert server.pid is not None
        process_environments = list(environments(server.pid))
    assert len(process_environments) == 3, "the guard, the server and the model's process"
    assert_handed_on(process_environments)
    sample = {built.case.model.inputs[0].name: np.ones((1, 4), np.float32)}
    with in_process(built, DEPLOYMENT, sample) as worker:
        worker.wait_ready()
        process_environments = list(environments(worker.process.pid))
    assert len(process_environments) == 2, "the guard and the model's process"
    assert_handed_on(process_environments)


def test_load_generator_gets_proxies_only_for_remote_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTP_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "proxy")
    here, elsewhere = (
        perf_analyzer.environment(Server("remote", address, "", None, None))
        for address in ("127.0.0.1:8001", "gpu-host:8001")
    )
    assert_handed_on([here, elsewhere])
    assert "proxy" not in here.values()
    assert list(elsewhere.values()).count("proxy") == 3


def test_every_docker_call_gets_engine_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = script(tmp_path / "bin" / "docker", f'env > {tmp_path}/"$1".env; [ "$1" != run ]')
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere")
    spec = ServerSpec("docker", IMAGE)
    with pytest.raises(ProofError), serve(spec, tmp_path, tmp_path / "log", device="cpu"):
        pass
    for call in ("info", "run", "rm"):
        lines = (tmp_path / f"{call}.env").read_text().splitlines()
        assert "DOCKER_HOST=tcp://elsewhere" in lines
        assert secrets_in(dict(line.partition("=")[::2] for line in lines)) == set()


def test_secrets_are_passed_only_if_the_user_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert secrets_in(minimal_environment((*DOCKER_VARIABLES, *CHECKOUT_VARIABLES))) == set()
    monkeypatch.setenv(EXTRA_VARIABLES, "PYTHONPATH, HF_TOKEN,NOT_SET")
    assert secrets_in(minimal_environment()) == {SECRETS["PYTHONPATH"], SECRETS["HF_TOKEN"]}


def test_onnx_runtime_leaves_no_telemetry_files(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    inherited = {name: value for name, value in os.environ.items() if name not in (*NO_TELEMETRY, "CI")}
    environment = inherited | {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", "import fixtures, onnxruntime"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
    assert NO_TELEMETRY.items() <= minimal_environment().items(), "nor do servers"


def python(source: str) -> list[str]:
    return [sys.executable, "-S", "-c", source]


def test_output_and_status_of_program_are_kept() -> None:
    source = r"import os, sys; os.write(1, b'out\xff'); os.write(2, b'err\xff'); sys.exit(3)"
    ended = run(python(source), limit_s=ENDED_S)
    assert (ended.status, ended.output, ended.text, ended.error_text) == (3, b"out\xff", "out�", "err�")
    with pytest.raises(ProgramError, match="nowhere"):
        run(["/nowhere"], limit_s=ENDED_S)


def test_hanging_program_and_its_children_are_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    source = (
        "import os, time; first = os.getpid(); child = os.fork(); "
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} '); time.sleep(600)"
    )
    with pytest.raises(ProgramError):
        run(python(source), limit_s=2)
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    wait_until(lambda: not any(map(is_running, started)))


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
