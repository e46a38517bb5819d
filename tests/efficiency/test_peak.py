"""The machine's peak, measured for every precision of a CPU."""

import functools
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
import torch

from tritonproof.base.errors import ProofError
from tritonproof.cases import cases_of
from tritonproof.efficiency import peak_runtime, worker
from tritonproof.frameworks.pytorch import tf32_products
from tritonproof.host.targets import CPU

SIZE = 1024
"""Rows and columns: an eighth of the work of a real run, which whole runs of the suite test."""


def peak_per_s(precision: str) -> float:
    """The peak, after which no process is left: its tensors would take gigabytes of a GPU's memory."""
    before = set(psutil.Process().children(recursive=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peak_runtime, "SIZE", {"cpu": SIZE})
        peak_per_s = worker.measure_peak_per_s(worker.PeakKind("cpu", precision)).value
    assert set(psutil.Process().children(recursive=True)) <= before
    return peak_per_s


@pytest.fixture(scope="module")
def fp32_per_s() -> float:
    return peak_per_s("fp32")


@pytest.mark.parametrize("precision", sorted({case.precision for case in cases_of(CPU)}))
def test_every_cpu_precision_has_a_peak(precision: str, fp32_per_s: float) -> None:
    cases = [case for case in cases_of(CPU) if case.precision == precision]
    missing = [case.format.why_missing("cpu", case.accelerator, precision) for case in cases]
    if all(missing):
        pytest.skip(str(missing[0]))  # emulated, it takes minutes, and no run needs it
    rate_per_s = fp32_per_s if precision == "fp32" else peak_per_s(precision)
    if rate_per_s < fp32_per_s / 10:  # other programs may have used the cores
        rate_per_s = max(peak_per_s(precision) for _attempt in range(4))
    assert 1e9 < fp32_per_s < 1e14
    assert fp32_per_s / 10 < rate_per_s < fp32_per_s * 100


@pytest.mark.parametrize(("precision", "tf32"), [("tf32", "1"), ("fp32", "0")])
def test_tf32_is_fp32_with_a_setting(precision: str, tf32: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "worker_process", process := Mock(side_effect=ProofError("no GPU")))
    with pytest.raises(ProofError):
        worker.measure_peak_per_s(worker.PeakKind("cuda", precision))
    assert process.call_args.args[2].items() >= {"precision": "fp32", "tf32": tf32}.items()


@pytest.mark.parametrize(("tf32", "allowed"), [("1", True), ("0", False)])
def test_peak_uses_tf32_if_runtimes_do(tf32: str, allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """FP32 beside a peak in TF32 looks eight times worse than it is on an A100."""
    tf32_seen: set[bool] = set()
    way = functools.partial(lambda: tf32_seen.add(torch.backends.cuda.matmul.allow_tf32))
    monkeypatch.setattr(peak_runtime, "_by_pytorch", lambda *_what: [way])
    monkeypatch.setattr(peak_runtime, "_convolution", lambda *_what: way)
    parameters = {"device": "cpu", "threads": "1", "precision": "fp16", "tf32": tf32, "size": str(SIZE)}
    with tf32_products(allowed=not allowed):
        peak_runtime.load(Path(), parameters)(None)
    assert tf32_seen == {allowed}
