"""The programs a run starts: those that lack a library or do not start are a problem, with the fix."""

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from fixtures.doctor import programs
from fixtures.host import locks
from fixtures.serve import backends, container, wheels
from fixtures.serve.launch import Choice
from tests.doctor.conftest import Docker
from tests.host.fake_nvml import Nvml
from tests.serve.programs import script

EMBEDDED = Choice("embedded")
NO_CUDART = (
    "perf_analyzer: error while loading shared libraries: libcudart.so.12: cannot open shared object file"
)


@pytest.fixture
def private_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a lock on the machine that no other run knows."""
    folder = tmp_path / "above" / "machine"
    folder.mkdir(parents=True)
    monkeypatch.setattr(locks, "machine", lambda: folder)
    return folder


def test_the_load_generator_starts() -> None:
    assert programs.load_generator().state == "ok"


@pytest.mark.parametrize(
    ("lines", "fix"),
    [
        ("exit 3", "run "),
        ("echo old glibc >&2; exit 1", "run "),
        (f"echo {NO_CUDART} >&2; exit 127", "pip install nvidia-cuda-runtime-cu12"),
        ("echo \"/lib/libm.so.6: version 'GLIBC_2.38' not found\" >&2; exit 1", "use tritonclient"),
    ],
)
def test_a_load_generator_that_does_not_start_is_a_problem(
    lines: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = script(tmp_path / "perf_analyzer", lines)
    monkeypatch.setattr(wheels, "perf_analyzer", lambda: program)
    found = programs.load_generator()

    assert found.state == "problem"
    assert found.fix.startswith(fix)


def test_the_server_is_started_to_see_that_it_gets_ready(private_lock: Path) -> None:
    found = programs.triton(EMBEDDED, "cpu")

    assert found.state == "ok"
    assert "ready in" in found.found


def test_the_server_is_not_started_beside_a_measurement(private_lock: Path) -> None:
    other = os.open(private_lock, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    found = programs.triton(EMBEDDED, "cpu")
    os.close(other)

    assert found.state == "ok"
    assert "ready in" not in found.found


def test_an_embedded_server_whose_backend_cannot_write_to_its_folder_is_a_problem(
    private_lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets ready with no model, and ends as it loads the first."""
    monkeypatch.setattr(backends, "PYTHON_ENVIRONMENTS", tmp_path / "closed")
    found = programs.triton(EMBEDDED, "cpu")

    assert found.state == "problem"
    assert "chmod 1777" in found.fix


def test_a_server_that_ends_at_once_is_a_problem_with_the_end_of_its_log(
    private_lock: Path, tmp_path: Path
) -> None:
    program = script(tmp_path / "tritonserver", "echo no licence\nexit 1")
    found = programs.triton(Choice("local", str(program)), "cpu")

    assert found.state == "problem"
    assert found.found.endswith("no licence")


def test_a_remote_server_that_does_not_answer_is_a_problem() -> None:
    assert programs.triton(Choice("remote", "127.0.0.1:9"), "cpu").state == "problem"


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ("exit 0", "ok"),
        ('[ "$1" != image ]', "warning"),
        ("echo cannot connect >&2; exit 1", "problem"),
    ],
)
def test_a_container_needs_an_engine_that_answers_and_its_image(
    lines: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "docker", lines)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert programs.triton(Choice("docker", "some/image"), "cpu").state == state


TOOLKIT: dict[str, Any] = {"Runtimes": {"runc": {}, "nvidia": {}}}
CDI: dict[str, Any] = {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=GPU-aaaa"}]}
PODMAN: dict[str, Any] = {"host": {"ociRuntime": {"name": "crun"}}}
IMAGE = "nvcr.io/nvidia/tritonserver:24.10-py3"


@pytest.mark.parametrize(
    ("about", "has_cdi_file", "fix"),
    [
        (TOOLKIT, False, ""),
        (CDI, False, ""),
        ({"Runtimes": {"runc": {}}}, False, "nvidia-ctk runtime configure"),
        ({}, False, "nvidia-ctk runtime configure"),
        (PODMAN, True, ""),
        (PODMAN, False, "nvidia-ctk cdi generate"),
    ],
)
def test_a_container_gets_the_gpu_by_nvidia_s_toolkit(
    a100: Nvml,
    docker: Docker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    about: dict[str, Any],
    has_cdi_file: bool,
    fix: str,
) -> None:
    docker(about, ["NVIDIA_TRITON_SERVER_VERSION=24.10"])
    monkeypatch.setattr(container, "CDI_FOLDERS", (tmp_path,))
    if has_cdi_file:
        (tmp_path / "nvidia.yaml").touch()
    found = programs.triton(Choice("docker", IMAGE), "cuda")

    assert found.state == ("problem" if fix else "ok")
    assert fix in found.fix
    assert programs.triton(Choice("docker", IMAGE), "cpu").state == "ok", "a CPU's cases need none"


@pytest.mark.parametrize("is_here", [True, False])
def test_a_release_that_does_not_run_on_the_gpu_is_a_problem_before_it_is_pulled(
    a100: Nvml, docker: Docker, is_here: bool
) -> None:
    a100.capabilities = {"GPU-aaaa": (10, 0)}
    docker(TOOLKIT, ["NVIDIA_TRITON_SERVER_VERSION=24.10"] if is_here else None)
    found = programs.triton(Choice("docker", IMAGE), "cuda")

    assert found.state == "problem"
    assert found.fix == "--triton docker:nvcr.io/nvidia/tritonserver:25.02-py3"


def test_an_image_that_is_not_here_is_a_warning_with_the_command_that_pulls_it(
    a100: Nvml, docker: Docker
) -> None:
    docker(TOOLKIT)
    found = programs.triton(Choice("docker"), "cuda")

    assert (found.state, found.fix) == ("warning", f"docker pull {IMAGE}")
