"""What limits the machine is read, compute capability decides on TF32, and a measurement records its run."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures import runs
from tests.fake_nvml import Nvml
from tests.helpers import git
from tritonproof.host import machine as host
from tritonproof.host import run_origin
from tritonproof.host.machine import free_memory_gib, tf32_environment, uses_tf32
from tritonproof.host.process import minimal_environment
from tritonproof.host.run_origin import commit_of

GIB = 2**30


@pytest.mark.parametrize(
    ("precision", "visible", "capability", "expected"),
    [
        ("fp32", "0", (7, 5), None),
        ("fp32", "0", (8, 0), True),
        ("fp32", "0", (10, 0), True),
        ("fp16", "0", (8, 0), None),
        ("fp32", "MIG-1", (8, 0), True),
        ("fp32", "1", (8, 0), None),
        ("fp32", "", (8, 0), None),
    ],
)
def test_first_visible_gpu_and_precision_decide_tf32(
    nvml: Nvml, precision: str, visible: str, capability: Any, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.uuids, nvml.instances = ("GPU-aaaa", "GPU-bbbb"), {"GPU-aaaa": ["MIG-1"]}
    nvml.capabilities = {"GPU-aaaa": capability, "GPU-bbbb": (7, 0)}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert uses_tf32(precision, "cuda", wanted=True) is expected
    assert uses_tf32(precision, "cuda", wanted=False) is (None if expected is None else False)
    assert uses_tf32(precision, "cpu", wanted=True) is None


def test_environment_sets_tf32_of_native_pytorch() -> None:
    """LibTorch has no parameter for TF32; by default convolutions use it and matrix products do not."""
    program = "import torch; print(torch.backends.cuda.matmul.allow_tf32)"
    environment = minimal_environment() | tf32_environment(True)
    command = [sys.executable, "-W", "error", "-c", program]
    assert subprocess.check_output(command, env=environment, text=True).strip() == "True"
    # For cuBLAS, cuDNN and TensorRT this variable takes precedence; it can only turn TF32 off.
    assert tf32_environment(False) == {"NVIDIA_TF32_OVERRIDE": "0"}


def test_new_file_makes_checkout_dirty_and_a_wheel_has_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit_of.__wrapped__(tmp_path) == (None, None)
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of.__wrapped__(tmp_path) == (commit, True)
    (tmp_path / "model.py").touch()
    assert commit_of.__wrapped__(tmp_path) == (commit, False)
    monkeypatch.setattr(run_origin, "IS_INSTALLED", True)
    assert commit_of.__wrapped__(tmp_path) == (None, None), "the repository is the user's"


def test_environment_overrides_host_and_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(run_origin.COMMIT_VARIABLE, "a" * 40 + "-dirty")
    monkeypatch.setenv(run_origin.HOST_VARIABLE, "node7")
    assert commit_of.__wrapped__(tmp_path) == ("a" * 40, False)
    assert run_origin.origin("cpu", run_origin.own_run()).host == "node7"
    assert run_origin.own_run() == run_origin.own_run(), "a process has one run"


def test_all_workers_share_run_and_start(monkeypatch: pytest.MonkeyPatch) -> None:
    node: Any = SimpleNamespace(workerinput={})
    runs.pytest_configure_node(node)
    of_controller = run_origin.own_run()
    monkeypatch.setattr(runs, "own_run", lambda: run_origin.RunIdentity("the worker's own", "later"))
    assert runs.run_identity(node) == of_controller


@pytest.mark.parametrize(("text", "limit"), [("150000 100000\n", 1.5), ("max 100000\n", None), (None, None)])
def test_cgroup_cpu_limit_is_read(text: str | None, limit: float | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "cpu.max").write_text(text)
    assert host.cgroup_cores(tmp_path) == limit


def test_cgroup_limits_free_memory(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n")
    assert free_memory_gib(meminfo, tmp_path) == 16
    (tmp_path / "memory.current").write_text(f"{4 * GIB}\n")
    for limit, cached, free in ((4 * GIB, 0, 0), (4 * GIB, 3, 3), ("max", 3, 16)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.stat").write_text(f"anon {GIB}\ninactive_file {cached * GIB}\n")
        assert free_memory_gib(meminfo, tmp_path) == free
