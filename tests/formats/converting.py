"""A small network and its samples, and networks in process after their conversion."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tritonproof.build import runtime_files
from tritonproof.cases import profile_of
from tritonproof.formats import onnx
from tritonproof.host.targets import CPU
from tritonproof.record.setup import Deployment
from tritonproof.spec import Arrays, Case, ConversionJob, Format, NetworkModel, Samples, Split

ON_CPU = {"device": "cpu", "device_id": "0", "threads": "2", "large": "0", "tf32": "1", "tensors": "numpy"}
"""The parameters that every runtime gets on a CPU."""


class Small(nn.Module):
    """A convolution with BatchNorm, and a linear layer, for the formats to fold, fuse and quantise."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 8 * 8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.conv.weight.dtype)
        return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1)).float()


def samples_of(split: Split, *_given: Path | None, shape: tuple[int, ...] = (3, 8, 8)) -> Samples:
    seed = 0 if split == "training" else 1
    values = np.random.default_rng(seed).normal(0, 1, (40, *shape)).astype(np.float32)
    return Samples([f"{split}-{i}" for i in range(40)], lambda indices: {"x": values[list(indices)]})


def job_of(
    model: NetworkModel, network: Any = None, precision: str = "fp32", **changes: Any
) -> ConversionJob:
    """A conversion on the CPU, for batches of up to eight; of its own network unless another is given."""
    network = model.load_weights(None).network if network is None else network

    def samples(split: Split) -> Samples:
        return model.samples(split, None, None)

    job = ConversionJob(model, network, precision, None, "cpu", 8, samples, lambda _text: None)
    return dataclasses.replace(job, **changes)


DEPLOYMENT = Deployment(8, 1, (8,), 100, False, True)


def converted_by(format_: Format, job: ConversionJob, folder: Path) -> Callable[[Arrays], dict[str, Any]]:
    """The converted network in process. Its conversion reports activities, and leaves only the artifact."""
    activities: list[str] = []
    format_.convert(dataclasses.replace(job, on_progress=activities.append), folder / format_.artifact)
    assert activities
    assert [path.name for path in folder.iterdir()] == [format_.artifact]
    case = Case(CPU, job.model, format_, None, job.precision)
    return runtime_files.open_in_process(case, folder / format_.artifact, DEPLOYMENT)


def case(model: NetworkModel, precision: str = "fp32") -> Case:
    return Case(CPU, model, onnx.ONNX, None, precision)


def converted(model: NetworkModel, path: Path, precision: str = "fp32") -> Any:
    """The artifact of a precision in process: a function from inputs to outputs."""
    onnx.convert(job_of(model, precision=precision), path)
    return runtime_files.open_in_process(case(model, precision), path, profile_of(model, CPU).deployment)


def score(model: NetworkModel, run: Any) -> float:
    """The model's metric of all evaluation samples: the share of equal decisions, or the mean error."""
    samples = model.samples("evaluation", None, None)
    inputs = samples.read(range(len(samples)))
    expected = model.keep(model.infer(model.load_weights(None).network, inputs))
    (metric,) = model.metrics
    return float(metric.score(model.keep(run(inputs)), None, expected).mean())
