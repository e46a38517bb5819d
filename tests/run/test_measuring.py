"""What holds while load points are measured, when a first request counts as slow, and how a soak is run."""

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from tests import toy
from tests.build.conversions import UP_TO_32
from tests.run.conftest import RunOf
from tests.run.stand_in_case import MODEL, StandInServer, holds_machine_alone, prepare
from tritonproof.base.errors import InputError, NotAvailableError, ProofError
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.soak import SoakedPoint
from tritonproof.measure.usage import ServerWatch
from tritonproof.record.speed import LoadPoint, Mark, PointResult
from tritonproof.run import measuring
from tritonproof.run.case_run import CaseRun
from tritonproof.run.measuring import time_first_and_later
from tritonproof.settings.thresholds import ThresholdEntry, Thresholds

POINTS, CACHED = [LoadPoint("online", batch, 2) for batch in (1, 2)], Mark("cached-answers", "cached")
LATER = [0.001] * 19 + [0.002]


def swept(run_of: RunOf, fails: str = "", ended: str = "") -> tuple[CaseRun, list[Sequence[PointResult]]]:
    """Measure POINTS, of which this fails, and then the server has ended in this way; returns the run and
    what was saved each time."""
    server = StandInServer(refused=(2,) if fails == "first request" else (), stop_reason=ended)
    thresholds, saved = Thresholds([ThresholdEntry("*", p99_ms=50.0)]), list[Sequence[PointResult]]()
    run = run_of(prepare(server=server), {str(toy.case(MODEL)): POINTS}, thresholds, point_budget_s="0.1")

    def latency_ms(job: LoadJob, number: int) -> float:
        assert holds_machine_alone()
        if (fails, job.point, number) == ("pass", POINTS[1], 4):
            raise ProofError("refused")
        return toy.LATENCY_MS

    def audit(_job: LoadJob, best: PointResult) -> PointResult:
        assert holds_machine_alone()
        if fails == "audit":
            raise ProofError("refused")
        return structs.replace(best, marks=(CACHED,))

    with contextlib.suppress(ProofError):
        run_pass = toy.SimulatedServer(latency_ms).run_pass
        measuring.measure_scenario(run, "online", saved.append, run_pass, audit)
    return run, saved


@pytest.mark.parametrize(
    ("fails", "ended", "marked"),
    [
        ("", "", [False, True]),
        ("pass", "", [True]),
        ("first request", "", [True]),
        ("audit", "", [False, False]),
        ("pass", "by signal 9", []),
        ("audit", "by signal 9", []),
    ],
)
def test_what_counts_is_saved_last(fails: str, ended: str, marked: list[bool], run_of: RunOf) -> None:
    _run, saved = swept(run_of, fails, ended)
    assert any(map(len, saved)), "it is saved meanwhile"
    assert [CACHED in result.marks for result in saved[-1]] == marked


def test_refused_audit_is_noted_unless_the_server_ended(run_of: RunOf, lines: list[str]) -> None:
    for ended, count in (("by signal 9", 0), ("", 1)):
        swept(run_of, "audit", ended)
        assert sum("not checked" in line for line in lines) == count


def test_all_that_is_saved_has_a_verdict_on_its_latency_budget(run_of: RunOf) -> None:
    _run, saved = swept(run_of)
    assert all(result.latency_budget for results in saved for result in results)


def test_point_is_measured_once_with_the_latency_of_each_request(run_of: RunOf) -> None:
    run, _saved = swept(run_of)
    measured = measuring.measure_point(run, POINTS[0])
    assert measuring.measure_point(run, POINTS[0]) is measured
    assert len(measured.latencies_s) == measured.result.requests


def test_point_that_is_not_the_cases_is_refused(run_of: RunOf) -> None:
    with pytest.raises(InputError):
        measuring.measure_point(run_of(), LoadPoint("online", 1, 99))


@pytest.mark.parametrize(
    ("firsts", "passed", "loadings"),
    [
        ([0.002], True, 1),
        ([0.004], True, 1),  # twice the slowest later one
        ([0.005, 0.001], True, 2),  # once: the machine's fault
        ([0.5, 0.5, 0.001], True, 3),
        ([0.5, 0.5, 0.005], False, 3),
    ],
)
def test_first_request_is_slow_only_after_three_loads(firsts: Any, passed: bool, loadings: int) -> None:
    times = iter([second for first in firsts for second in (first, *LATER)])
    loaded: list[None] = []
    result = time_first_and_later(lambda: loaded.append(None), lambda: next(times), 1)
    assert (result.passed, len(loaded), len(result.first_ms)) == (passed, loadings, loadings)
    assert result.later_ms == (2.0,) * loadings
    assert next(times, None) is None


@pytest.mark.parametrize(
    ("options", "point"),
    [
        ({}, LoadPoint("online", 1, 16)),
        ({"concurrencies": "4,64", "batches": "1,8"}, LoadPoint("online", 1, 64)),
        ({"request_rates": "50,100", "batches": "8"}, LoadPoint("online", 1, 0, 100.0, "poisson")),
        ({"batches": "1,8,64"}, LoadPoint("offline", 8, 1)),  # the model takes batches up to 32
    ],
)
def test_soak_is_at_the_heaviest_load(
    options: Any, point: LoadPoint, run_of: RunOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep_under_load(job: LoadJob, seconds: float, *_read: Any, **_more: Any) -> SoakedPoint:
        assert holds_machine_alone()
        assert (job.point, job.request_s > 0) == (point, True)
        return SoakedPoint([{}], [9.0], [], [], 0, seconds)

    def reload_repeatedly(reload: Any, _seconds: float, _read: Any, most: int, **_more: Any) -> Any:
        reload()
        return [{}] * most

    monkeypatch.setattr(measuring, "watch", lambda _server: ServerWatch(1, 1, not_watched=("open files",)))
    monkeypatch.setattr(measuring, "keep_under_load", keep_under_load)
    monkeypatch.setattr(measuring, "reload_repeatedly", reload_repeatedly)
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    as_up_to_32 = prepare(deployment=UP_TO_32)
    found = measuring.soak(run_of(as_up_to_32, soak="10m", **options))
    assert found.point == point
    assert (found.duration_s, found.not_watched[0]) == (600.0, "open files")
    assert found.loadings == 2 * 16 * measuring.ARENAS_OF_A_CPU, "each of malloc's heaps twice"
    with pytest.raises(NotAvailableError, match="not 64"):
        measuring.soak(run_of(as_up_to_32, soak="10m", batches="64"))
