"""Python, packages and programs: missing, wrong, duplicate and failing ones are problems with a fix."""

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.conftest import Docker
from tests.helpers import project_file
from tests.serve.programs import script
from tritonproof.base.errors import InputError
from tritonproof.doctor import programs
from tritonproof.doctor.__main__ import run_check
from tritonproof.host import locks
from tritonproof.serve import container, wheels
from tritonproof.serve.server_spec import ServerSpec


@pytest.mark.parametrize(
    ("version", "processor", "state"),
    [
        ((3, 10, 12), "x86_64", "ok"),
        ((3, 9, 18), "x86_64", "problem"),
        ((3, 13, 0), "x86_64", "problem"),
        ((3, 11, 0), "aarch64", "problem"),
    ],
)
def test_unsupported_python_is_a_problem(version: tuple[int, ...], processor: str, state: str) -> None:
    assert programs.python(version, processor).state == state


def test_missing_libpython_is_a_problem_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_arguments: object) -> Path:
        raise InputError("libpython3.11.so.1.0 is missing", fix="apt-get install libpython3.11")

    monkeypatch.setattr(wheels, "libpython", missing)
    finding = run_check(lambda: programs.python((3, 11, 7), "x86_64"))
    assert (finding.state, finding.fix) == ("problem", "apt-get install libpython3.11")


@pytest.mark.parametrize(
    ("installed", "cuda", "extra"),
    [("onnxruntime", None, "cpu"), ("onnxruntime-gpu", 13, "gpu"), ("onnxruntime-gpu", 12, "gpu-cuda12")],
)
def test_extra_follows_onnx_runtime_cuda(
    installed: str, cuda: int | None, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "version_of", {installed: "1.26.0"}.get)
    monkeypatch.setattr(programs, "cuda_of_onnx_runtime", lambda: cuda)
    optional = project_file()["project"]["optional-dependencies"]
    assert programs.requirements()[-len(optional[extra]) :] == optional[extra]


FITTING = {"torch": "2.13.1", "numpy": "1.26.4"}


@pytest.mark.parametrize(
    ("installed", "state", "named"),
    [
        (FITTING, "ok", ""),
        ({"torch": "2.13.1", "numpy": "2.0.0"}, "problem", "numpy 2.0.0"),
        ({"numpy": "1.26.4"}, "problem", "torch"),
        ({}, "problem", ""),
        (FITTING | {"onnxruntime": "1", "onnxruntime-gpu": "1"}, "problem", "onnxruntime-gpu"),
    ],
)
def test_missing_wrong_or_duplicate_package_is_named(
    installed: dict[str, str], state: str, named: str
) -> None:
    finding = programs.packages(["torch~=2.13.0", "numpy<2"], installed.get)
    assert finding.state == state
    assert named in finding.text


@pytest.mark.parametrize(
    ("lines", "named"), [(None, ""), ("echo cannot load libcudart.so.12 >&2; exit 127", "libcudart.so.12")]
)
def test_broken_load_generator_is_a_problem(
    lines: str | None, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lines is not None:
        program = script(tmp_path / "perf_analyzer", lines)
        monkeypatch.setattr(wheels, "perf_analyzer", lambda: program)
    finding = programs.load_generator()
    assert (finding.state, bool(finding.fix)) == (("problem", True) if named else ("ok", False))
    assert named in finding.text


IMAGE = ServerSpec("docker", "nvcr.io/nvidia/tritonserver:24.10-py3")


@pytest.mark.usefixtures("a100")
@pytest.mark.parametrize(
    ("about", "fix"),
    [
        ({"Runtimes": {"runc": {}, "nvidia": {}}}, ""),
        ({"DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}]}, ""),
        ({}, "nvidia-ctk runtime configure"),
        ({"DiscoveredDevices": [{"ID": "vendor.com/net=0"}], "Runtimes": None}, "nvidia-ctk runtime"),
        ({"host": {"os": "linux"}, "Runtimes": {"nvidia": {}}}, "nvidia-ctk cdi generate"),  # podman
    ],
)
def test_container_gets_gpu_by_nvidia_toolkit(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, about: dict[str, Any], fix: str
) -> None:
    docker(about, ["NVIDIA_TRITON_SERVER_VERSION=24.10"])
    monkeypatch.setattr(container, "CDI_FOLDERS", (tmp_path,))
    finding = programs.triton(IMAGE, "cuda")
    assert finding.state == ("problem" if fix else "ok")
    assert fix in finding.fix
    assert programs.triton(IMAGE, "cpu").state == "ok", "a CPU's cases need none"
    (tmp_path / "nvidia.yaml").touch()
    if "cdi" in fix:
        assert programs.triton(IMAGE, "cuda").state == "ok"


@pytest.mark.parametrize(
    ("lines", "fix"),
    [('[ "$1" != image ]', f"docker pull {IMAGE.location}"), ("echo no engine >&2; exit 1", "start one")],
)
def test_container_needs_running_engine_and_image(
    lines: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "docker", lines)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    finding = run_check(lambda: programs.triton(IMAGE, "cpu"))
    assert finding.state == "problem"
    assert fix in finding.fix


def test_server_is_started_unless_machine_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "MACHINE_LOCK", tmp_path)
    finding = programs.triton(ServerSpec("embedded"), "cpu")
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    beside = programs.triton(ServerSpec("embedded"), "cpu")
    os.close(other)
    assert finding.state == beside.state == "ok"
    assert "ready in" in finding.text
    assert "ready in" not in beside.text


def test_failing_server_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "MACHINE_LOCK", tmp_path)
    program = script(tmp_path / "tritonserver", "echo no licence\nexit 1")
    finding = programs.triton(ServerSpec("local", str(program)), "cpu")
    assert (finding.state, finding.text.endswith("no licence")) == ("problem", True)
    assert programs.triton(ServerSpec("remote", "127.0.0.1:9"), "cpu").state == "problem"
