"""The search finds the planted steps of noisy histories in place, and no others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from reports.trend import Series, all_series, steps
from tests.trend import past

USUAL = 0.02


@dataclass(frozen=True)
class Tally:
    """How many planted steps of 3 % were found."""

    planted: int
    found: int
    near: int
    """Found within two commits."""
    false: int


def history(*arguments: Any, **named: Any) -> tuple[list[Series], dict[str, int]]:
    """The series of `past.history` with their steps, and the planted steps."""
    rows, planted = past.history(*arguments, **named)
    return all_series(rows), planted


def tally(found: list[Series], planted: dict[str, int]) -> Tally:
    near = false = hits = 0
    for series in found:
        places = [past.COMMITS.index(step.after.commit or "") for step in series.steps]
        true = planted.get(series.at)
        of_planted = [abs(place - true) for place in places if true is not None and abs(place - true) <= 25]
        false += len(series.steps) - min(1, len(of_planted))
        if of_planted:
            hits += 1
            near += min(of_planted) <= 2
    return Tally(len(planted), hits, near, false)


def test_step_has_size_and_surrounding_runs() -> None:
    (series,) = all_series(past.rows(past.stepped(60, 40, 0.97)))
    (step,) = series.steps
    assert (step.before.commit, step.after.commit) == (past.COMMITS[39], past.COMMITS[40])
    assert step.change.low <= -0.03 <= step.change.high
    assert step.change.high - step.change.low < 0.02
    assert step.is_worse


def test_higher_latency_is_worse() -> None:
    for factor, is_worse in ((1.1, True), (0.9, False)):
        values = past.stepped(60, 40, factor)
        rows = [past.row(n, figures={"latency_p99_ms": (v, v, v)}) for n, v in enumerate(values)]
        (series,) = all_series(rows)
        assert [step.is_worse for step in series.steps] == [is_worse]


def test_outliers_are_no_step() -> None:
    values = past.stepped(100, 0, 1.0)
    for number in (20, 50, 51, 52, 99):
        values[number] *= 0.7
    (series,) = all_series(past.rows(values))
    assert not series.steps


def test_slow_drift_is_no_step() -> None:
    generator = np.random.default_rng(1)
    assert steps(generator.normal(0, 0.01, 1000) + np.linspace(0, 0.05, 1000), USUAL) == []


def test_bad_week_is_no_step_but_lasting_level_is() -> None:
    values = np.random.default_rng(4).normal(0, 0.005, 60)
    values[30:36] -= 0.1
    assert steps(values, USUAL) == []
    assert [at for at, *_ in steps(values[:36], USUAL)] == [30]


def test_slow_week_of_machine_is_no_step_of_cases() -> None:
    generator = np.random.default_rng(3)
    week = np.where((np.arange(100) >= 40) & (np.arange(100) < 47), -0.1, 0.0)
    rows = [
        past.row(number, 100 * float(np.exp(value)), at=f"online b001-c{point:03d}")
        for point in range(12)
        for number, value in enumerate(week + generator.normal(0, 0.01, 100))
    ]
    assert not any(series.steps for series in all_series(rows))


def test_common_step_is_found_in_all_cases() -> None:
    rows = [
        row
        for point in range(12)
        for row in past.rows(past.stepped(100, 60, 0.95, seed=point), at=f"online b001-c{point:03d}")
    ]
    every_series = all_series(rows)
    assert [[step.after.commit for step in series.steps] for series in every_series] == [
        [past.COMMITS[60]]
    ] * 12


def test_lasting_sample_loss_is_an_accuracy_step() -> None:
    scores = [0.98] * 30 + [0.974] * 10
    rows = [
        past.row(n, kind="accuracy", at="top-1", figures={"score": (s, s, s)}, samples=500)
        for n, s in enumerate(scores)
    ]
    (series,) = all_series(rows)
    (step,) = series.steps
    assert (step.after.commit, step.is_worse) == (past.COMMITS[30], True)
    assert step.change.value == pytest.approx(-0.006)


def test_close_steps_are_both_found() -> None:
    for first, second in ((0.9, 0.95), (0.95, 0.9)):
        values = [item * (second if n >= 60 else 1) for n, item in enumerate(past.stepped(120, 50, first))]
        (item,) = all_series(past.rows(values))
        assert [step.after.commit for step in item.steps] == [past.COMMITS[50], past.COMMITS[60]]


def test_machines_and_hosts_stay_separate() -> None:
    fast = past.rows([100.0] * 20)
    for changes in ({"machine": "ffffffff"}, {"host": "ci-2"}):
        other = past.rows([50.0] * 40, **changes)[20:]
        every_series = all_series([*fast, *other])
        assert [len(series.rows) for series in every_series] == [20, 20]
        assert not any(series.steps for series in every_series)


def test_equal_hosts_are_joined_on_request() -> None:
    rows = [past.row(number, host=f"container-{number}") for number in range(20)]
    assert len(all_series(rows)) == 20
    (series,) = all_series(rows, join_hosts=True)
    assert len(series.rows) == 20


def test_planted_steps_are_found_without_false_ones() -> None:
    """A small part of the simulation below."""
    counts = tally(*history(seed=0, spread=0.01, runs=400, count=30, share=0.5))
    assert counts.planted > 10
    assert counts.near >= 0.9 * counts.planted
    assert counts.false == 0


@pytest.mark.campaign
def test_3_percent_step_is_located_in_long_histories() -> None:
    tallies = [tally(*history(seed, spread=0.0125)) for seed in range(3)]
    planted = sum(counts.planted for counts in tallies)
    print(*tallies, sep="\n")
    assert sum(counts.near for counts in tallies) >= 0.95 * planted
    assert all(counts.false <= 1 for counts in tallies)


@pytest.mark.campaign
@pytest.mark.parametrize("spread", [0.005, 0.01, 0.015, 0.02, 0.025, 0.03])
def test_false_steps_are_rare_at_each_spread(spread: float) -> None:
    """The figures of docs/trend.md."""
    counts = tally(*history(seed=7, spread=spread, share=0.5))
    print(spread, counts)
    assert counts.false <= 1


@pytest.mark.campaign
@pytest.mark.parametrize("spread", [0.005, 0.01, 0.015, 0.02, 0.03])
def test_new_level_is_found_more_often_with_more_runs(spread: float) -> None:
    """The figures of docs/trend.md, too."""
    shares = []
    for later in (4, 6, 8, 10, 15, 20, 30, 50):
        counts = tally(*history(5, spread, runs=300, count=100, share=0.4, place=300 - later))
        shares.append((later, round(counts.found / counts.planted, 2)))
    print(spread, shares)
    assert shares[-1][1] >= shares[0][1]
