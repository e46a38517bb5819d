"""Parity: the converted model against the framework, by the error of its numbers and by its decisions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.spec import Arrays, Tensor, Tolerance
from tests import toy
from tests.toy import compare_conversion

CASE = toy.case()
COUNT = 40


def changed(error: float, wrong: int) -> Callable[[Arrays], Arrays]:
    """A conversion that adds `error` everywhere and decides the first `wrong` samples otherwise."""

    def run(inputs: Arrays) -> Arrays:
        values = inputs[toy.INPUT] + error
        values[:wrong] = np.roll(values[:wrong], 1, axis=1)
        return {toy.OUTPUT: values.astype(np.float32)}

    return run


def test_an_equal_conversion_passes() -> None:
    result = compare_conversion(CASE, toy.weights(), toy.network, toy.samples(100), 9)

    assert (result.samples, result.relative_error, result.agreement, result.passed) == (100, 0.0, 1.0, True)
    assert (result.relative_error_limit, result.agreement_limit) == (0.01, 0.95)


@pytest.mark.parametrize(("error", "passed"), [(0.0005, True), (0.011, False)])
def test_the_error_is_a_share_of_what_tells_samples_apart_and_has_a_limit(error: float, passed: bool) -> None:
    spread = toy.rows(range(COUNT)).std(axis=0).min()

    result = compare_conversion(CASE, toy.weights(), changed(error * spread, 0), toy.samples(COUNT), 7)

    assert result.relative_error == pytest.approx(error, rel=1e-2)
    assert result.passed is passed


def test_an_offset_that_all_samples_share_does_not_hide_an_error() -> None:
    """Outputs of 1000 +- 1: an error of a tenth of what tells them apart is a ten thousandth of the largest."""

    def high(inputs: Arrays) -> Arrays:
        return {toy.OUTPUT: inputs[toy.INPUT] + np.float32(1000)}

    def moved(inputs: Arrays) -> Arrays:
        return {toy.OUTPUT: high(inputs)[toy.OUTPUT] + np.float32(0.1)}

    case = toy.case(toy.model(run=lambda _network, inputs: high(inputs)))

    assert compare_conversion(case, toy.weights(), high, toy.samples(COUNT), 8).passed
    assert not compare_conversion(case, toy.weights(), moved, toy.samples(COUNT), 8).passed


def test_a_fault_in_the_last_samples_of_a_large_set_is_found() -> None:
    """All samples are compared, and not the first ones alone."""
    count = 300

    def clipped(inputs: Arrays) -> Arrays:
        values = inputs[toy.INPUT].copy()
        values[-1] *= 0.5 if len(values) == count % 8 else 1.0
        return {toy.OUTPUT: values}

    result = compare_conversion(CASE, toy.weights(), clipped, toy.samples(count), 8)

    assert (result.passed, result.agreement) == (False, 1.0)
    assert result.outputs[0].sample == f"toy-{count - 1}"


@pytest.mark.parametrize(("wrong", "passed"), [(2, True), (3, False)])
def test_the_agreement_has_a_limit(wrong: int, passed: bool) -> None:
    case = toy.case(tolerance=Tolerance(10, 0.95, "chosen"))

    result = compare_conversion(case, toy.weights(), changed(0, wrong), toy.samples(COUNT), COUNT)

    assert result.agreement == pytest.approx(1 - wrong / COUNT)
    assert result.passed is passed


def test_the_decisions_of_random_weights_have_no_limit() -> None:
    case = toy.case(tolerance=Tolerance(10, 0.95, "chosen"))

    result = compare_conversion(
        case, toy.weights(trained=False), changed(0, COUNT), toy.samples(COUNT), COUNT
    )

    assert result.agreement_limit is None
    assert result.agreement == 0.0
    assert result.passed


@pytest.mark.parametrize(
    ("converted", "found"),
    [
        pytest.param(lambda _inputs: {}, f"outputs lack {toy.OUTPUT}", id="no output"),
        pytest.param(
            lambda inputs: {toy.OUTPUT: inputs[toy.INPUT][:, :1]}, r"of shape \(8, 1\)", id="broadcasts"
        ),
        pytest.param(
            lambda inputs: {toy.OUTPUT: inputs[toy.INPUT].repeat(2, axis=1)}, r"of shape \(8, 8\)", id="wider"
        ),
    ],
)
def test_an_output_of_another_shape_is_an_error(converted: Callable[[Arrays], Arrays], found: str) -> None:
    with pytest.raises(ProofError, match=f"converted.*{found}"):
        compare_conversion(CASE, toy.weights(), converted, toy.samples(8), 8)


# --- what cannot be compared ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["framework", "converted"])
def test_parity_of_a_value_that_is_no_number_is_an_error(stage: str) -> None:
    good, bad = toy.network, toy.spoilt(np.nan)
    weights = toy.weights(network=bad if stage == "framework" else good)

    with pytest.raises(ProofError, match=rf"the {stage} outputs hold NaN[^$]*first sample toy-007"):
        compare_conversion(CASE, weights, bad if stage == "converted" else good, toy.samples(8), 8)


# --- integer outputs ------------------------------------------------------------------------------------------

LENGTH = "LENGTH__0"


def with_length(change: Callable[[np.ndarray], np.ndarray] = lambda lengths: lengths) -> Any:
    """A network that gives an integer beside its numbers; where `change` alters it, the numbers move too."""

    def run(inputs: Arrays) -> Arrays:
        lengths = inputs[toy.INPUT].argmax(axis=1)
        changed = change(lengths)
        moved = 100.0 * (changed != lengths)[:, None]
        return {toy.OUTPUT: inputs[toy.INPUT] + moved, LENGTH: changed}

    return run


def test_rows_whose_integers_differ_count_as_disagreement_and_not_by_their_error() -> None:
    model = toy.model(keep=lambda outputs: {"lengths": outputs[LENGTH]}, decide=lambda kept: kept["lengths"])
    case = toy.case(model, tolerance=Tolerance(0.01, 0.99, "chosen"))
    once = iter([True])

    def one_longer(lengths: np.ndarray) -> np.ndarray:
        return lengths + (np.arange(len(lengths)) == 2) * next(once, False)

    result = compare_conversion(
        case, toy.weights(network=with_length()), with_length(one_longer), toy.samples(COUNT), 8
    )

    assert result.relative_error == 0
    assert result.agreement == pytest.approx(1 - 1 / COUNT)
    assert not result.passed


def test_integers_that_no_decision_uses_are_held_to_their_limit_and_hide_no_error() -> None:
    """The classes are right; the length beside them is off in most rows, and so are the numbers there."""
    case = toy.case(toy.model(run=lambda network, inputs: network(inputs)))

    def wrong(inputs: Arrays) -> Arrays:
        right = with_length()(inputs)
        off = np.arange(len(right[LENGTH])) % 8 != 0
        return {
            toy.OUTPUT: np.where(off[:, None], 0.5, 1.0).astype(np.float32) * right[toy.OUTPUT],
            LENGTH: right[LENGTH] + off,
        }

    result = compare_conversion(case, toy.weights(network=with_length()), wrong, toy.samples(COUNT), 8)

    by_name = {one.output: one for one in result.outputs}
    assert (result.agreement, result.relative_error) == (1.0, 0.0)
    assert not result.passed
    assert by_name[LENGTH].mean == pytest.approx(7 / 8)
    assert by_name[toy.OUTPUT].compared == pytest.approx(1 / 8)
    assert by_name[toy.OUTPUT].compared_limit > 1 / 2


@pytest.mark.parametrize(("wrong", "passed"), [(0, True), (3, False)])
def test_a_model_of_integers_alone_is_held_to_its_decisions_even_with_random_weights(
    wrong: int, passed: bool
) -> None:
    outputs = (Tensor(LENGTH, "INT64", ()),)
    model = toy.model(outputs=outputs, keep=lambda outputs: outputs, decide=lambda kept: kept[LENGTH])
    case = toy.case(model, tolerance=Tolerance(0.01, 0.95, "chosen"))

    def classes(inputs: Arrays) -> Arrays:
        return {LENGTH: inputs[toy.INPUT].argmax(axis=1)}

    def others(inputs: Arrays) -> Arrays:
        return {LENGTH: classes(inputs)[LENGTH] + (np.arange(len(inputs[toy.INPUT])) < wrong)}

    weights = toy.weights(network=classes, trained=False)
    result = compare_conversion(case, weights, others, toy.samples(COUNT), COUNT)

    assert result.relative_error is None
    assert result.agreement_limit == 0.95
    assert result.passed is passed
