"""Certified percentiles: equal to MLPerf LoadGen's early stopping, request for request; and `--certify`,
which measures a point until its percentile is certified."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fixtures.measure import estimates, point_state, stopping, sweep
from fixtures.measure.measurement import Measurement, record_entry
from fixtures.measure.point_state import PointState
from fixtures.measure.stopping import MeasuringPlan
from fixtures.spec import LoadPoint
from tests import toy

LISTED = json.loads((Path(__file__).parent / "loadgen.json").read_text())
REQUESTS = [
    (float(percent), int(slower), requests)
    for percent, by_slower in LISTED["requests"].items()
    for slower, requests in by_slower.items()
]


@pytest.mark.parametrize(("percent", "slower", "needed"), REQUESTS)
def test_required_requests_match_loadgen(percent: float, slower: int, needed: int) -> None:
    assert estimates.requests_needed(percent, slower) == needed
    assert estimates.slower_allowed(needed, percent) == slower
    assert estimates.slower_allowed(needed - 1, percent) == slower - 1


@pytest.mark.parametrize(
    ("requests", "bound_ms", "missing"),
    [(600, None, 62), (662, 662.0, 0), (838, 837.0, 0)],  # of 838 requests two may be slower
)
def test_p99_needs_662_requests_to_certify(requests: int, bound_ms: float | None, missing: int) -> None:
    latencies_ms = np.random.default_rng(1).permutation(np.arange(1.0, requests + 1))
    certified = estimates.certified(latencies_ms, 99)

    assert (certified.bound_ms, certified.requests_missing) == (bound_ms, missing)
    assert (certified.requests, certified.value_ms) == (requests, np.percentile(latencies_ms, 99))


@pytest.mark.parametrize(("percent", "requests"), [(99.0, 900), (99.9, 8000), (90.0, 100)])
def test_certified_bound_covers_percentile_in_99_of_100_runs(percent: float, requests: int) -> None:
    generator = np.random.default_rng(4)
    truth = float(-np.log(1 - percent / 100))
    bounds = [estimates.certified(generator.exponential(1, requests), percent).bound_ms for _ in range(1000)]
    # Three standard errors of 0.99 in 1,000 are 0.94 of a point.
    assert np.mean(np.array(bounds) >= truth) > 0.9806


PLAN = MeasuringPlan(certify=99)


def measure(plan: MeasuringPlan) -> tuple[Measurement, list[tuple[int, str]], toy.LoadGenerator]:
    """Measure a point at 100 requests per second; returns each announcement and the runs before it too."""
    generator = toy.LoadGenerator(lambda _job, _number: 20.0, spread=0.02)
    announcements: list[tuple[int, str]] = []

    def announce(states: Sequence[PointState]) -> None:
        announcements.append((len(generator.calls), stopping.certifying_text(states, plan)))

    state = point_state.begin(toy.job(LoadPoint("online", 1, 2)))
    (point,) = sweep.measure([state], plan, take=generator.take, announce=announce)
    return record_entry(point, plan), announcements, generator


def test_point_runs_until_certified_with_announced_time() -> None:
    """662 requests at 100 per second take 6.6 s, and starting the passes takes a little longer."""
    measurement, ((runs, text),), generator = measure(PLAN)
    load = measurement.load

    assert load.certified["p99"].bound_ms is not None
    assert load.requests >= 662
    assert load.certified["p99.9"].bound_ms is None
    assert "not-certified" not in [mark.code for mark in load.marks]
    assert runs == len(generator.calls) - len(load.passes)
    spent_s = sum(3 * window_s + 0.1 for window_s in generator.windows_s()[runs:])
    assert float(text.partition("about ")[2].split()[0]) == pytest.approx(spent_s, rel=0.5)


def test_given_budget_ends_certification_with_mark() -> None:
    load = measure(dataclasses.replace(PLAN, beyond_budget=False))[0].load
    (mark,) = [mark for mark in load.marks if mark.code == "not-certified"]
    assert str(load.certified["p99"].requests_missing) in mark.text


def test_without_certify_missing_requests_are_recorded_silently() -> None:
    measurement, announcements, _generator = measure(MeasuringPlan())
    assert [text for _, text in announcements] == [""]
    assert measurement.load.certified["p99"].requests_missing == 662 - measurement.load.requests > 0
