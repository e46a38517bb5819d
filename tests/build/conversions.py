"""Cases whose conversion is a few lines of a test, and their builds."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tritonproof.build import builds
from tritonproof.build.builds import CaseBuild
from tritonproof.formats.onnx import ONNX
from tritonproof.host.targets import CPU
from tritonproof.models import all_models
from tritonproof.record.setup import Deployment
from tritonproof.spec import Case, ConversionJob, FrameworkModel

UP_TO_32 = Deployment(32, 1, (16, 32), 1_000, False, True)
WEIGHTS = FrameworkModel(network=None, weights_source="test", digest="w1", trained=True)
MICRO = next(model for model in all_models() if model.name == "resnet50-micro")


def case_with(convert: Callable[[ConversionJob, Path], None], precision: str = "fp32") -> Case:
    """A CPU case whose conversion is `convert`."""
    return Case(CPU, MICRO, dataclasses.replace(ONNX, convert=convert), None, precision)


def writing(text: str, counted: list[str] | None = None) -> Callable[[ConversionJob, Path], None]:
    """A conversion that writes `text`, and appends to `counted` each time it is made."""

    def convert(_job: ConversionJob, path: Path) -> None:
        path.write_text(text)
        if counted is not None:
            counted.append(text)

    return convert


def build(
    case: Case, root: Path, weights: FrameworkModel = WEIGHTS, deployment: Deployment = UP_TO_32
) -> CaseBuild:
    # None of these conversions asks for samples.
    return builds.build(case, weights, deployment, root, native=False, samples=pytest.fail)
