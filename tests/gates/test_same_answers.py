"""Gates repeat samples, in flight and in batches, on models whose answers depend on it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.gates.made_up_model import (
    CASE_LIMITS,
    IDS,
    LIMITS,
    ROWS,
    WIDE,
    AnswerRule,
    MadeUpModel,
    gate_context,
    served_model,
    sound,
)
from tests.helpers import present
from tritonproof.accuracy.limits import AnswerLimits, CaseLimits, NumberLimits
from tritonproof.client.input_data import InputData
from tritonproof.client.requests import Answer, ServedModel
from tritonproof.gates import GATES
from tritonproof.gates.context import ask_one_by_one, make_single_answers
from tritonproof.gates.same_answers import repeated_gate
from tritonproof.record.correctness import GateResult
from tritonproof.spec import Tensor

REPEATABLE = ("repeated", "reload", "in-flight", "batches")


def gate(
    name: str, rule: AnswerRule = sound, count: int = 8, limits: AnswerLimits = LIMITS, **changes: Any
) -> tuple[GateResult, MadeUpModel]:
    """A gate's result for a model that answers by this rule, and the model with the gate's own requests."""
    served = served_model(count, rule=rule)
    singles = ask_one_by_one(served, CaseLimits(limits, limits, changes.pop("inferred_on", None)))
    served.asked.clear()
    return GATES[name].check(gate_context(served, singles, **changes)).result, served


# --- requests -----------------------------------------------------------------------------------------------


def labelling(samples: np.ndarray, _in_flight: int) -> dict[str, np.ndarray]:
    """The sound answers, and a text for each row, [rows]."""
    return {"OUT": 2 * ROWS[samples], "LABEL": np.array([b"class-%d" % (n % 3) for n in samples], object)}


@pytest.mark.parametrize("name", REPEATABLE)
@pytest.mark.parametrize("model", [sound, labelling])
def test_sound_model_passes_every_gate(name: str, model: AnswerRule) -> None:
    result, served = gate(name, model, inferred_on="cpu")
    assert result.fault == ""
    assert result.requests == len(served.asked) + (8 if name == "repeated" else 0)
    assert present(result.answer_comparison).wrong == 0
    assert present(result.answer_comparison).count >= result.requests


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("repeated", [([n], 1) for n in range(7, -1, -1)]),
        ("reload", [([n], 1) for n in range(8)]),
        ("in-flight", [([n % 8], 64) for n in range(64)]),
    ],
)
def test_each_sample_is_sent_alone(name: str, asked: list[tuple[list[int], int]]) -> None:
    """`repeated` reverses the order, so that each request follows a different one."""
    assert gate(name)[1].asked == asked


def test_tried_batches_fit_256_mib_by_real_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 16 << 20
    texts = served_model(1, data=InputData(["a"], {"IN": np.array([[b"x" * size]], object)}))
    answers = make_single_answers(["a"], {0: {"OUT": np.zeros(size, np.int8)}}, CASE_LIMITS)
    for one in (gate_context(texts, largest=40), gate_context(answers=answers, largest=40)):
        assert (one.batch_sizes[-1], one.most_in_flight(1)) == (15, 15)
    others = [{"IN": np.zeros((1, size), np.int8)}]
    data = InputData(["a", "b"], {"IN": np.zeros((1, 4))}, others=others)
    mixed = gate_context(served_model(data=data))
    assert (mixed.most_in_flight(1), mixed.most_in_flight(2)) == (15, 64), "other shapes are sent alone"
    monkeypatch.setattr("tritonproof.gates.context.IN_FLIGHT_BYTES", 3 * 32)
    result, served = gate("batches")
    assert max(len(samples) for samples, _ in served.asked) == 3
    assert result.tried.startswith("3 of 4 batch sizes, 1 to 3, 2 of them beside other neighbours")
    assert "0 of them beside" in gate("batches", count=1)[0].tried


@pytest.mark.parametrize(
    ("largest", "preferred", "sizes"),
    [
        (1, (), [1]),
        (6, (), [1, 2, 3, 4, 5, 6]),
        (37, (20,), [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 19, 20, 21, 31, 32, 33, 36, 37]),
    ],
)
def test_tried_batch_sizes_surround_kernel_sizes(
    largest: int, preferred: tuple[int, ...], sizes: list[int]
) -> None:
    context = gate_context(largest=largest, preferred=preferred)
    assert context.kernel_sizes == sizes
    assert context.batch_sizes == list(range(1, largest + 1))


# --- faults -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REPEATABLE)
def test_answer_unlike_the_lone_one_is_named(name: str) -> None:
    def wrong_for_row_5(samples: np.ndarray, _in_flight: int) -> np.ndarray:
        return 2 * ROWS[samples] + (samples == 5)[:, None]

    finding = GATES[name].check(gate_context(served_model(rule=wrong_for_row_5)))
    mismatch = present(finding.mismatch)
    assert mismatch.batch[mismatch.row] == "row-5"
    assert "row-5" in finding.result.fault
    assert present(finding.result.answer_comparison).sample == "row-5"


def test_first_answer_after_load_is_compared() -> None:
    right, wrong, zeros = ({"OUT": 2 * ROWS[:1] * np.float32(factor)} for factor in (1, 1.001, 0))
    for name in ("repeated", "reload"):
        assert gate(name, first_answer=right)[0].fault == ""
        assert "row-0" in gate(name, first_answer=wrong, limits=WIDE)[0].fault
        assert gate(name, first_answer=wrong, limits=WIDE, kernels_may_change=True)[0].fault == ""
        assert "row-0" in gate(name, first_answer=zeros, limits=WIDE, kernels_may_change=True)[0].fault


BATCH_FAULTS: dict[str, AnswerRule] = {
    "a thousandth of the neighbours": lambda samples, _: (
        2 * ROWS[samples] + 0.001 * ROWS[samples].mean(axis=0) * (len(samples) > 1)
    ),
    "an instance that is a thousandth off": lambda samples, in_flight: (
        2 * ROWS[samples] * np.float32(1.001 if in_flight > 1 else 1)
    ),
    "an instance that is a thousandth off beside a text for each row": lambda samples, in_flight: (
        labelling(samples, 1) | {"OUT": 2 * ROWS[samples] * np.float32(1.001 if in_flight > 1 else 1)}
    ),
    "a thousandth of the third row in the fourth": lambda samples, _: (
        2 * ROWS[samples] + 0.001 * ROWS[samples[2:3]].sum(axis=0) * (np.arange(len(samples)) == 3)[:, None]
    ),
}
"""Faults below the limits of a precision."""


@pytest.mark.parametrize("fault", BATCH_FAULTS.values(), ids=BATCH_FAULTS)
def test_batch_faults_are_found_by_batches_gate_alone(fault: AnswerRule) -> None:
    assert gate("repeated", fault, limits=WIDE)[0].fault == ""
    for limits, expected_from in ((WIDE, "in an earlier batch of this size"), (LIMITS, "alone")):
        served = served_model(rule=fault)
        singles = ask_one_by_one(served, CaseLimits(limits, limits))
        finding = GATES["batches"].check(gate_context(served, singles))
        assert finding.result.fault.endswith(expected_from)
        mismatch = present(finding.mismatch)
        assert mismatch.batch[mismatch.row] in finding.result.fault
        assert [IDS.index(name) for name in mismatch.batch] in [samples for samples, _ in served.asked]
        assert len(mismatch.batch) > 1


def test_batch_size_kernels_may_round_differently() -> None:
    def by_size(samples: np.ndarray, _in_flight: int) -> np.ndarray:
        return 2 * ROWS[samples] * np.float32(1 + 1e-7 * len(samples))

    def in_half_precision(samples: np.ndarray, _in_flight: int) -> np.ndarray:
        exact = 2 * ROWS[samples]
        return exact if len(samples) == 1 else exact.astype(np.float16).astype(np.float32)

    for name in ("batches", "in-flight"):
        assert gate(name, by_size, largest=16)[0].fault == ""
        limits = AnswerLimits(NumberLimits(0.05, 0.005), rounding=1e-3)
        assert gate(name, in_half_precision, limits=limits)[0].fault == ""


@pytest.mark.parametrize("name", REPEATABLE)
def test_noisy_model_is_judged_by_its_noise(name: str) -> None:
    generator = np.random.default_rng(4)

    def noisy(samples: np.ndarray, _in_flight: int) -> np.ndarray:
        return 2 * ROWS[samples] + 1e-4 * generator.standard_normal((len(samples), 4)).astype(np.float32)

    assert gate(name, noisy, limits=WIDE)[0].fault == ""


@pytest.mark.parametrize("name", REPEATABLE)
def test_model_without_readable_answers_fails(name: str) -> None:
    def with_a_row_more(samples: np.ndarray, _in_flight: int) -> np.ndarray:
        return np.resize(2 * ROWS[samples], (len(samples) + 1, 4))

    assert "OUT" in gate(name, with_a_row_more)[0].fault


# --- optional inputs ----------------------------------------------------------------------------------------

Remembering = Callable[[np.ndarray | None], np.ndarray]
"""Returns what a model adds to its answer, from the request's optional input or None."""


@dataclasses.dataclass(frozen=True)
class ModelWithOption(ServedModel):
    """A model with the optional input MORE."""

    more: Remembering

    def ask(self, sample_indices: Any, *_how: Any, **_more: Any) -> list[Answer]:
        answers = []
        for samples in sample_indices:
            inputs = self.data.inputs(samples)
            values = self.more(inputs["MORE"][0] if "MORE" in inputs else None)
            answers.append(Answer(np.array(samples), {"OUT": (2 * inputs["IN"] + values).astype(np.float32)}))
        return answers


def optional_gate(more: Remembering) -> GateResult:
    """The result for a model with the optional input MORE."""
    inputs = (Tensor("IN", "FP32", (4,)), Tensor("MORE", "FP32", (4,), optional=True))
    source = served_model()
    data = InputData(source.data.ids, {"IN": ROWS, "MORE": ROWS[::-1]})
    model = dataclasses.replace(source.model, inputs=inputs)
    served = ModelWithOption(source.server, source.name, model, data, more)
    return repeated_gate(gate_context(served, ask_one_by_one(served, CASE_LIMITS))).result


def test_request_without_optional_input_ignores_earlier_requests() -> None:
    last = np.zeros(4, np.float32)

    def last_sent(values: np.ndarray | None) -> np.ndarray:
        nonlocal last
        last = last if values is None else values
        return np.float32(0.001) * last

    result = optional_gate(lambda values: np.zeros(4) if values is None else values)
    assert result.fault == ""
    assert "row-0 without MORE" in optional_gate(last_sent).fault
