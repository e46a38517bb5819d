"""Each precision's share of the limits, in one table: how it rounds, what a conversion to it and other
kernels may cost, and how much of the framework's score it keeps. A case's accuracy is judged by its
arithmetic precision, the precision that it computes in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tritonproof.record.setup import Deployment
from tritonproof.spec import Case

_Limit = TypeVar("_Limit")


@dataclass(frozen=True)
class PrecisionRule:
    """How far answers in a precision may be off. Comments beside the values say what was measured."""

    rounding: float
    """How far rounding may move an element, as a share of its output's largest magnitude. Outputs from 0 to 1
    are probabilities, with the magnitude 1: a sigmoid is off by 1.5e-7 even at 1e-8."""
    conversion_factor: float
    """The limit of a converted output's mean error, as a multiple of the cost. Measured on the micro models;
    with the vector extensions of an older CPU, right builds of BERT and FastPitch in FP16 and of INT8 moved
    by 0.1 at most. A fault of twice the cost, added to a right build's error, makes at least 2.2 times."""
    kernel_factor: float
    """The limit of the mean error of the same file by other kernels, in batches of another size or by another
    backend, as a multiple of the cost. In mixed batches on Triton, BERT and ResNet50 differed from in process
    by 3e-9, and with Triton's own ONNX Runtime by 2e-7."""
    unknown_mean: float
    """The limit of the mean error by other kernels for an unknown cost, as a share of the mean magnitude."""
    unknown_largest: float
    """The limit of an element's error for an unknown cost, as a share of the spread: ten times the mean, in
    FP32 a hundred times."""
    kept_score: float
    """The least share of the framework's score that must be kept, after MLPerf Inference's 99.9 and 99 %."""


PRECISIONS: Mapping[str, PrecisionRule] = {
    "fp32": PrecisionRule(
        rounding=1e-6,  # eight units in the last place, 2 ** -23
        conversion_factor=2.5,  # right builds: 0.2 to 0.9 times the least cost
        kernel_factor=2.0,
        unknown_mean=2e-5,  # 3e-7
        # ONNX Runtime itself computes a public network of bytes (magika) 1.2e-3 apart in batches and alone.
        unknown_largest=2e-3,
        kept_score=0.999,
    ),
    **dict.fromkeys(
        ("tf32", "fp16"),
        PrecisionRule(
            rounding=1e-3,  # two units in the last place of 11 bits
            # Right builds in FP16: 0.7 (ONNX Runtime, BERT) to 1.9 times (TorchScript folds ResNet50's
            # BatchNorm in the precision, which rounds once more).
            conversion_factor=2.5,
            kernel_factor=2.5,  # 0.45 times on a CPU; on a GPU two right ways are each off by the cost
            unknown_mean=5e-3,  # 5e-4
            unknown_largest=5e-2,
            kept_score=0.999,  # FP32's
        ),
    ),
    "bf16": PrecisionRule(
        rounding=8e-3,  # two units in the last place of 8 bits
        conversion_factor=2.25,  # right builds: 0.7 to 1.5 times
        kernel_factor=1.0,  # 0.15 times on a CPU
        unknown_mean=1e-2,  # 1.5e-3
        unknown_largest=0.1,
        kept_score=0.99,
    ),
    "int8": PrecisionRule(
        rounding=8e-3,  # two of 255 steps
        conversion_factor=2.0,  # right builds: 0.7 to 1.1 times (ONNX Runtime)
        kernel_factor=0.5,  # 0.12 times on a CPU
        unknown_mean=1e-2,  # 2.5e-3 without fusing
        unknown_largest=0.1,
        kept_score=0.99,
    ),
}

DEEP_ROUNDING = 1e-5
"""How far FP32's rounding may move an element through many layers, as a share of its output's magnitude, if
the cost is unknown: a public detector's map (PP-OCR) is off by 4e-6 with ONNX Runtime's optimisations."""
_FALLBACKS: Mapping[str, Sequence[str]] = {"tf32": ("fp16", "fp32")}
"""The precisions whose limits apply where a precision has none of its own: TF32 has FP16's 11 bits."""


def arithmetic_precision(case: Case, deployment: Deployment) -> str:
    """The precision that the case computes in: tf32 for FP32 whose products a GPU computes in TF32."""
    return "tf32" if deployment.tf32 else case.precision


def limit_in(precision: str, limits: Mapping[str, _Limit]) -> _Limit | None:
    """The entry for a precision, or for its fallback, in `limits` by precision; None if there is none."""
    names = (precision, *_FALLBACKS.get(precision, ()))
    return next((limits[name] for name in names if name in limits), None)
