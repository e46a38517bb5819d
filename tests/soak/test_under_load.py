"""Long load and repeated loading on a simulated clock."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from fixtures.measure.job import GeneratorRun, Job
from fixtures.measure.usage import Usage
from fixtures.soak import FEWEST, UnderLoad, end_over_begin, keep_loaded, load_again, soak_entry
from fixtures.spec import LoadPoint
from reports.record.schema import Soak
from reports.tables.soak import leaks
from tests import toy

POINT = LoadPoint("online", 1, 4)


@dataclass
class Machine:
    """A server on a simulated clock that leaks so many bytes per request."""

    leak: float = 0.0
    left_behind: float = 0.0
    """Bytes that each loading leaks."""
    load_s: float = 1.0
    now_s: float = 1000.0
    answered: int = 50
    """Requests of earlier tests at first."""
    loadings: int = 0
    runs: dict[float, GeneratorRun] = field(default_factory=dict)

    def run_pass(self, job: Job, window_s: float) -> GeneratorRun:
        if window_s not in self.runs:
            self.runs[window_s] = toy.LoadGenerator().run_pass(job, window_s)
        run = self.runs[window_s]
        self.now_s += 3 * window_s + 0.1
        self.answered += len(run.timeline.ends)
        return run

    def read(self) -> Usage:
        used = 1e8 + self.leak * self.answered + self.left_behind * self.loadings
        return {"memory of the server": used, "threads": 40.0}

    def load(self) -> None:
        self.now_s += self.load_s
        self.loadings += 1

    def keep_loaded(self, duration_s: float) -> UnderLoad:
        own: dict[str, Any] = {"answered": lambda: self.answered, "clock": lambda: self.now_s}
        return keep_loaded(toy.job(POINT), duration_s, self.read, run_pass=self.run_pass, **own)

    def soak(self, duration_s: float) -> Soak:
        loaded = self.keep_loaded(duration_s)
        loadings = load_again(self.load, duration_s, self.read, clock=lambda: self.now_s)
        return soak_entry(POINT, loaded, loadings)


@pytest.mark.parametrize("duration_s", [60.0, 600.0])
def test_soak_lasts_as_asked_with_enough_passes(duration_s: float) -> None:
    machine = Machine()

    loaded = machine.keep_loaded(duration_s)

    assert duration_s <= loaded.duration_s < 1.1 * duration_s
    assert len(loaded.used) >= 2 * FEWEST["request"]
    assert loaded.times[-1] == machine.answered - 50
    entry = soak_entry(POINT, loaded, [])
    assert entry.requests_per_s == pytest.approx(entry.requests / loaded.duration_s)
    assert [(growth.first, growth.last) for growth in entry.growth] == [(1e8, 1e8), (40.0, 40.0)]


@pytest.mark.parametrize(
    ("machine", "leaking"),
    [(Machine(), []), (Machine(leak=1024.0), ["request"]), (Machine(left_behind=8e6), ["loading"])],
    ids=["clean", "request", "loading"],
)
def test_request_and_loading_leaks_are_distinguished(machine: Machine, leaking: list[str]) -> None:
    soak = machine.soak(60.0)

    failed = [(growth.what, growth.per) for growth in soak.growth if growth.verdict == "failed"]
    assert failed == [("memory of the server", per) for per in leaking]
    assert len(leaks(soak)) == len(leaking), "the sentences with which the run fails"


def test_slow_loading_reports_number_of_loadings() -> None:
    machine = Machine(load_s=30.0)

    soak = machine.soak(300.0)

    assert soak.loadings == machine.loadings == 3
    assert not any(growth.per == "loading" for growth in soak.growth)
    assert "3 of" in soak.not_watched[0]


def test_slowdown_is_found_and_slow_start_ignored() -> None:
    steady = [100.0, 101.0, 99.0, 100.5] * 20

    slower = end_over_begin([*steady, *(0.8 * rate for rate in steady)])
    warmed = end_over_begin([*(0.5 * rate for rate in steady[:20]), *steady[20:]])

    assert slower is not None
    assert slower.high < 0.9
    assert warmed is not None
    assert warmed.low <= 1.0 <= warmed.high
    assert end_over_begin(steady[:8]) is None
