"""A GPU's compute capability decides which libraries have code for it."""

import sys
from collections.abc import Iterator

import pytest

from fixtures.host import machine
from fixtures.host.compute_capability import lacks_code
from fixtures.host.shared_library import GpuCode
from tests.host.fake_nvml import Nvml

V100, A100 = (7, 0), (8, 0)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    """A machine with two GPUs."""
    found = Nvml(lambda: 0.0, "GPU-aaaa", "GPU-bbbb")
    found.capabilities = {"GPU-aaaa": (8, 0), "GPU-bbbb": (9, 0)}
    monkeypatch.setitem(sys.modules, "pynvml", found)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    machine.gpus_of.cache_clear()
    yield found
    machine.gpus_of.cache_clear()


def test_it_is_that_of_the_first_gpu_that_cuda_shows(nvml: Nvml) -> None:
    assert machine.compute_capability() == (9, 0)


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCudaComputeCapability"])
def test_a_driver_that_does_not_tell_is_no_error(call: str, nvml: Nvml) -> None:
    nvml.refused.add(call)

    assert machine.compute_capability() is None


def test_a_library_without_code_for_a_gpu_is_named_with_what_it_has() -> None:
    code = GpuCode(frozenset({75, 80}), frozenset())

    assert lacks_code("PyTorch", code, A100) is None
    said = str(lacks_code("PyTorch", code, V100))
    assert "PyTorch has no code for GPUs of compute capability 7.0" in said
    assert "sm_75, sm_80" in said
    assert "no kernel image" in said
    assert lacks_code("PyTorch", None, V100) is None
    assert lacks_code("PyTorch", code, None) is None
