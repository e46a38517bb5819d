"""Long load and repeated loading, on a simulated clock."""

from dataclasses import dataclass, field

import pytest

from fixtures.measure.job import Job, Run
from fixtures.soak.growth import FEWEST
from fixtures.soak.under_load import UnderLoad, end_over_begin, keep_loaded, load_again, record_entry
from fixtures.soak.usage import Usage
from fixtures.spec import LoadPoint
from reports.record.schema import Soak
from tests import toy

POINT = LoadPoint("online", 1, 4)


@dataclass
class Machine:
    """A server whose time passes while it is under load, and which keeps so many bytes of each request."""

    leak: float = 0.0
    left_behind: float = 0.0
    """Bytes that each loading leaves behind."""
    load_s: float = 1.0
    now_s: float = 0.0
    answered: int = 0
    loadings: int = 0
    runs: dict[float, Run] = field(default_factory=dict)

    def take(self, job: Job, window_s: float) -> Run:
        if window_s not in self.runs:
            self.runs[window_s] = toy.LoadGenerator().take(job, window_s)
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
        return keep_loaded(
            toy.job(POINT),
            duration_s,
            self.read,
            take=self.take,
            answered=lambda: self.answered,
            clock=lambda: self.now_s,
        )

    def soak(self, duration_s: float) -> Soak:
        loaded = self.keep_loaded(duration_s)
        loadings = load_again(self.load, duration_s, self.read, clock=lambda: self.now_s)
        return record_entry(POINT, loaded, {"loading": loadings})


def verdicts(soak: Soak) -> set[tuple[str, str]]:
    return {(one.what, one.per) for one in soak.growth if one.verdict == "failed"}


@pytest.mark.parametrize("duration_s", [60.0, 600.0])
def test_soak_lasts_as_asked_with_enough_passes(duration_s: float) -> None:
    machine = Machine()

    found = machine.keep_loaded(duration_s)

    assert duration_s <= found.duration_s < 1.1 * duration_s
    assert len(found.used) >= 2 * FEWEST["request"]
    assert found.times[-1] == machine.answered


def test_request_and_loading_leaks_are_distinguished() -> None:
    assert verdicts(Machine().soak(60.0)) == set()
    assert verdicts(Machine(leak=1024.0).soak(60.0)) == {("memory of the server", "request")}
    assert verdicts(Machine(left_behind=8e6).soak(60.0)) == {("memory of the server", "loading")}


def test_slow_loading_reports_number_of_loadings() -> None:
    machine = Machine(load_s=30.0)

    found = machine.soak(300.0)

    assert found.loadings == machine.loadings == 3
    assert not any(one.per == "loading" for one in found.growth)
    assert "3 of" in found.not_watched[0]


def test_slowdown_is_found_and_slow_start_ignored() -> None:
    steady = [100.0, 101.0, 99.0, 100.5] * 20

    slower = end_over_begin([*steady, *(0.8 * one for one in steady)])
    warmed = end_over_begin([*(0.5 * one for one in steady[:20]), *steady[20:]])

    assert slower is not None
    assert slower.high < 0.9
    assert warmed is not None
    assert warmed.low <= 1.0 <= warmed.high
    assert end_over_begin(steady[:8]) is None
