"""Which cases compute in TF32: FP32 on GPUs that have it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from fixtures.host import machine, tf32
from fixtures.host.environment import minimal_environment
from tests.host.fake_nvml import Nvml


@pytest.fixture
def a_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU of a compute capability; None for a machine whose driver is not there."""
    nvml = Nvml(lambda: 0.0)
    nvml.instances = {"GPU-aaaa": ["MIG-1"]}
    if request.param is None:
        nvml.refused.add("nvmlInit")
    else:
        nvml.capabilities = {"GPU-aaaa": request.param}
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine.gpus_of.cache_clear()
    yield
    machine.gpus_of.cache_clear()


@pytest.mark.parametrize(
    ("a_gpu", "expected"),
    [
        ((7, 0), None),
        ((7, 5), None),
        ((8, 0), True),
        ((8, 9), True),
        ((9, 0), True),
        ((10, 0), True),
        (None, None),
    ],
    ids=["V100", "T4", "A100", "L4", "H100", "B200", "no GPU"],
    indirect=["a_gpu"],
)
def test_fp32_is_computed_in_tf32_where_the_gpu_has_it(a_gpu: None, expected: bool | None) -> None:
    assert tf32.setting("fp32", "cuda", wanted=True) is expected
    assert tf32.setting("fp32", "cuda", wanted=False) is (None if expected is None else False)


@pytest.mark.parametrize("a_gpu", [(8, 0)], indirect=True)
def test_tf32_means_nothing_on_cpus_and_in_other_precisions(a_gpu: None) -> None:
    assert tf32.setting("fp32", "cpu", wanted=True) is None
    assert tf32.setting("fp16", "cuda", wanted=True) is None
    assert tf32.setting("int8", "cuda", wanted=False) is None


@pytest.mark.parametrize("a_gpu", [(8, 0)], indirect=True)
def test_a_slice_of_a_gpu_has_tf32_as_the_gpu_has(a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    assert tf32.setting("fp32", "cuda", wanted=True) is True


@pytest.mark.parametrize("a_gpu", [(8, 0)], indirect=True)
@pytest.mark.parametrize("hidden", ["", "-1"])
def test_a_hidden_gpu_has_no_tf32(a_gpu: None, hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert tf32.setting("fp32", "cuda", wanted=True) is None


@pytest.mark.parametrize("allowed", [True, False])
def test_an_environment_says_it_to_pytorch_s_native_backend(allowed: bool) -> None:
    """LibTorch has no parameter for it, and by itself computes convolutions in TF32 and matrix products not."""
    environment = tf32.tf32_environment(allowed)
    program = "import torch; print(torch.backends.cuda.matmul.allow_tf32)"
    said = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=minimal_environment() | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == str(allowed)
    # cuBLAS, cuDNN and TensorRT read this one before all else; it turns TF32 off and never on.
    assert environment.get("NVIDIA_TF32_OVERRIDE") == (None if allowed else "0")
