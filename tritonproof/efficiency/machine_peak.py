"""Measures the machine's peak in floating-point operations per second. The worker loads peak.py as a
runtime, without this package, so that is a file of its own."""

import contextlib

from tritonproof.build.in_process import tf32_setting
from tritonproof.efficiency import peak
from tritonproof.efficiency.worker import Worker, worker_process
from tritonproof.host import machine
from tritonproof.measure.estimates import geometric_mean
from tritonproof.record.schema import Deployment, Estimate
from tritonproof.spec import Case, Device

_PEAK_S, _PEAK_READINGS = 0.2, 5
"""Seconds of products in a reading of the peak, and how many readings count after an uncounted one."""
PeakKind = tuple[Device, str, bool | None]
"""The device, the precision and whether FP32 is computed in TF32: what a machine's peak depends on."""


def peak_kind(case: Case, deployment: Deployment) -> PeakKind:
    return case.target.device, case.precision, deployment.tf32


def peak_per_s(kind: PeakKind) -> Estimate:
    """The machine's peak in floating-point operations per second, measured in a process of its own. Raises
    ProofError."""
    operations = peak.operations(peak.SIZE[kind[0]])
    with peak_of(*kind) as product:
        product.wait_ready()
        _first, *rates = [product.most_per_s(_PEAK_S) for _reading in range(1 + _PEAK_READINGS)]
    return geometric_mean([rate * operations for rate in rates])


def peak_of(
    device: Device, precision: str, tf32: bool | None = None
) -> contextlib.AbstractContextManager[Worker]:
    """A worker that runs the fastest large matrix product or convolution; one batch has `peak.operations` of
    the device's size in `peak.SIZE`. `tf32` is the deployment's, so that both compute alike."""
    settings = {"threads": str(machine.cores()), "precision": precision, **tf32_setting(tf32)}
    settings |= {"size": str(peak.SIZE[device]), "device": device}
    label = f"the {precision.upper()} matrix product that gives the machine's peak"
    job = {"runtime": peak.__file__, "artifact": "", "resident": False, "first": ()}
    return worker_process(label, job, settings, [])
