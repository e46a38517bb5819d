"""`--certify`: a point is measured until its percentile can be signed, and how long that takes is said beforehand."""

import dataclasses

import pytest

from fixtures.errors import InputError
from fixtures.measure import measured, sweep
from fixtures.measure.measured import PointState
from fixtures.measure.stopping import MeasuringPlan
from fixtures.measure.to_record import Measurement, record_entry
from fixtures.run.sweeping import certifying_text
from fixtures.spec import LoadPoint
from tests import toy
from tests.helpers import settings
from tests.toy import LoadGenerator

POINT = LoadPoint("online", 1, 2)
PLAN = MeasuringPlan(certify=99)


def measure(plan: MeasuringPlan) -> tuple[Measurement, list[tuple[int, str]], LoadGenerator]:
    """A point of 100 requests per second; with it what was announced, after how many runs."""
    load, said = LoadGenerator(lambda _job, _number: 20.0, spread=0.02), list[tuple[int, str]]()

    def announce(states: list[PointState]) -> None:
        said.append((len(load.calls), certifying_text(states, plan)))

    state = measured.begin(toy.job(POINT))
    (found,) = sweep.measure([state], plan, take=load.take, announce=announce)  # type: ignore[arg-type]
    return record_entry(found, plan), said, load


def test_a_point_is_measured_until_its_p99_can_be_signed() -> None:
    one = measure(PLAN)[0].load
    assert one.certified["p99"].bound_ms is not None
    assert one.requests >= 662
    assert one.certified["p99.9"].bound_ms is None
    assert "not-certified" not in [mark.code for mark in one.marks]
    short = measure(MeasuringPlan())[0].load
    assert short.certified["p99"].requests_missing == 662 - short.requests > 0


def test_how_long_that_takes_is_said_before_the_first_pass_that_counts() -> None:
    """662 requests at 100 per second are 6.6 s, and starting the passes takes a little."""
    found, ((runs, text),), load = measure(PLAN)
    assert runs == len(load.calls) - len(found.load.passes)
    assert "p99 takes 662 requests of each of 1 points" in text
    said_s = float(text.partition("about ")[2].split()[0])
    assert said_s == pytest.approx(sum(3 * window_s + 0.1 for window_s in load.windows_s()[runs:]), rel=0.5)


def test_a_budget_that_was_given_ends_it_with_a_mark_that_says_what_is_missing() -> None:
    found, ((_, text),), _load = measure(dataclasses.replace(PLAN, beyond_budget=False))
    missing = found.load.certified["p99"].requests_missing
    (mark,) = [mark for mark in found.load.marks if mark.code == "not-certified"]
    assert f"p99 needs {missing} requests more" in mark.text
    assert "not enough for all" in text


def test_without_it_nothing_is_said() -> None:
    assert [text for _, text in measure(MeasuringPlan())[1]] == [""]


@pytest.mark.parametrize(("text", "percent"), [("99", 99.0), ("99.9", 99.9), ("99 %", 99.0), ("p99", 99.0)])
def test_the_percentiles_that_can_be_asked_for(text: str, percent: float) -> None:
    assert settings(certify=text).plan.certify == percent
    assert settings().plan.certify is None


@pytest.mark.parametrize("text", ["95", "100", ""])
def test_another_one_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(InputError) as raised:
        settings(certify=text)
    assert raised.value.where.startswith("--certify")
    assert raised.value.fix == "use 99, 99.9"
