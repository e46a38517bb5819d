"""What a precision costs, and the error in such costs, are shares of the framework's values: a unit changes neither."""

from collections.abc import Callable

import numpy as np
import pytest

from fixtures.spec import Arrays
from reports.record.schema import Parity
from tests import toy
from tests.toy import compare_conversion

COST = 0.002
"""The error of the precision in each value, whose mean is a quarter: each row is three zeros and a one."""


def found(times: float, unit: float = 1.0) -> Parity:
    """The comparison of a model whose conversion is off by so many costs, its outputs in another unit."""

    def off_by(error: float) -> Callable[[Arrays], Arrays]:
        return lambda inputs: {toy.OUTPUT: unit * (inputs[toy.INPUT] + np.float32(error))}

    model = toy.model(run=lambda _network, inputs: off_by(0.0)(inputs))
    case = toy.case(model, precision="fp16")
    return compare_conversion(
        case, toy.weights(), off_by(times * COST), toy.samples(), 8, emulated=off_by(COST), tf32=False
    )


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_the_cost_is_a_share_of_the_mean_value_in_any_unit(unit: float) -> None:
    parity = found(1.5, unit)

    assert parity.precision_cost == pytest.approx(COST / 0.25, rel=0.01)
    assert parity.error_in_costs == pytest.approx(1.5, rel=0.01)
    assert parity.passed


def test_an_error_of_more_costs_than_the_limit_fails() -> None:
    limit = found(1.0).error_in_costs_limit

    assert limit is not None
    assert found(0.98 * limit).passed
    assert not found(1.02 * limit).passed
