"""ONNX networks of users, converted to ONNX in a precision, and how good they then are."""

from pathlib import Path
from typing import Any

from tests.formats.converting import job_of
from tritonproof.build.runtime_files import open_in_process
from tritonproof.cases import profile_of
from tritonproof.formats import onnx
from tritonproof.host.targets import CPU
from tritonproof.spec import Case, Model


def case(model: Model, precision: str = "fp32") -> Case:
    return Case(CPU, model, onnx.ONNX, None, precision)


def converted(model: Model, path: Path, precision: str = "fp32") -> Any:
    """The artifact of a precision in process: a function from inputs to outputs."""
    onnx.convert(job_of(model, precision=precision), path)
    return open_in_process(case(model, precision), path, profile_of(model, CPU).deployment)


def score(model: Model, run: Any) -> float:
    """The model's one metric for all evaluation samples: the share of decisions equal to the reference's, or
    the mean error if it decides nothing."""
    samples = model.samples("evaluation", None, None)
    inputs = samples.read(range(len(samples)))
    expected = model.keep(model.infer(model.load_weights(None).network, inputs))
    (metric,) = model.metrics
    return float(metric.score(model.keep(run(inputs)), None, expected).mean())
