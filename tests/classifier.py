"""A model for whole runs: four numbers to two scores, by a network in the ONNX file beside a copy of this
file. It needs no framework, so a run takes a third of one with PyTorch; its samples take time but no CPU."""

import time
from pathlib import Path

import numpy as np

from tritonproof.frameworks import onnx_networks
from tritonproof.record.correctness import Limit
from tritonproof.spec import (
    DEFAULT_PROFILES,
    Arrays,
    FrameworkModel,
    Metric,
    NetworkModel,
    Samples,
    Split,
    Tensor,
)

SAMPLE_S = 0.02
"""Seconds to read a sample: an evaluation takes two, in which a test can act."""
NUMBERS = np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
"""The samples, [100, 4]."""
WEIGHTS = np.array([[1, -1], [1, -1], [1, -1], [1, -1]], np.float32)
"""The network's weights, [4, 2]: a sample of positive sum is of the first class."""


def samples(_split: Split, _dataset: Path | None, _checkpoint: Path | None) -> Samples:
    def load(indices: "list[int]") -> Arrays:
        time.sleep(SAMPLE_S * len(indices))
        return {"NUMBERS": NUMBERS[list(indices)]}

    labels = (NUMBERS.sum(axis=1) <= 0).astype(int)
    return Samples([f"row-{number}" for number in range(len(NUMBERS))], load, labels)  # type: ignore[arg-type]


def load_weights(checkpoint: Path | None) -> FrameworkModel:
    path = checkpoint or Path(__file__).with_suffix(".onnx")
    digest = onnx_networks.digest(path)
    network = onnx_networks.open_network(path)
    return FrameworkModel(network, f"{path.name}, sha256 {digest[:12]}", digest, trained=True)


def decide(kept: Arrays) -> np.ndarray:
    return kept["SCORES"].argmax(axis=1)


def correct(kept: Arrays, labels: np.ndarray, _framework: Arrays) -> np.ndarray:
    return (decide(kept) == labels).astype(float)


def write_network(path: Path) -> None:
    from tests.user_models import networks  # which a copy of this file has no use for

    graph = "(float[batch, 4] NUMBERS) => (float[batch, 2] SCORES) { SCORES = MatMul(NUMBERS, weights) }"
    networks.save(path, graph, weights=WEIGHTS)


_ALL_BUT_TWO = Limit(0.98, "the labels are what the weights compute: all but rounding is right")

MODELS = (
    NetworkModel(
        name="classifier",
        inputs=(Tensor("NUMBERS", "FP32", (4,)),),
        outputs=(Tensor("SCORES", "FP32", (2,)),),
        load_weights=load_weights,
        infer=onnx_networks.infer,
        samples=samples,
        decide=decide,
        metrics=(Metric("accuracy", correct, {"fp32": _ALL_BUT_TWO}),),
        defined_in=Path(__file__),
        profiles=DEFAULT_PROFILES,
        framework="onnx",
        micro=True,
    ),
)
OWN = """
import dataclasses

from tests import classifier

classifier.SAMPLE_S = 0.0
(ONE,) = classifier.MODELS
LIMITS = dict.fromkeys(("fp32", "int8"), ONE.metrics[0].limits["fp32"])
METRICS = (dataclasses.replace(ONE.metrics[0], limits=LIMITS),)
MODELS = tuple(dataclasses.replace(ONE, name=name, metrics=METRICS) for name in ("left", "right"))
"""
"""A file with two such models in FP32 and INT8, whose samples take no time."""


def write_two(folder: Path) -> tuple[str, ...]:
    """Write that file and the models' network; returns the options of a run of both."""
    file, network = folder / "own.py", folder / "network.onnx"
    file.write_text(OWN)
    write_network(network)
    checkpoints = [word for name in ("left", "right") for word in ("--checkpoint", f"{name}={network}")]
    return ("--models", str(file), *checkpoints)
