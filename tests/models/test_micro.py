"""Micro models: committed weights keep their limits, and faults break a limit or the conversion."""

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from tests.toy import compare_conversion
from tritonproof.data import synthetic_speech
from tritonproof.formats.onnx import ONNX
from tritonproof.host.targets import CPU
from tritonproof.models import all_models, nnunet
from tritonproof.models.fastpitch import DURATIONS, FRAME_COUNT, MEL
from tritonproof.reports.correctness_text import conversion_failure
from tritonproof.spec import Arrays, Case, NetworkModel, Samples

MICRO = {model.name: model for model in all_models() if model.micro}
NUMPY = {"FP32": np.float32, "INT32": np.int32, "INT64": np.int64}
ROWS = {"resnet50-micro": 100, "resnet50-tf-micro": 100, "nnunet-micro": 8, "fastpitch-micro": 64}
"""The first rows of the evaluation, for models that take long; the benchmarks score all rows."""


class Run(NamedTuple):
    """A micro model with its committed weights, and their outputs for the first rows of its evaluation."""

    model: NetworkModel
    samples: Samples
    inputs: Arrays
    network: Any
    outputs: Arrays


@functools.cache
def committed(name: str) -> Run:
    model = MICRO[name]
    samples = model.samples("evaluation", None, None)
    inputs, network = samples.read(range(ROWS.get(name, len(samples)))), model.load_weights(None).network
    return Run(model, samples, inputs, network, model.infer(network, inputs))


def scores(run: Run, outputs: Arrays) -> list[float]:
    """The mean of each metric."""
    count = len(next(iter(outputs.values())))
    labels = run.samples.labels if count == len(run.samples) else run.samples.labels[:count]
    kept, framework = (run.model.keep(dict(arrays)) for arrays in (outputs, run.outputs))
    return [float(metric.score(kept, labels, framework).mean()) for metric in run.model.metrics]


def broken_limits(run: Run, outputs: Arrays, slack: float = 0.0) -> list[bool]:
    """For each metric, whether it misses its FP32 limit by more than `slack`, a share of the limit."""
    return [
        score < (1 - slack) * limit if metric.better == "higher" else score > (1 + slack) * limit
        for metric, score in zip(run.model.metrics, scores(run, outputs), strict=True)
        for limit in (metric.limits["fp32"].value,)
    ]


@pytest.mark.parametrize("name", MICRO)
def test_committed_weights_keep_every_limit_and_declaration(name: str) -> None:
    run = committed(name)
    assert not any(broken_limits(run, run.outputs))
    source = run.model.load_weights(None).weights_source
    assert source.startswith("trained by recipe, "), f"{source!r}: see `train` in docs/model-in-python.md"
    for rows in (1, 3):
        outputs = run.model.infer(run.network, {key: values[:rows] for key, values in run.inputs.items()})
        assert list(outputs) == [tensor.name for tensor in run.model.outputs]
        for tensor in run.model.outputs:
            assert outputs[tensor.name].shape == (rows, *tensor.shape)
            assert outputs[tensor.name].dtype == NUMPY[tensor.dtype]


@pytest.mark.parametrize("name", MICRO)
def test_training_and_evaluation_samples_are_disjoint(name: str) -> None:
    def rows(samples: Samples) -> set[object]:
        if "resnet50" in name:  # two people may write the same digit
            return set(samples.ids)
        arrays = samples.read(range(len(samples))).values()
        return {tuple(values[row].tobytes() for values in arrays) for row in range(len(samples))}

    training, evaluation = (MICRO[name].samples(split, None, None) for split in ("training", "evaluation"))
    assert not rows(training) & rows(evaluation)


def of(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], Arrays]:
    """Changes one of the tensors."""
    return lambda arrays: {**arrays, name: change(arrays[name])}


Change = Callable[[Arrays], Arrays]
OF_INPUTS: dict[str, tuple[str, Change, float]] = {
    # BGR for RGB is the commonest fault of preparation: it must cost more than a hair.
    "BGR": ("resnet50-micro", of("INPUT__0", lambda x: x[:, ::-1]), 0.3),
    "grey": ("resnet50-micro", of("INPUT__0", lambda x: x.mean(1, keepdims=True).repeat(3, 1)), 0.3),
    "BGR in TensorFlow": ("resnet50-tf-micro", of("input", lambda x: x[..., ::-1]), 0.3),
    "modalities in another order": ("nnunet-micro", of("INPUT__0", lambda x: x[:, [1, 0, 2, 3]]), 0.5),
    "no segments": ("bert-dist4l-micro", of("input__1", np.zeros_like), 0.05),
    "segments for mask": (
        "bert-dist4l-micro",
        lambda x: {**x, "input__1": x["input__2"], "input__2": x["input__1"]},
        0.05,
    ),
}


@pytest.mark.parametrize("fault", OF_INPUTS)
def test_scrambled_inputs_fail_a_limit(fault: str) -> None:
    name, change, slack = OF_INPUTS[fault]
    run = committed(name)
    wrong = {key: np.ascontiguousarray(values) for key, values in change(run.inputs).items()}
    assert broken_limits(run, run.model.infer(run.network, wrong), slack)[0]


def test_lost_mask_fails_parity_and_padding_is_ignored() -> None:
    run = committed("bert-dist4l-micro")
    inputs, expected = ({name: rows[:16] for name, rows in of.items()} for of in (run.inputs, run.outputs))
    mask, words = inputs["input__2"], inputs["input__0"]
    padded = np.where(mask == 1, words, np.random.default_rng(0).integers(0, 700, words.shape, np.int32))

    def unmasked(inputs: Arrays) -> Arrays:
        return run.model.infer(run.network, {**inputs, "input__2": np.ones_like(inputs["input__2"])})

    case = Case(CPU, run.model, ONNX, None, "fp16")
    samples = dataclasses.replace(run.samples, ids=run.samples.ids[:16])
    assert not compare_conversion(case, run.model.load_weights(None), unmasked, samples, 16).passed
    for name, values in run.model.infer(run.network, {**inputs, "input__0": padded}).items():
        np.testing.assert_allclose(values[mask == 1], expected[name][mask == 1], atol=1e-4)


OF_OUTPUTS: dict[str, tuple[str, Change, float]] = {
    "turned": ("nnunet-micro", of(nnunet.OUTPUT, lambda y: y.transpose(0, 3, 2, 1)), 0.5),
    "swapped": ("bert-dist4l-micro", lambda y: dict(zip(y, reversed(list(y.values())), strict=True)), 0.1),
    "shifted": ("bert-dist4l-micro", lambda y: {k: np.roll(v, 1, axis=1) for k, v in y.items()}, 0.1),
    "other rows": ("fastpitch-micro", lambda y: {k: np.roll(v, 1, axis=0) for k, v in y.items()}, 0.5),
    "bands in another order": ("fastpitch-micro", of(MEL, lambda y: y[:, ::-1]), 0.5),
    "a frame late": ("fastpitch-micro", of(MEL, lambda y: np.roll(y, 1, axis=2)), 0.5),
    "a frame lost": ("fastpitch-micro", of(FRAME_COUNT, lambda y: y - 1), 0.5),
    "louder": ("fastpitch-micro", of(MEL, lambda y: y + 0.2), 0.5),
}


@pytest.mark.parametrize("fault", OF_OUTPUTS)
def test_scrambled_outputs_fail_their_limits(fault: str) -> None:
    name, change, slack = OF_OUTPUTS[fault]
    run = committed(name)
    assert all(broken_limits(run, change(run.outputs), slack)[:2])


def with_weights(network: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """A copy of the network whose trained weights are changed."""
    if isinstance(network, torch.nn.Module):
        other = copy.deepcopy(network)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.copy_(torch.from_numpy(change(parameter.numpy())))
        return other
    import keras

    other = keras.models.clone_model(network)
    other.set_weights(network.get_weights())
    for variable in other.trainable_variables:
        variable.assign(change(variable.numpy()))
    return other


@pytest.mark.parametrize(
    "name",
    [
        # One in every run; the others take minutes.
        pytest.param(name, marks=[] if name == "fastpitch-micro" else [pytest.mark.campaign])
        for name in MICRO
        if name != "nnunet-micro"  # it only gives classes, of which half the digits change three of 786,432
    ],
)
def test_checkpoint_rounded_to_half_precision_fails_fp32_parity(name: str) -> None:
    model = MICRO[name]
    weights, samples = model.load_weights(None), model.samples("evaluation", None, None)
    half = with_weights(weights.network, lambda w: w.astype(np.float16).astype(w.dtype))
    for network, is_right in ((weights.network, True), (half, False)):
        run = functools.partial(model.infer, network)
        conversion = compare_conversion(Case(CPU, model, ONNX, None, "fp32"), weights, run, samples, 16)
        assert (conversion_failure(conversion) is None) is is_right


def test_every_phantom_has_every_class() -> None:
    for split in ("training", "evaluation"):
        labels = MICRO["nnunet-micro"].samples(split, None, None).labels
        assert min(np.bincount(label.ravel(), minlength=4).min() for label in labels) >= 20


def test_synthesized_durations_match_the_network() -> None:
    utterances = synthetic_speech.utterances("evaluation")
    predicted = committed("fastpitch-micro").outputs[DURATIONS]
    for durations, utterance in zip(predicted, utterances, strict=False):  # the first rows alone
        assert durations[: len(utterance.text)].tolist() == utterance.durations.tolist()
        assert utterance.durations.sum() == utterance.mel.shape[1] <= 128
