"""Comparisons of two builds: pairs until the result is settled, few pairs at many points, and p99 tails."""

import math
from typing import Any

import numpy as np
import pytest

from tests import sample_records, toy
from tests.fake_nvml import Clock
from tests.helpers import present
from tests.measure import timed_server
from tests.toy import SimulatedServer
from tritonproof.measure import point_state, sweep
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.point_state import PointState, Side
from tritonproof.measure.slowdown import compare_pairs, is_settled, with_p99, with_verdicts
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record.correctness import AnswerComparison
from tritonproof.record.speed import LoadPoint, PointResult, SpeedComparison
from tritonproof.reports.speed_text import speed_failures


def measured(server: SimulatedServer, point_budget_s: float = 60.0, **options: Any) -> PointResult:
    """A point of this build and of the other, measured in turns."""
    job = toy.job(LoadPoint("offline", 1, 1), "current")
    state = point_state.with_baseline(PointState((Side(job),)), job.served.server, "baseline", toy.terms())
    plan = MeasuringPlan(point_budget_s=point_budget_s)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "time", Clock())  # loading takes no time
        return timed_server.measured(state, plan, run_pass=server.run_pass, **options)


def in_pairs(
    baseline_ms: float = 20.0, point_budget_s: float = 60.0
) -> tuple[SpeedComparison, SimulatedServer]:
    """A build of 20 ms per request beside another, until that is settled."""
    # Of each build its own, since which of a pair comes first is chance.
    noises = {"current": np.random.default_rng(0), "baseline": np.random.default_rng(1)}

    def mean_ms(job: LoadJob, _number: int) -> float:
        usual_ms = baseline_ms if job.served.name == "baseline" else 20.0
        return usual_ms * math.exp(noises[job.served.name].normal(0, 0.01))

    server = SimulatedServer(mean_ms, changes=lambda _job, _number: {"elapsed_s": 0.3})
    return present(measured(server, point_budget_s).comparison), server


def test_pairs_are_taken_until_settled() -> None:
    outcome = measured(SimulatedServer(lambda _job, number: 20.0 * (1 + number % 2)))
    assert not outcome.marks, "its interval is wide, but its budget is not spent"
    one, _ = in_pairs()
    assert (one.verdict, one.pass_count) == ("passed", 8)
    slower, _load = in_pairs(18.0)
    assert (slower.verdict, slower.baseline_name) == ("failed", "HEAD~1")
    assert slower.ratio.value == pytest.approx(0.9, rel=0.02)


def test_order_within_a_pair_is_random() -> None:
    _, server = in_pairs(20 * 0.97, point_budget_s=30)
    names = [name for name, _, _ in server.calls]
    pairs = {tuple(names[start : start + 2]) for start in range(0, len(names), 2)}
    assert len(names) >= 80
    assert pairs == {("current", "baseline"), ("baseline", "current")}


def test_both_builds_of_a_pair_share_windows() -> None:
    _, server = in_pairs(80.0)
    assert len({*server.windows_s()[-16:]}) == 1, "both have windows that are long enough for the slower one"
    pauses = {("baseline", 3): {"window_s": 0.48}}
    measured(paused := SimulatedServer(changes=lambda job, number: pauses.get((job.served.name, number), {})))
    assert {*paused.windows_s()[-16:]} == {0.48}, "as long as a pause of the other has made them"


def test_spent_budget_reports_remaining_seconds() -> None:
    one, _ = in_pairs(20 * 0.97, point_budget_s=7.0)
    assert (one.verdict, one.pass_count) == ("inconclusive", 12), "of 0.6 s each"
    assert present(one.seconds_to_settle) > 0


def by_loading(pairs_per_loading: int, monkeypatch: pytest.MonkeyPatch) -> tuple[SpeedComparison, list[str]]:
    """A build beside its copy, faster or slower by 6 % in turn each time it is loaded; the calls in order."""
    monkeypatch.setattr(sweep, "PAIRS_PER_LOADING", pairs_per_loading)
    noise, calls = np.random.default_rng(3), list[str]()

    def mean_ms(job: LoadJob, _number: int) -> float:
        calls.append(job.served.name)
        effect = 1.06 if calls.count("load") % 2 else 1 / 1.06
        return 20.0 * math.exp(noise.normal(0, 0.005)) * (effect if calls[-1] == "current" else 1.0)

    outcome = measured(SimulatedServer(mean_ms), 600, reload=lambda: calls.append("load"))
    return present(outcome.comparison), calls


def test_speed_of_one_loading_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    anew, calls = by_loading(8, monkeypatch)
    assert anew.verdict == "passed"
    assert calls[0] == "load"
    assert calls.count("load") == anew.pass_count // 8
    assert by_loading(1000, monkeypatch)[0].verdict == "failed", "with one loading chance looks like slowness"


def test_wrong_answer_of_an_earlier_loading_stays_on_record() -> None:
    """The first pass over a point is the one that is always verified: it warms up the first loading."""
    wrong = AnswerComparison(9, 1)
    server = SimulatedServer(changes=lambda _job, number: {} if number else {"answers_under_load": wrong})
    most = sweep.PAIRS_PER_LOADING
    outcome = measured(server, is_done=lambda one, _plan: len(one.current.passes) > most, reload=lambda: None)
    assert outcome.answers_under_load == wrong


def compared(speed: float, pairs: int, points: int) -> SpeedComparison:
    """Pairs with this speed beside another build's of 1, among so many points."""
    return compare_pairs([speed] * pairs, [1.0] * pairs, toy.terms(points), 60.0)


@pytest.mark.parametrize(
    ("speed", "pairs", "points", "verdict"),
    [
        (0.5, 11, 12, "inconclusive"),
        (0.5, 12, 12, "failed"),
        (0.5, 8, 1, "failed"),
        (0.98, 8, 1, "passed"),
        (0.5, 9, 2, "failed"),
        (0.5, 9, 3, "inconclusive"),
    ],
)
def test_more_points_need_more_pairs(speed: float, pairs: int, points: int, verdict: str) -> None:
    """Points share one alarm in 100 runs, and half of a point's share is for its last look."""
    one = compared(speed, pairs, points)
    assert (one.verdict, one.pass_count, one.seconds_to_settle) == (verdict, pairs, None)
    assert compared(0.5, 9, points).p_value == 2 * 2**-9


@pytest.mark.parametrize(("points", "looks"), [(1, [16, 32, 64, 128]), (1000, [32, 64, 128])])
def test_first_look_is_later_among_more_points(points: int, looks: list[int]) -> None:
    counts = [count for count in range(1, 300) if is_settled([0.5] * count, [1.0] * count, toy.terms(points))]
    assert counts == looks


def test_proven_points_leave_their_share_to_the_others() -> None:
    """Twelve points share one false alarm rate: the smallest must keep to a twelfth of it, the last to all."""
    slow, very_slow = compared(0.5, 10, 12), compared(0.5, 16, 12)
    assert slow.verdict == "inconclusive"
    assert {one.verdict for one in with_verdicts([slow, *[very_slow] * 11])} == {"failed"}


REQUESTS, PAIRS = 150, 100


def with_tail(generator: np.random.Generator, slow: float, factor: float) -> SpeedComparison:
    """Compare pairs of passes until settled; in one, a share `slow` of requests takes `factor` as long."""

    def passes(slow: float) -> np.ndarray:
        of_pass = np.exp(generator.normal(0, 0.02, (PAIRS, 1)))
        latencies = of_pass * np.exp(generator.normal(0, 0.1, (PAIRS, REQUESTS)))
        return np.where(generator.random(latencies.shape) < slow, factor, 1.0) * latencies

    latencies_ms = passes(slow), passes(0.0)
    current, baseline = (1 / side.mean(axis=1) for side in latencies_ms)
    current_ms, baseline_ms = (np.percentile(side, 99, axis=1) for side in latencies_ms)

    def settled(count: int) -> bool:
        p99_ms = current_ms[:count], baseline_ms[:count]
        return is_settled(current[:count], baseline[:count], toy.terms(4), p99_ms)

    count = next((looked for looked in (8, 16, 32, 64) if settled(looked)), PAIRS)
    comparison = compare_pairs(current[:count], baseline[:count], toy.terms(4), 60.0)
    return with_p99(comparison, current_ms[:count], baseline_ms[:count])


def test_longer_tail_fails_despite_equal_speed() -> None:
    """Two in a hundred requests take half as long again, which makes the build one percent slower."""
    generator = np.random.default_rng(5)
    comparisons = [with_tail(generator, slow=0.02, factor=1.5) for _ in range(20)]
    assert {comparison.verdict for comparison in comparisons} == {"passed"}
    assert sum(comparison.p99_is_longer for comparison in comparisons) >= 18
    (failure,) = speed_failures(sample_records.measured("online", 4, 100.0, comparison=comparisons[0]))
    assert "p99" in failure


@pytest.mark.parametrize(("slow", "most"), [(0.0, 1), (1.0, 5)], ids=["alike", "all as slow as allowed"])
def test_allowed_tail_rarely_raises_an_alarm(slow: float, most: int) -> None:
    """400 points are a hundred runs of four, of which one may raise an alarm."""
    generator = np.random.default_rng(6)
    comparisons = [with_tail(generator, slow, factor=1 / 0.97) for _ in range(400)]
    assert sum(comparison.p99_is_longer for comparison in comparisons) <= most
    assert all(one.p99_ratio and one.p99_ratio.low < one.p99_ratio.value for one in comparisons)
