"""Parity of models with several outputs, in several batches: each output by its own values, all batches together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fixtures.accuracy.compare_answers import ROUNDING
from fixtures.errors import AccuracyError
from fixtures.spec import Arrays, Tolerance, Weights
from reports.record.schema import Parity
from tests import toy
from tests.toy import compare_conversion

LARGE, COUNTS = "LARGE__1", "COUNTS__2"
SPREAD = float(toy.rows(range(40)).std(axis=0).min())
"""What tells the samples apart in the column in which they differ least; of LARGE it is a hundred times that."""


def outputs(inputs: Arrays) -> Arrays:
    """The numbers, a hundred times as large ones, and an integer."""
    values = inputs[toy.INPUT]
    return {toy.OUTPUT: values, LARGE: 100 * values, COUNTS: values.argmax(axis=1)}


def found(
    change: Callable[[Arrays, int], None],
    *,
    emulated: Callable[[Arrays, int], None] | None = None,
    batch: int = 8,
    precision: str = "fp16",
    tolerance: Tolerance | None = None,
    weights: Weights | None = None,
    **model: Any,
) -> Parity:
    """The comparison of a conversion whose outputs are changed; `change(outputs, number of the batch)`."""

    def changing(how: Callable[[Arrays, int], None]) -> Callable[[Arrays], Arrays]:
        numbers = iter(range(1000))

        def run(inputs: Arrays) -> Arrays:
            changed = {name: values.copy() for name, values in outputs(inputs).items()}
            how(changed, next(numbers))
            return changed

        return run

    one = toy.model(run=lambda _network, inputs: outputs(inputs), **model)
    return compare_conversion(
        toy.case(one, precision, tolerance or Tolerance(0.01, 0.95, "chosen")),
        weights or toy.weights(),
        changing(change),
        toy.samples(),
        batch,
        emulated=None if emulated is None else changing(emulated),
    )


def off(error: float, output: str = toy.OUTPUT, only: int | None = None) -> Callable[[Arrays, int], None]:
    """An output is off by so much in all batches, or in one."""

    def change(one: Arrays, number: int) -> None:
        if only in (None, number):
            one[output] += np.float32(error)

    return change


def shares_off(first: float, second: float) -> Callable[[Arrays, int], None]:
    """The two outputs of numbers are off by such shares of their means."""

    def change(one: Arrays, _number: int) -> None:
        one[toy.OUTPUT] += np.float32(first * 0.25)
        one[LARGE] += np.float32(second * 25)

    return change


@pytest.mark.parametrize("only", [0, 2, 4])
def test_an_error_in_any_batch_is_held_to_the_spread_over_all(only: int) -> None:
    parity = found(off(0.02 * SPREAD, only=only), precision="fp32")

    assert parity.relative_error == pytest.approx(0.02, rel=1e-2)
    assert (parity.samples, parity.passed) == (40, False)


def test_each_output_is_held_to_its_own_spread() -> None:
    large = found(off(0.5 * SPREAD, LARGE), precision="fp32")
    assert large.relative_error == pytest.approx(0.005, rel=1e-2)

    def both_off(one: Arrays, number: int) -> None:
        off(0.5 * SPREAD, LARGE)(one, number)
        off(0.008 * SPREAD)(one, number)

    assert found(both_off, precision="fp32").relative_error == pytest.approx(0.008, rel=1e-2)


def test_an_output_that_is_nothing_but_zeros_allows_rounding_alone() -> None:
    def zeros(inputs: Arrays) -> Arrays:
        return {toy.OUTPUT: np.zeros_like(inputs[toy.INPUT])}

    parity = compare_conversion(
        toy.case(toy.model(run=lambda _network, inputs: zeros(inputs))),
        toy.weights(),
        lambda inputs: {toy.OUTPUT: zeros(inputs)[toy.OUTPUT] + np.float32(0.25)},
        toy.samples(),
        8,
    )

    assert parity.relative_error is not None
    assert parity.relative_error > 1
    assert not parity.passed


def test_of_several_outputs_the_worst_in_costs_of_its_own_counts() -> None:
    """Each costs a thousandth of its mean; one is off by that, the other by one and a half of it."""

    for errors in ((0.001, 0.0015), (0.0015, 0.001)):
        parity = found(shares_off(*errors), emulated=shares_off(0.001, 0.001))
        assert parity.error_in_costs == pytest.approx(1.5, rel=0.01)
        assert parity.precision_cost == pytest.approx(0.001, rel=0.01)


def test_rows_whose_integers_differ_are_left_out_of_what_is_off_and_of_what_it_is_a_share_of() -> None:
    def longer(one: Arrays, _number: int) -> None:
        one[COUNTS][:4] += 1
        one[toy.OUTPUT][:4] += 100
        one[toy.OUTPUT][4:] += np.float32(0.00025)
        one[LARGE][4:] += np.float32(0.025)

    parity = found(
        longer, emulated=shares_off(0.001, 0.001), keep=lambda kept: kept, decide=lambda kept: kept[COUNTS]
    )

    assert parity.error_in_costs is not None
    assert parity.error_in_costs < 2
    assert parity.agreement == 0.5
    assert not parity.passed, "by its decisions and by the rows that are left to compare"
    assert [one.compared for one in parity.outputs if one.kind == "error"] == [0.5, 0.5]


def test_the_limit_of_the_largest_error_is_eight_times_what_the_precision_costs() -> None:
    """The format's tolerance decides only where nobody knows what it costs; and FP16's rounding itself is no error."""
    cost = (0.05 - ROUNDING["fp16"]) / SPREAD

    def both_off(one: Arrays, number: int) -> None:
        off(0.05)(one, number)
        off(5.0, LARGE)(one, number)

    known = found(off(0.0), emulated=both_off)

    assert known.relative_error_limit == pytest.approx(8 * cost, rel=1e-2)
    assert found(off(0.0), precision="fp32").relative_error_limit == 0.01


def test_each_limit_alone_fails_a_conversion() -> None:
    def some_wrong(one: Arrays, _number: int) -> None:
        one[toy.OUTPUT][:1] = np.roll(one[toy.OUTPUT][:1], 1, axis=1)

    wide = Tolerance(10, 0.95, "chosen")
    by_decisions = found(some_wrong, precision="fp32", tolerance=wide)
    assert (by_decisions.agreement, by_decisions.agreement_limit, by_decisions.passed) == (0.875, 0.95, False)
    by_costs = found(off(0.03), emulated=off(0.01))
    assert by_costs.error_in_costs == pytest.approx(3, rel=0.01)
    assert by_costs.relative_error is not None
    assert by_costs.relative_error < by_costs.relative_error_limit
    assert not by_costs.passed
    random = found(some_wrong, precision="fp32", tolerance=wide, weights=toy.weights(trained=False))
    assert (random.agreement_limit, random.passed) == (None, True)


def test_a_sample_that_is_no_number_is_named_wherever_it_is() -> None:
    def spoilt(one: Arrays, number: int) -> None:
        if number == 2:
            one[LARGE][3, 1] = np.inf

    with pytest.raises(AccuracyError, match=rf"for 1 of 8 samples[^$]*output {LARGE}, first sample toy-019"):
        found(spoilt, precision="fp32")


def test_integers_that_differ_in_some_rows_of_each_batch_leave_the_others_to_compare() -> None:
    def last_only(one: Arrays, number: int) -> None:
        one[COUNTS] += number != 4
        one[toy.OUTPUT] += np.float32(0.003 * SPREAD)

    assert found(last_only, precision="fp32").relative_error == pytest.approx(0.003, rel=1e-2)


def test_an_output_that_costs_less_is_the_worst_by_a_smaller_error() -> None:
    """One costs its mean and is off by 1.3 times that, the other costs a tenth of its mean and is off by twice that."""

    for swap in (1, -1):
        parity = found(shares_off(*(1.3, 0.2)[::swap]), emulated=shares_off(*(1.0, 0.1)[::swap]))
        assert parity.error_in_costs == pytest.approx(2, rel=0.01)
        assert parity.precision_cost == pytest.approx(0.1, rel=0.01)
