"""Each precision's share of the limits, in one table: what it rounds, what a conversion to it and other
kernels may cost, and how much of the framework's score it keeps. Here and wherever the accuracy is judged, a
precision is the one that the case computes in: tf32 for FP32 whose products a GPU computes in TF32."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tritonproof.spec import Case, Model, Tolerance

_Limit = TypeVar("_Limit")


@dataclass(frozen=True)
class PrecisionRule:
    """How far answers in a precision may be off. The comment of a value says what was measured."""

    rounding: float
    """What rounding may do to an element, as a share of its output's largest magnitude. Outputs from 0 to 1
    are probabilities, with the magnitude 1: a sigmoid is off by 1.5e-7 even at 1e-8."""
    conversion_factor: float
    """How many times the precision's cost the mean error of a converted output may be. Measured on the micro
    models; with the vector extensions of an older CPU right builds of BERT and FastPitch in FP16 and of INT8
    moved by 0.1 at most. A fault of twice the cost makes 2.2 times and more, with a right build's error."""
    kernel_factor: float
    """How many times the precision's cost other kernels may be off on the mean with the same file: in batches
    of another size, or by another backend. In mixed batches on Triton BERT and ResNet50 gave the same as in
    process but for 3e-9, and but for 2e-7 with Triton's own ONNX Runtime."""
    unknown_mean: float
    """How far other kernels may be off on the mean with the same file, as a share of the mean magnitude, if
    the precision's cost is unknown. Measured in process on a CPU."""
    unknown_largest: float
    """How far an element may be off then, as a share of the spread: ten times the mean."""
    kept_score: float
    """The least share of the framework's score that it keeps, after MLPerf Inference's 99.9 and 99 %."""


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
"""By the name of the precision."""

_FALLBACKS: Mapping[str, Sequence[str]] = {"tf32": ("fp16", "fp32")}
"""The precisions whose limits hold where there are none of its own: TF32 has FP16's 11 bits."""


def limit_in(precision: str, limits: Mapping[str, _Limit]) -> _Limit | None:
    """The limit in a precision of `limits` by precision, if any."""
    names = (precision, *_FALLBACKS.get(precision, ()))
    return next((limits[name] for name in names if name in limits), None)


def tolerance_of(case: Case, precision: str) -> Tolerance:
    """The model's own tolerance in a precision, else the format's."""
    tolerance = limit_in(precision, {**case.format.tolerances, **case.model.tolerances})
    assert tolerance is not None, f"{case} has no tolerance in {precision}"
    return tolerance


def rounding_of(model: Model, precision: str) -> float:
    """What rounding may do to an element, as a share of its output's magnitude; for a model of unknown
    precision, by the type of its outputs."""
    if precision:
        return PRECISIONS[precision].rounding
    types = {tensor.dtype.lower() for tensor in model.outputs} & {"fp16", "bf16"}
    return max(PRECISIONS[name].rounding for name in {"fp32", *types})
