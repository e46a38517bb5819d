"""The programs a run starts: those that lack a library or do not start are named with their cure."""

import fcntl
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.doctor import programs
from fixtures.serve import backends, container, wheels
from fixtures.serve.launch import Choice
from tests.doctor.conftest import Docker
from tests.doctor.findings import states
from tests.fake_nvml import Nvml
from tests.serve.programs import script

EMBEDDED = Choice("embedded")


def test_a_library_that_the_linker_does_not_find_is_named() -> None:
    bare = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}

    missing = programs.missing_libraries(wheels.perf_analyzer(), bare)

    assert "libcudart.so.12" in missing
    assert "nvidia-cuda-runtime-cu12" in programs.cure_of(missing)
    assert programs.missing_libraries(Path(sys.executable).resolve(), bare) == []


def test_the_load_generator_starts() -> None:
    found = programs.load_generator()

    assert states(found) == ["ok"]
    assert str(wheels.perf_analyzer()) in found.found


@pytest.mark.parametrize(
    ("lines", "text"),
    [("exit 3", "ends with status 3"), ("echo old glibc >&2; exit 1", "ends with status 1: old glibc")],
)
def test_a_load_generator_that_does_not_start_is_a_problem(
    lines: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = script(tmp_path / "perf_analyzer", lines)
    monkeypatch.setattr(wheels, "perf_analyzer", lambda: program)

    found = programs.load_generator()

    assert states(found) == ["problem"]
    assert text in found.found


def test_the_server_is_started_to_see_that_it_gets_ready(private_locks: Path) -> None:
    found = programs.triton(EMBEDDED, "cpu")

    assert states(found) == ["ok"]
    assert "embedded, ready in" in found.found


def test_an_embedded_server_whose_backend_cannot_write_to_its_folder_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets ready with no model, and ends as it loads the first."""
    monkeypatch.setattr(backends, "PYTHON_ENVIRONMENTS", tmp_path / "closed")

    found = programs.triton(EMBEDDED, "cpu")

    assert states(found) == ["problem"]
    assert f"{tmp_path / 'closed'} is not writable for this user" in found.found
    assert "chmod 1777" in found.cure


def test_the_server_is_not_started_beside_a_measurement(private_locks: Path) -> None:
    other = os.open(private_locks, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    found = programs.triton(EMBEDDED, "cpu")
    os.close(other)

    assert states(found) == ["ok"]
    assert "another run measures" in found.found


def test_a_server_that_ends_at_once_is_a_problem_with_its_last_words(
    private_locks: Path, tmp_path: Path
) -> None:
    program = script(tmp_path / "tritonserver", "echo no licence\nexit 1")

    found = programs.triton(Choice("local", str(program)), "cpu")

    assert states(found) == ["problem"]
    assert "ended with status 1" in found.found
    assert found.found.endswith("no licence")


def test_a_remote_server_that_does_not_answer_is_a_problem() -> None:
    assert states(programs.triton(Choice("remote", "127.0.0.1:9"), "cpu")) == ["problem"]


def test_a_missing_compiler_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)

    assert states(programs.compiler("cpu", lambda _name: None)) == ["warning"]
    assert states(programs.compiler("cpu", lambda name: f"/bin/{name}")) == ["ok"]


def test_on_a_gpu_the_compiler_needs_the_cuda_toolkit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)

    def found(name: str) -> str | None:
        return "/bin/g++" if name == "g++" else None

    assert states(programs.compiler("cuda", found, tmp_path / "none")) == ["warning"]
    assert states(programs.compiler("cuda", found, tmp_path)) == ["ok"]


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

    assert states(programs.triton(Choice("docker", "some/image"), "cpu")) == [state]


TOOLKIT: dict[str, Any] = {"Runtimes": {"runc": {}, "nvidia": {}}}
CDI: dict[str, Any] = {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=GPU-aaaa"}]}
IMAGE = "nvcr.io/nvidia/tritonserver:24.10-py3"


@pytest.mark.parametrize(
    ("about", "state"),
    [(TOOLKIT, "ok"), (CDI, "ok"), ({"Runtimes": {"runc": {}}}, "problem"), ({}, "problem")],
)
def test_a_container_gets_the_gpu_by_nvidia_s_toolkit(
    a100: Nvml, docker: Docker, about: dict[str, Any], state: str
) -> None:
    docker(about, ["NVIDIA_TRITON_SERVER_VERSION=24.10"])
    found = programs.triton(Choice("docker", IMAGE), "cuda")

    assert states(found) == [state]
    assert ("nvidia-ctk runtime configure" in found.cure) == (state == "problem")
    assert states(programs.triton(Choice("docker", IMAGE), "cpu")) == ["ok"], "a CPU's cases need none"


@pytest.mark.parametrize(("has_cdi", "state"), [(True, "ok"), (False, "problem")])
def test_podman_gives_gpus_by_cdi_alone(
    a100: Nvml, docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_cdi: bool, state: str
) -> None:
    docker({"host": {"ociRuntime": {"name": "crun"}}}, ["NVIDIA_TRITON_SERVER_VERSION=24.10"])
    if has_cdi:
        (tmp_path / "nvidia.yaml").touch()
    monkeypatch.setattr(container, "CDI_FOLDERS", (tmp_path,))
    found = programs.triton(Choice("docker", IMAGE), "cuda")
    assert states(found) == [state]


@pytest.mark.parametrize("is_here", [True, False])
def test_a_release_that_does_not_run_on_the_gpu_is_a_problem_before_it_is_pulled(
    a100: Nvml, docker: Docker, is_here: bool
) -> None:
    a100.capabilities = {"GPU-aaaa": (10, 0)}
    docker(TOOLKIT, ["NVIDIA_TRITON_SERVER_VERSION=24.10"] if is_here else None)
    found = programs.triton(Choice("docker", IMAGE), "cuda")

    assert states(found) == ["problem"]
    assert "Triton 24.10 does not run on this GPU" in found.found
    assert found.cure == "--triton docker:nvcr.io/nvidia/tritonserver:25.02-py3"


def test_an_image_that_is_not_here_is_a_warning_with_the_command_that_pulls_it(
    a100: Nvml, docker: Docker
) -> None:
    docker(TOOLKIT)
    found = programs.triton(Choice("docker"), "cuda")

    assert states(found) == ["warning"]
    assert found.cure == f"docker pull {IMAGE}"
