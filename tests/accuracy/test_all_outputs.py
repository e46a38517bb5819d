"""What a server may differ by is far above what the same file does by other kernels."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fixtures.accuracy.precision_cost import UNKNOWN_COST
from fixtures.formats import all_formats
from fixtures.models import all_models
from fixtures.spec import ConversionJob, Model

ONNX = next(one for one in all_formats() if one.mnemonic == "onnx")
MODELS = {model.name: model for model in all_models()}


def answers(file: Path, inputs: Mapping[str, np.ndarray], *, fused: bool) -> list[np.ndarray]:
    """A file's outputs by ONNX Runtime, with its fusions or each node by itself."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return [np.asarray(values) for values in session.run(None, dict(inputs))]


def mean_difference(model: Model, precision: str, folder: Path) -> float:
    """How far a right file's outputs are apart on the mean by two ways of computing, as a share of their mean."""
    file = folder / "model.onnx"
    calibration = model.samples("training", None, None) if precision == "int8" else None
    network = model.load(None).network
    ONNX.convert(
        ConversionJob(model, network, precision, None, "cpu", 32, calibration, lambda _step: None), file
    )
    samples = model.samples("evaluation", None, None)
    inputs = dataclasses.replace(samples, ids=samples.ids[:32]).load(range(32))
    pairs = zip(answers(file, inputs, fused=True), answers(file, inputs, fused=False), strict=True)
    return max(
        float(np.abs(one.astype(np.float64) - other).mean() / np.abs(one).mean())
        for one, other in pairs
        if one.dtype.kind == "f"
    )


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("bert-dist4l-micro", "fp32"),
        ("bert-dist4l-micro", "fp16"),
        ("resnet50-micro", "fp32"),
        ("resnet50-micro", "fp16"),
        ("resnet50-micro", "int8"),
        ("resnet50-tf-micro", "int8"),
    ],
)
def test_other_kernels_take_at_most_half_of_what_a_server_may_differ_by(
    name: str, precision: str, tmp_path: Path
) -> None:
    assert mean_difference(MODELS[name], precision, tmp_path) <= UNKNOWN_COST[precision] / 2
