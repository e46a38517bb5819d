"""A model small enough to follow by hand: the class is the place of the largest of four numbers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fixtures.accuracy import parity
from fixtures.accuracy.precision_cost import measure_cost
from fixtures.accuracy.stages import evaluate_in_process
from fixtures.spec import (
    Arrays,
    Case,
    Format,
    Metric,
    Model,
    Samples,
    Split,
    Target,
    Tensor,
    Tolerance,
    Weights,
)
from reports.record.schema import Limit, Parity

INPUT, OUTPUT = "INPUT__0", "OUTPUT__0"
CLASSES = 4


def samples(count: int = 40) -> Samples:
    """Labelled samples, `toy-000` on; the label is where the 1 stands."""
    labels = np.random.default_rng(1).integers(0, CLASSES, count)
    images = np.eye(CLASSES, dtype=np.float32)[labels]
    return Samples(
        ids=[f"toy-{i:03d}" for i in range(count)],
        load=lambda indices: {INPUT: images[list(indices)]},
        labels=labels,
    )


def network(inputs: Arrays) -> Arrays:
    """The scores are the numbers themselves."""
    return {OUTPUT: inputs[INPUT].copy()}


def spoilt(value: float) -> Callable[[Arrays], Arrays]:
    """The network, with one value of the last sample replaced."""

    def run(inputs: Arrays) -> Arrays:
        outputs = network(inputs)
        outputs[OUTPUT][-1, 2] = value
        return outputs

    return run


def weights(**changes: Any) -> Weights:
    """Of a trained model, unless said otherwise."""
    fields: dict[str, Any] = {"network": network, "origin": "none", "digest": "0", "trained": True}
    return Weights(**(fields | changes))


def model(**changes: Any) -> Model:
    """The model; each argument replaces a field."""

    def evaluation(_split: Split, _dataset: Path | None, _checkpoint: Path | None) -> Samples:
        return samples()

    fields: dict[str, Any] = {
        "name": "toy",
        "inputs": (Tensor(INPUT, "FP32", (CLASSES,)),),
        "outputs": (Tensor(OUTPUT, "FP32", (CLASSES,)),),
        "load": lambda _checkpoint: weights(),
        "run": lambda framework, inputs: framework(inputs),
        "samples": evaluation,
        "keep": lambda outputs: {"classes": outputs[OUTPUT].argmax(axis=1)},
        "decide": lambda kept: kept["classes"],
        "metrics": (metric(),),
        "matrices": {},
        "source": Path(__file__),
    }
    return Model(**(fields | changes))


def metric(**changes: Any) -> Metric:
    """Top-1 with a floor of 90 %; each argument replaces a field."""

    def score(kept: Arrays, labels: np.ndarray, _framework: Arrays) -> np.ndarray:
        return (kept["classes"] == labels).astype(float)

    fields: dict[str, Any] = {
        "name": "top-1",
        "score": score,
        "limits": {"fp32": Limit(0.9, "chosen"), "int8": Limit(0.9, "chosen")},
    }
    return Metric(**(fields | changes))


def case(toy: Model | None = None, precision: str = "fp32", tolerance: Tolerance | None = None) -> Case:
    """The model in a format that nothing converts to."""

    def convert(*_arguments: object) -> None:
        raise NotImplementedError

    format_ = Format(
        mnemonic="plain",
        label="plain",
        engine="none",
        artifact="model.npy",
        backend="none",
        runtime="none.py",
        convert=convert,
        precisions={"cpu": ("fp32", "int8")},
        tolerances=dict.fromkeys(
            ("fp32", "tf32", "fp16", "bf16", "int8"), tolerance or Tolerance(0.01, 0.95, "chosen")
        ),
        packages=(),
        source=Path(__file__),
    )
    return Case(Target("cpu", "CPU", "cpu"), toy or model(), format_, None, precision)


def compare_conversion(
    one: Case,
    of: Weights,
    converted: Callable[[Arrays], Arrays],
    given: Samples,
    batch: int,
    *,
    tf32: bool | None = None,
    emulated: Callable[[Arrays], Arrays] | None = None,
) -> Parity:
    """What the conversion test finds: both stages evaluated, and what the precision costs where it is known."""
    toy, ids = one.model, given.ids

    def run(inputs: Arrays) -> Arrays:
        return toy.run(of.network, inputs)

    def training() -> Samples:
        return toy.samples("training", None, None)

    framework, after = (
        evaluate_in_process(name, toy, how, given, batch, with_outputs=True)
        for name, how in (("framework", run), ("converted", converted))
    )
    cost = measure_cost(one, of, given, training, batch, tf32=tf32, emulated=emulated)
    return parity.compare_conversion(one, framework, after, ids, cost, trained=of.trained, tf32=tf32)


def rows(indices: Sequence[int]) -> np.ndarray:
    """The inputs of some samples."""
    return samples().load(indices)[INPUT]
