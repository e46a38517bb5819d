"""Checks the measurements themselves: whether they are right, and how long they take. Runs only with --self-check,
which leaves out all other tests."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fixtures.host import locks
from fixtures.measure import measured, sweep
from fixtures.measure.record_entry import Measurement, outcomes
from fixtures.run.measuring_text import progress_text
from fixtures.run.output import Narrator
from fixtures.run.preparing import Prepare
from fixtures.run.recorder import Recorder
from fixtures.run.selection import own_points
from fixtures.run.settings import BUDGET_OF_BOTH_S, Settings
from fixtures.self_check import generator_defaults, side_by_side, timed_model, timed_server
from fixtures.self_check.coverage import coverage
from fixtures.self_check.side_by_side import PointMeasuredTwice
from fixtures.spec import Case, LoadPoint, Scenario
from reports.record.quantities import THROUGHPUT
from reports.record.schema import Comparison
from reports.record.verdicts import comparison_text
from reports.tables.rendering import markdown
from reports.tables.table import table_of_texts

pytestmark = pytest.mark.self_check

_REPEATS, _FEWEST_HELD = 10, 7
_SCENARIOS: tuple[Scenario, ...] = ("online", "offline")


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[timed_server.Timed]:
    """A server of known service times."""
    with timed_server.served(tmp_path_factory.mktemp("known")) as functions:
        yield functions


@pytest.mark.parametrize("shape", timed_model.SHAPES)
def test_known_service_time(
    timed: timed_server.Timed,
    shape: str,
    settings: Settings,
    narrator: Narrator,
    record_property: Callable[[str, object], None],
) -> None:
    """The measured rate is that of a serial server which notes when it begins each request, and the requests in flight
    fit Little's law."""
    point = LoadPoint("online", 1, 8)
    with locks.hold_machine(exclusive=True):
        narrator.say(f"known speed, {shape}: start")
        outcome = timed.run(
            shape,
            point,
            plan=settings.plan,
            report=lambda now: narrator.say(f"known speed, {shape}: measure", progress_text(now)),
        )[point]
    assert isinstance(outcome, Measurement), outcome
    rate, latency_ms = outcome.load.throughput_per_s, outcome.load.latency_ms["avg"]
    truth_per_s = timed.busy_rate_per_s(shape, outcome.load.requests)
    in_flight = rate.value * latency_ms.value / 1e3
    record_property(
        "figure",
        f"{THROUGHPUT.text_with_half_width(rate)}, truly {THROUGHPUT.cell(truth_per_s)}; "
        f"{in_flight:.2f} in flight, truly {point.concurrency}",
    )
    # Twice the 95 % interval, which a right estimate leaves once in a thousand times.
    assert abs(rate.value - truth_per_s) < max(rate.high - rate.low, 0.02 * truth_per_s)
    assert in_flight == pytest.approx(point.concurrency, rel=0.05)


@pytest.mark.parametrize("shape", timed_model.SHAPES)
def test_intervals(
    timed: timed_server.Timed,
    shape: str,
    settings: Settings,
    narrator: Narrator,
    record_property: Callable[[str, object], None],
) -> None:
    """The 95 % intervals of throughput, p50 and p99 contain what the server knows of itself; the campaign measures a
    hundred of them."""
    with locks.hold_machine(exclusive=True):
        found = coverage(
            timed,
            shape,
            settings.plan,
            _REPEATS,
            lambda done: narrator.say(f"intervals of {shape}", f"{done} of {_REPEATS} measurements"),
        )
    record_property("figure", found.text)
    # Of ten right ones, fewer than seven hold the truth once in a thousand times.
    assert min(found.held.values()) >= _FEWEST_HELD, found.text


@pytest.mark.parametrize(
    ("slowdown", "repeats", "fewest", "most"), [(0.0, 40, 0, 2), (0.05, 10, 9, 10)], ids=["a-a", "a-b"]
)
def test_alarms(
    slowdown: float,
    repeats: int,
    fewest: int,
    most: int,
    tmp_path: Path,
    settings: Settings,
    narrator: Narrator,
    record_property: Callable[[str, object], None],
) -> None:
    """A build that is compared with itself raises an alarm at most once in twenty times; a slow-down of 5 % is found
    nearly always."""
    plan = dataclasses.replace(settings.plan, budget_s=BUDGET_OF_BOTH_S)
    found: list[Comparison] = []
    for number in range(repeats):
        done = f"{number} of {repeats} comparisons, {_alarms(found)} alarms"
        narrator.say(f"builds that differ by {slowdown:.0%}", done)
        with locks.hold_machine(exclusive=True):
            point = LoadPoint("online", 1, 2)
            found.append(
                timed_server.compare(tmp_path / str(number), slowdown, point, plan, settings.allowed_slowdown)
            )
        narrator.note(f"{comparison_text(found[-1])}; {found[-1].passes} pairs")
    record_property(
        "figure", f"{_alarms(found)} alarms in {repeats} comparisons, {fewest} to {most} expected"
    )
    assert fewest <= _alarms(found) <= most


def _alarms(found: Sequence[Comparison]) -> int:
    return sum(one.verdict == "slower" for one in found)


@pytest.mark.load
def test_side_by_side(
    case: Case, prepare: Prepare, settings: Settings, narrator: Narrator, recorder: Recorder
) -> None:
    """Every point has a result; the table says how long it took, and how long it took with perf_analyzer's defaults."""
    points: list[PointMeasuredTwice] = []
    for scenario in _SCENARIOS:
        with prepare(own_points(case, scenario, settings)) as ready:
            states = sweep.measure(
                [measured.begin(job) for job in ready.jobs],
                settings.plan,
                report=lambda now: narrator.say(f"{case}: measure", f"{now.point} {progress_text(now)}"),
            )
            ours = outcomes(states, settings.plan)
            seconds = {state.point: state.elapsed_s for state in states}
            for job in ready.jobs:
                narrator.say(f"{case}: {scenario} {job.point} by perf_analyzer with its defaults")
                theirs = generator_defaults.with_defaults(job)
                points.append(PointMeasuredTwice(job.point, theirs, ours[job.point], seconds[job.point]))
    table = markdown([table_of_texts(side_by_side.COLUMNS, side_by_side.rows(points), "lrrrrrrr")])
    problems = "\n".join(f"- {one.point}: {one.theirs.problem}" for one in points if one.theirs.problem)
    text = "\n\n".join(filter(None, [table, problems]))
    path = settings.results / case.target.name / f"{case}.side-by-side.md"
    path.write_text(f"{text}\n")
    narrator.note(f"{case}: {path}\n\n{text}\n")
    recorder.figure(side_by_side.sentence(points))
    assert not [one.point for one in points if not isinstance(one.ours, Measurement)]
