"""Ratios and chances of passes that were not paired: what a limit means, and what passes without any spread do."""

import numpy as np
import pytest

from reports.record.ratio import (
    paired_chance,
    paired_ratio,
    shown_by_holm,
    unpaired_chance,
    unpaired_ratio,
)

MINE, THEIRS = [9.0, 9.4, 8.9, 9.2, 9.1], [10.0, 10.3, 9.8, 10.1]


@pytest.mark.parametrize("limit", [0.8, 0.9, 0.97])
def test_a_limit_is_a_share_of_the_others_speed(limit: float) -> None:
    apart = unpaired_chance(MINE, THEIRS, limit)

    assert apart == pytest.approx(unpaired_chance(np.array(MINE) / limit, THEIRS, 1.0))
    assert apart == pytest.approx(unpaired_chance(MINE, np.array(THEIRS) * limit, 1.0))
    assert unpaired_chance(MINE, THEIRS, 0.8) > 0.99 > 0.01 > unpaired_chance(MINE, THEIRS, 0.97)


def test_a_limit_of_pairs_is_one_too() -> None:
    mine = [9.0, 9.4, 8.9, 9.2, 9.1, 9.05]
    theirs = [10.0, 10.3, 9.8, 10.1, 10.2, 9.9]

    assert paired_chance(mine, theirs, 0.97) == 2**-6, "all are slower than that, the least of six pairs"
    assert paired_chance(mine, theirs, 0.8) == 1.0
    assert paired_chance(mine, theirs, 0.905) == pytest.approx(
        paired_chance(np.array(mine) / 0.905, theirs, 1.0)
    )


@pytest.mark.filterwarnings(
    "ignore:Precision loss"
)  # SciPy's, of passes without any spread, which no clock gives
@pytest.mark.parametrize(
    ("mine", "theirs"), [([5.0, 5.0, 5.0], [5.0, 6.0, 5.5]), ([5.0, 6.0, 5.5], [5.0, 5.0, 5.0])]
)
def test_passes_of_one_side_without_spread_leave_the_other_sides_doubt(
    mine: list[float], theirs: list[float]
) -> None:
    ratio = unpaired_ratio(mine, theirs)

    assert ratio.low < ratio.value < ratio.high
    assert 0 < unpaired_chance(mine, theirs, 1.0) < 1


def test_without_spread_on_either_side_there_is_no_doubt() -> None:
    assert unpaired_chance([4.0, 4.0], [5.0, 5.0], 1.0) == 0.0
    assert unpaired_chance([5.0, 5.0], [4.0, 4.0], 1.0) == 1.0
    assert unpaired_chance([4.0, 4.0], [5.0, 5.0], 0.5) == 1.0
    assert unpaired_chance([5.0, 5.0], [5.0, 5.0], 1.0) == 1.0, "as fast as allowed is not slower"
    ratio = unpaired_ratio([4.0, 4.0], [5.0, 5.0])
    assert ratio.low == ratio.value == ratio.high == pytest.approx(0.8)


def test_a_ratio_and_its_inverse_say_the_same() -> None:
    there, back = unpaired_ratio(MINE, THEIRS), unpaired_ratio(THEIRS, MINE)
    assert (there.value, there.low, there.high) == pytest.approx(
        (1 / back.value, 1 / back.high, 1 / back.low)
    )
    mine, theirs = [*MINE, 9.3], [*THEIRS, 10.2, 9.9]
    there, back = paired_ratio(mine, theirs), paired_ratio(theirs, mine)
    assert (there.value, there.low, there.high) == pytest.approx(
        (1 / back.value, 1 / back.high, 1 / back.low)
    )
    assert paired_ratio(mine, theirs, 0.5).high < there.high


def test_of_many_chances_the_least_has_the_smallest_share_and_the_first_that_fails_ends_it() -> None:
    assert shown_by_holm([0.004, 0.012, 0.04], 0.05) == [True, True, True]
    assert shown_by_holm([0.04, 0.004, 0.026], 0.05) == [False, True, False], "0.026 is above a half of 0.05"
    assert shown_by_holm([0.02, 0.03, 0.04], 0.05) == [False, False, False]
    assert shown_by_holm([0.05], 0.05) == [True]
    assert shown_by_holm([], 0.05) == []
