"""perf_analyzer with its defaults beside this suite: what it is told, and the table of both."""

from pathlib import Path

import pytest

from fixtures.errors import ProofError
from fixtures.measure.job import Job
from fixtures.measure.load_data import input_data
from fixtures.measure.record_entry import Measurement
from fixtures.self_check import generator_defaults, side_by_side
from fixtures.self_check.generator_defaults import Defaults
from fixtures.self_check.side_by_side import PointMeasuredTwice
from fixtures.spec import LoadPoint
from tests import samples, toy
from tests.generator import Generator, server_of

POINT, OTHER = LoadPoint("offline", 8, 1), LoadPoint("online", 1, 16)


def defaults_of(folder: Path) -> Defaults:
    """Run the fake load generator as its manual begins."""
    model = toy.model()
    with input_data(model, toy.samples(), None) as data:
        return generator_defaults.with_defaults(Job(server_of(folder), "toy", model, POINT, "system", data))


def test_nothing_is_said_about_how_to_measure(generator: Generator, tmp_path: Path) -> None:
    found = defaults_of(tmp_path)

    (call,) = generator.calls
    assert call["arguments"][-2] == "-f"
    for option in ("--measurement-interval", "--stability-percentage", "--max-trials", "--verbose-csv"):
        assert option not in call["arguments"]
    assert (found.throughput_per_s, found.p99_ms, found.problem) == (405.5, 10.5, "")


def test_nobody_else_can_read_what_the_load_generator_makes(generator: Generator, tmp_path: Path) -> None:
    defaults_of(tmp_path)

    assert generator.program.with_name("calls.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [("unstable", "Failed to obtain stable measurement."), ("killed", "status 137")],
)
def test_a_point_without_a_result_says_why(
    generator: Generator, tmp_path: Path, behaviour: str, problem: str
) -> None:
    generator.plan(behaviour)

    found = defaults_of(tmp_path)

    assert (found.throughput_per_s, found.problem) == (None, problem)


def test_the_rows_have_time_answers_and_agreement() -> None:
    load = samples.load("offline", 8, 1020.0)
    points = [
        PointMeasuredTwice(POINT, Defaults(36.04, 1000.0, 9.5), Measurement(load, ()), 4.0),
        PointMeasuredTwice(
            OTHER, Defaults(63.9, None, None, "unstable"), ProofError("gone", where="here"), 6.0
        ),
    ]

    measured, unstable, every = side_by_side.rows(points)

    assert {len(row) for row in (measured, unstable, every)} == {len(side_by_side.COLUMNS)}
    assert (measured[1], measured[2], measured[4]) == ("36.0", "1000.0", "4.0")
    assert measured[-1] == "1.02"
    assert (unstable[2], unstable[5], unstable[-1]) == ("no result", "no result", "-")
    assert [cell for cell in every if cell] == ["all 2", "99.9", "1 answered", "10.0", "1 answered"]
    said = side_by_side.sentence(points)
    assert said.startswith("1 of 2 points in 10.0 s;")
    assert said.endswith("9.99 times as long")
