"""The planted faults and honest models: what each computes, its fault, and the tests that find it."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.corpus.verdicts import ACCURACY, ALIKE, PASSES, Expected

AGAIN, IN_FLIGHT, BATCHES = "repeated", "in_flight", "batches"
DECLARED, CONVERSATION = "declared", "conversation"

_MODEL = Path(__file__).with_name("planted_model.py")
_BATCHING = "dynamic_batching { }"
_SEQUENCE = """sequence_batching {
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] },
    { name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] }
  ]
}"""
_DECOUPLED = "model_transaction_policy { decoupled: true }"


_TENSORS = {
    "boxes": {"OUT": ("FP32", "10, 6")},
    "rare": {"OUT": ("FP32", "200")},
    "half_outputs": {"OUT": ("FP16", "8")},
    "pictures": {"OUT": ("FP32", "64, 64")},
    "maps": {"OUT": ("INT32", "64, 64")},
    "labelled": {"OUT": ("FP32", "10"), "LABEL": ("INT32", "1")},
    "tied": {"OUT": ("FP32", "10"), "LABEL": ("INT32", "1")},
    "texts": {"IN": ("STRING", "1"), "OUT": ("STRING", "1")},
    "biased": {"IN": ("FP32", "16"), "BIAS": ("FP32", "8"), "OUT": ("FP32", "8")},
}
"""Type and dims of inputs and outputs that are not 16 and 8 numbers."""


@dataclass(frozen=True)
class Planted:
    """A model of planted_model.py, and its verdict."""

    name: str
    fault: str
    size: float
    """How large the fault is, in the unit of its function."""
    answers: str
    expected: Expected
    scheduling: str = _BATCHING
    instances: int = 1
    samples: str = ""
    """The kind of its samples; empty where inputs are made up."""
    tolerance: float | None = None
    """The `--tolerance` that its user has to give, if any."""


def _planted(
    fault: str, sizes: Sequence[float], by: Iterable[str], *answers: str, kind: str = ACCURACY, **more: Any
) -> list[Planted]:
    """A fault in several sizes, of models with these answers; one of the tests `by` has to find each."""
    suffix = "decoupled" if more.get("scheduling") == _DECOUPLED else ""
    return [
        Planted(
            "_".join(filter(None, [fault, "" if of == "plain" else of, _text(size), suffix])),
            fault,
            size,
            of,
            Expected(kind, frozenset(by)),
            **more,
        )
        for of in answers or ("plain",)
        for size in sizes
    ]


def _text(size: float) -> str:
    return f"{size:g}".replace(".", "p").replace("-", "m")


def _honest(
    answers: str, fault: str = "none", size: float = 0, expected: Expected = PASSES, **settings: Any
) -> Planted:
    parts = [
        f"honest_{answers}",
        f"{fault}_{_text(size)}" if fault != "none" else "",
        f"{settings['instances']}_instances" if "instances" in settings else "",
        "decoupled" if settings.get("scheduling") == _DECOUPLED else "",
        "long" if "samples" in settings else "",
    ]
    return Planted("_".join(filter(None, parts)), fault, size, answers, expected, **settings)


FAULTS = [
    # Leaks of the request before, as shares of its answer, down to a hundredth of FP16's rounding.
    *_planted("leak", [0.05, 0.0001], [AGAIN]),
    *_planted("leak", [0.001], [AGAIN], "prices", "boxes", "rare"),
    *_planted("leak", [0.01], [AGAIN], "half"),
    *_planted("sum_leak", [0.001], [AGAIN]),
    # Others in the batch.
    *_planted("neighbour", [0.001], [BATCHES]),
    *_planted("neighbour", [0.01], [BATCHES], "half"),
    *_planted("neighbour", [0.001], [BATCHES], "prices"),
    *_planted("kernel_off", [0.0005], [BATCHES]),
    *_planted("swapped", [1], [BATCHES], "plain", "prices", "identifiers", "masked", "narrow", "boxes"),
    *_planted("swapped", [1], [BATCHES], "rare", "labelled", "half_prices"),
    *_planted("two_swapped", [1], [BATCHES], "prices", "maps"),
    *_planted("two_swapped", [1], [BATCHES], "texts", samples="texts"),
    *_planted("reversed_above", [4], [BATCHES]),
    *_planted("reversed_at", [37], [BATCHES]),
    *_planted("pixel", [0.01], [BATCHES], "pictures"),
    *_planted("pixel", [1], [BATCHES], "maps"),
    *_planted("swapped_column", [4], [BATCHES], "boxes"),
    *_planted("padding", [0.005], [BATCHES]),
    *_planted("not_a_number_at_size", [23], [BATCHES]),
    *_planted("label_when_joined", [17], [BATCHES], "labelled"),
    # Other instances.
    *_planted("instance", [0.001], [AGAIN, IN_FLIGHT, BATCHES], instances=2),
    # Chance and time.
    *_planted("random_column", [0.1], [AGAIN], "boxes"),
    *_planted("added_noise", [0.005], [AGAIN], "narrow"),
    *_planted("noise", [0.0005], [AGAIN]),
    *_planted("not_a_number_at_random", [1 / 2000], [BATCHES, IN_FLIGHT]),
    *_planted("outlier_at_random", [0.05], [BATCHES, IN_FLIGHT]),
    *_planted("refuses", [1 / 100], [], kind="infrastructure"),
    *_planted("time_stamp", [1], [AGAIN], "texts"),
    *_planted("after_requests", [200], [IN_FLIGHT, BATCHES]),
    *_planted("first", [0.01], [AGAIN]),
    # Inputs, and declared outputs.
    *_planted("not_a_number_by_input", [2.8], [DECLARED], samples="vectors"),
    *_planted("bias_remembered", [0.01], [AGAIN], "biased"),
    *_planted("none", [64], [DECLARED], "wide"),
    *_planted("none", [2], [DECLARED], "deeper"),
    *_planted("none", [64], [CONVERSATION], "wide", scheduling=_DECOUPLED),
    # Sequences and any number of answers.
    *_planted("leak", [0.001], [CONVERSATION], "sums", scheduling=_SEQUENCE),
    *_planted("start_ignored", [1], [CONVERSATION], "sums", scheduling=_SEQUENCE),
    *_planted("leak", [0.001], [CONVERSATION], scheduling=_DECOUPLED),
    *_planted("message_lacking", [150], [CONVERSATION], scheduling=_DECOUPLED),
    *_planted("message_at_random", [1 / 20], [CONVERSATION], scheduling=_DECOUPLED),
]
CONTROLS = [
    *map(_honest, ("plain", "prices", "identifiers", "masked", "boxes", "narrow", "classes", "labelled")),
    *map(_honest, ("tied", "rare", "half", "half_noisy", "half_outputs", "kernels", "kernel_prices")),
    *map(_honest, ("texts", "biased", "pictures", "maps")),
    _honest("plain", instances=2),
    *(_honest(answers, "noise", 1e-7) for answers in ("plain", "boxes", "rare", "pictures")),
    *(_honest(answers, "noise", 3e-8) for answers in ("prices", "narrow")),
    # Nothing shows that they compute in FP16, so the user has to give a tolerance.
    *(_honest(answers, tolerance=0.01) for answers in ("half_prices", "half_softmax")),
    _honest("texts", samples="texts"),
    _honest("sums", scheduling=_SEQUENCE),
    _honest("plain", scheduling=_DECOUPLED),
    # The same answer to everything proves nothing, and the suite remarks on it.
    _honest("zeros", expected=ALIKE),
]
UNDER_LOAD = [
    *_planted("after_requests", [2000], ["online", "offline"]),
    *_planted("random_column", [0.01], [], "boxes"),
    *map(_honest, ("prices", "tied", "half")),
]
"""Models under load: faults that only thousands of requests show, and models whose speed is shown."""


def write(root: Path, planted: Planted) -> None:
    """Put a model into a repository."""
    folder = root / planted.name
    (folder / "1").mkdir(parents=True)
    shutil.copyfile(_MODEL, folder / "1" / "model.py")
    parameters = {"answers": planted.answers, "fault": planted.fault, "size": repr(float(planted.size))}
    lines = [
        'backend: "python"',
        f"max_batch_size: {1 if planted.scheduling in (_SEQUENCE, _DECOUPLED) else 64}",
        f"instance_group [ {{ count: {planted.instances}, kind: KIND_CPU }} ]",
        planted.scheduling,
    ]
    tensors = {"IN": ("FP32", "16"), "OUT": ("FP32", "8"), **_TENSORS.get(planted.answers, {})}
    for name, (dtype, dims) in tensors.items():
        kind = "input" if name in ("IN", "BIAS") else "output"
        optional = ", optional: true" if name == "BIAS" else ""
        lines.append(f'{kind} [ {{ name: "{name}", data_type: TYPE_{dtype}, dims: [ {dims} ]{optional} }} ]')
    for name, text in parameters.items():
        lines.append(f'parameters {{ key: "{name}" value {{ string_value: "{text}" }} }}')
    (folder / "config.pbtxt").write_text("\n".join(lines))


def write_samples(folder: Path, kind: str) -> Path:
    """Samples of a kind, in a folder of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "vectors":
        # The model fails on one sample in 200, and not on the first ones.
        values = np.clip(np.random.default_rng(0).standard_normal((400, 16)), -2.5, 2.5).astype(np.float32)
        values[[150, 333], 0] = 3
        np.save(folder / "IN.npy", values)
    else:
        lines = [f"{'a longer text ' * (3 + number % 4)}of customer {number}" for number in range(40)]
        (folder / "lines.txt").write_text("\n".join(lines) + "\n")
    return folder
