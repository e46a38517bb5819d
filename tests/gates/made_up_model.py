"""A model whose answers a test makes up: right, another sample's, or off by less than 2 % of the largest."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import structs

from tests import toy
from tritonproof.accuracy.limits import AnswerLimits, CaseLimits, NumberLimits
from tritonproof.client.input_data import InputData
from tritonproof.client.requests import Answer, LoadedAs, ServedModel
from tritonproof.gates.context import GateContext, SingleAnswers, make_single_answers
from tritonproof.spec import Arrays, Tensor

ROWS = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)

LIMITS = AnswerLimits(NumberLimits(1e-4, 2e-5))
CASE_LIMITS = CaseLimits(LIMITS, LIMITS)
IDS = [f"row-{n}" for n in range(len(ROWS))]
AnswerRule = Callable[[np.ndarray, int], np.ndarray | Arrays]
"""From a request's sample indices and the number in flight, the answer's rows of OUT or several outputs."""


def sound(samples: np.ndarray, _in_flight: int) -> np.ndarray:
    """Twice each row, whatever its neighbours."""
    return 2 * ROWS[samples]


@dataclass(frozen=True)
class MadeUpModel(ServedModel):
    """A model that answers by a rule, if it has one, and keeps the requests."""

    rule: AnswerRule | None = None
    asked: list[tuple[list[int], int]] = field(default_factory=list)
    """The samples of each request, and how many were in flight."""

    def ask(self, sample_indices: Iterable[Any], in_flight: int = 1, **how: Any) -> list[Answer]:
        if self.rule is None:
            return super().ask(sample_indices, in_flight, **how)
        requests = [np.asarray(item) for item in sample_indices]
        self.asked.extend((item.tolist(), in_flight) for item in requests)
        answers = [self.rule(item, in_flight) for item in requests]
        outputs = [{"OUT": item} if isinstance(item, np.ndarray) else item for item in answers]
        return [Answer(*item) for item in zip(requests, outputs, strict=True)]


def served_model(count: int = 8, *, batched: bool = True, **changes: Any) -> MadeUpModel:
    """A model of FP32 rows of four, with `count` samples; with `changes`."""
    inputs, outputs = (Tensor("IN", "FP32", (4,)),), (Tensor("OUT", "FP32", (4,)),)
    model = toy.model(inputs=inputs, outputs=outputs, batch_axis="open" if batched else "none")
    data = InputData(IDS[:count], {"IN": ROWS[:count]})
    fields: dict[str, Any] = {"server": None, "name": "toy", "model": model, "data": data}
    return MadeUpModel(**(fields | changes))


def gate_context(served: Any = None, answers: Any = None, largest: int = 4, **changes: Any) -> GateContext:
    """What gates get of the model, loaded with this largest batch, by default with the sound answers."""
    preferred, first_answer = changes.pop("preferred", ()), changes.pop("first_answer", None)
    deployment = structs.replace(toy.DEPLOYMENT, max_batch_size=largest, preferred_batch_sizes=preferred)
    loaded = LoadedAs(toy.ONLINE._replace(deployment=deployment), "python", first_answer)
    fields: dict[str, Any] = {"limits": CASE_LIMITS, **changes}
    return GateContext(served or served_model(), loaded, answers or singles(), **fields)


def singles(count: int = 8) -> SingleAnswers:
    """The sound model's answer to each sample alone."""
    return make_single_answers(IDS, {n: {"OUT": 2 * ROWS[n]} for n in range(count)}, CASE_LIMITS)


COUNT = 12
WIDE = AnswerLimits(NumberLimits(0.02, 0.02), agreement_by_output={"OUT": 0.98, "CLASS": 0.98})
"""The widest limits of a model served as it is, with integers that a few ties may change."""
Fault = Callable[[Arrays], Arrays]
"""Turns the right rows of a batch into wrong ones."""

_generator = np.random.default_rng(0)
_PRICES = {"PRICE": (1000 + 10 * _generator.standard_normal((COUNT, 4))).astype(np.float32)}
_MASKED = _generator.standard_normal((COUNT, 12)).astype(np.float32)
_MASKED[:, 8:] = -10_000
_corners, _score = _generator.uniform(0, 640, (COUNT, 5, 4)), _generator.uniform(0, 1, (COUNT, 5, 1))
_class = _generator.integers(0, 3, (COUNT, 5, 1))
_BOXES = np.concatenate([_corners, _score, _class], axis=2).astype(np.float32)
"""A detector's rows: two corners in pixels, a score and a class."""
_SCORES = _generator.dirichlet([1.0] * 5, COUNT).astype(np.float32)
CLASSES = {"SCORES": _SCORES, "CLASS": _SCORES.argmax(axis=1)[:, None]}


_random = np.random.default_rng(1)
"""Gives other scores at each call, and the same in each run of a test."""


def _to_other_customers(outputs: Arrays) -> Arrays:
    return {name: np.roll(values, 1, axis=0) for name, values in outputs.items()}


def _boxes_with(scores: Callable[[np.ndarray], np.ndarray]) -> tuple[Arrays, Fault]:
    def changed(outputs: Arrays) -> Arrays:
        boxes = outputs["BOXES"].copy()
        boxes[..., 4] = scores(boxes[..., 4])
        return {"BOXES": boxes}

    return {"BOXES": _BOXES}, changed


FAULTS: dict[str, tuple[Arrays, Fault]] = {
    "prices of 1000 +- 10 given to other customers": (_PRICES, _to_other_customers),
    "scores with a mask of -10000 given to other customers": ({"LOGITS": _MASKED}, _to_other_customers),
    "the score of a box taken from the neighbour": _boxes_with(lambda scores: np.roll(scores, 1, axis=0)),
    "random scores beside pixel coordinates": _boxes_with(lambda scores: _random.uniform(0, 1, scores.shape)),
    "a class that is off by one beside its scores": (
        CLASSES,
        lambda outputs: {**outputs, "CLASS": (outputs["CLASS"] + 1) % _SCORES.shape[1]},
    ),
}
"""The right outputs, and the fault."""
