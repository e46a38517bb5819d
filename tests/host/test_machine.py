"""Compute capability decides whether FP32 uses TF32; limits of memory and files."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fixtures.host import machine
from fixtures.host.machine import fix_of_limits, free_memory_gib, limited_memory, tf32_environment, uses_tf32
from fixtures.host.process import minimal_environment
from tests.host.fake_nvml import Nvml


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    """A machine with an A100 that has a MIG slice, and with a V100."""
    fake = Nvml(lambda: 0.0, "GPU-aaaa", "GPU-bbbb")
    fake.instances = {"GPU-aaaa": ["MIG-1"]}
    fake.capabilities = {"GPU-aaaa": (8, 0), "GPU-bbbb": (7, 0)}
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine.gpus_of.cache_clear()
    yield fake
    machine.gpus_of.cache_clear()


@pytest.mark.parametrize(
    ("capability", "expected"),
    [((7, 0), None), ((7, 5), None), ((8, 0), True), ((8, 9), True), ((9, 0), True), ((10, 0), True)],
    ids=["V100", "T4", "A100", "L4", "H100", "B200"],
)
def test_fp32_uses_tf32_on_capable_gpus(
    nvml: Nvml, capability: tuple[int, int], expected: bool | None
) -> None:
    nvml.capabilities["GPU-aaaa"] = capability
    assert uses_tf32("fp32", "cuda", wanted=True) is expected
    assert uses_tf32("fp32", "cuda", wanted=False) is (None if expected is None else False)


@pytest.mark.parametrize(
    ("precision", "visible", "expected"),
    [
        ("fp16", "0", None),
        ("int8", "0", None),
        ("fp32", "MIG-1", True),
        ("fp32", "1", None),
        ("fp32", "", None),
        ("fp32", "-1", None),
    ],
)
def test_first_visible_gpu_and_precision_decide_tf32(
    nvml: Nvml, precision: str, visible: str, expected: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert uses_tf32(precision, "cuda", wanted=True) is expected
    assert uses_tf32(precision, "cpu", wanted=True) is None


def test_environment_sets_tf32_of_native_pytorch() -> None:
    """LibTorch has no parameter for TF32; by default convolutions use it and matrix products do not."""
    program = "import torch; print(torch.backends.cuda.matmul.allow_tf32)"
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=minimal_environment() | tf32_environment(True),
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.strip() == "True"
    # For cuBLAS, cuDNN and TensorRT this variable takes precedence; it can only turn TF32 off.
    assert tf32_environment(False) == {"NVIDIA_TF32_OVERRIDE": "0"}


@pytest.mark.parametrize(
    ("files", "size", "writable", "named"),
    [
        (1024, resource.RLIM_INFINITY, True, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, True, None),
        (64, resource.RLIM_INFINITY, True, "ulimit -n"),
        (1024, 64, True, "ulimit -f"),
        (1024, resource.RLIM_INFINITY, False, "/gone"),
    ],
)
def test_limit_too_small_for_a_server_is_named(
    files: int, size: int, writable: bool, named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {resource.RLIMIT_NOFILE: files, resource.RLIMIT_FSIZE: size}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], limits[kind]))
    fix = fix_of_limits(tmp_path if writable else Path("/gone"))
    assert fix is None if named is None else named in str(fix)


def test_allocating_more_than_free_memory_raises_memory_error() -> None:
    free_bytes, before = int(free_memory_gib() * 2**30), resource.getrlimit(resource.RLIMIT_AS)
    with limited_memory():
        np.empty(free_bytes // 2, np.uint8)
        with pytest.raises(MemoryError):
            np.empty(
                int(1.1 * free_bytes) + 2**30, np.uint8
            )  # never written to, so that it takes no memory if granted
    assert resource.getrlimit(resource.RLIMIT_AS) == before
