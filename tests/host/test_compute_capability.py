"""A GPU's compute capability decides which libraries have code for it."""

import sys

import pytest

from fixtures.host import compute_capability as looked_at
from fixtures.host.compute_capability import compute_capability, lacks_code
from fixtures.host.shared_library import GpuCode
from tests.fake_nvml import Nvml

V100, A100 = (7, 0), (8, 0)


@pytest.fixture(autouse=True)
def forget() -> None:
    looked_at.compute_capability.cache_clear()


def test_it_is_that_of_the_first_gpu_that_cuda_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml(lambda: 0.0, "GPU-aaaa", "GPU-bbbb")
    capabilities = {"GPU-aaaa": (8, 0), "GPU-bbbb": (9, 0)}
    monkeypatch.setattr(
        Nvml, "nvmlDeviceGetCudaComputeCapability", lambda _self, handle: capabilities[handle], raising=False
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")

    assert compute_capability() == (9, 0)


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCudaComputeCapability"])
def test_a_driver_that_does_not_tell_is_no_error(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml(lambda: 0.0)
    nvml.refused.add(call)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    assert compute_capability() is None


def test_a_library_without_code_for_a_gpu_is_named_with_what_it_has() -> None:
    code = GpuCode(frozenset({75, 80}), frozenset())

    assert lacks_code("PyTorch", code, A100) is None
    said = str(lacks_code("PyTorch", code, V100))
    assert "PyTorch has no code for GPUs of compute capability 7.0" in said
    assert "sm_75, sm_80" in said
    assert "no kernel image" in said
    assert lacks_code("PyTorch", None, V100) is None
    assert lacks_code("PyTorch", code, None) is None
