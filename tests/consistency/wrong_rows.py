"""Answers of another sample, or off by less than 2 % of their output's largest magnitude."""

from collections.abc import Callable

import numpy as np

from fixtures.accuracy.compare_answers import Closeness
from fixtures.spec import Arrays

COUNT = 12
NEAR = Closeness(0.02, 0.1, 0.98)
"""The widest limits of a model served as found, with integers that a few ties may change."""
Fault = Callable[[Arrays], Arrays]
"""Turns the right rows of a batch into wrong ones."""

_generator = np.random.default_rng(0)
_PRICES = {"PRICE": (1000 + 10 * _generator.standard_normal((COUNT, 4))).astype(np.float32)}
_MASKED = _generator.standard_normal((COUNT, 12)).astype(np.float32)
_MASKED[:, 8:] = -10_000
_BOXES = np.concatenate(
    [
        _generator.uniform(0, 640, (COUNT, 5, 4)),
        _generator.uniform(0, 1, (COUNT, 5, 1)),
        _generator.integers(0, 3, (COUNT, 5, 1)),
    ],
    axis=2,
).astype(np.float32)
"""A detector's rows: two corners in pixels, a score and a class."""
_SCORES = _generator.dirichlet([1.0] * 5, COUNT).astype(np.float32)
CLASSES = {"SCORES": _SCORES, "CLASS": _SCORES.argmax(axis=1)[:, None]}


def _to_other_customers(outputs: Arrays) -> Arrays:
    return {name: np.roll(values, 1, axis=0) for name, values in outputs.items()}


def _score_of_the_neighbour(outputs: Arrays) -> Arrays:
    boxes = outputs["BOXES"].copy()
    boxes[..., 4] = np.roll(boxes[..., 4], 1, axis=0)
    return {"BOXES": boxes}


_scores = np.random.default_rng(1)
"""Gives other scores at each call, and the same in each run of a test."""


def _random_scores(outputs: Arrays) -> Arrays:
    boxes = outputs["BOXES"].copy()
    boxes[..., 4] = _scores.uniform(0, 1, boxes.shape[:-1])
    return {"BOXES": boxes}


def _class_off_by_one(outputs: Arrays) -> Arrays:
    return {**outputs, "CLASS": (outputs["CLASS"] + 1) % _SCORES.shape[1]}


FAULTS: dict[str, tuple[Arrays, Fault]] = {
    "prices of 1000 +- 10 given to other customers": (_PRICES, _to_other_customers),
    "scores with a mask of -10000 given to other customers": ({"LOGITS": _MASKED}, _to_other_customers),
    "the score of a box taken from the neighbour": ({"BOXES": _BOXES}, _score_of_the_neighbour),
    "random scores beside pixel coordinates": ({"BOXES": _BOXES}, _random_scores),
    "a class that is off by one beside its scores": (CLASSES, _class_off_by_one),
}
"""The right outputs, and the fault."""
