"""What holds while load points are measured, and when a first request counts as slow."""

import contextlib
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from msgspec import structs

from tests import toy
from tritonproof.base.errors import InputError, ProofError
from tritonproof.measure import perf_analyzer
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.plan import MeasuringPlan
from tritonproof.record.schema import LoadPoint, Mark, PointResult
from tritonproof.run import loader as loader_module
from tritonproof.run import measuring
from tritonproof.run.loader import Loader
from tritonproof.run.measuring import time_first_and_later
from tritonproof.serve.server import LoadedCase
from tritonproof.settings.thresholds import ThresholdEntry, Thresholds

LATER = [0.001] * 19 + [0.002]


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
def test_what_counts_after_the_sweep_is_saved(
    fails: str, ended: str, marked: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    points, cached = [LoadPoint("online", batch, 2) for batch in (1, 2)], Mark("cached-answers", "cached")
    run: Any = SimpleNamespace(baseline=None, case=toy.case(), deployment=toy.DEPLOYMENT, sweeps={})
    thresholds = Thresholds([ThresholdEntry("*", p99_ms=50.0)])
    run.settings = SimpleNamespace(plan=MeasuringPlan(budget_s=0.1), thresholds=thresholds)
    run.latencies_s = {}
    run.prepared = SimpleNamespace(called_names=(), unreported=())
    run.loader = SimpleNamespace(ensure_loaded=str)
    run.points, run.say = (lambda _scenario: points), (lambda *_texts: None)
    run.expectations, run.job = SimpleNamespace(answer_check=None), lambda point, _check: toy.job(point)
    notes, run.hold_machine = list[str](), Mock(side_effect=lambda **_how: contextlib.nullcontext())
    run.server = SimpleNamespace(how_it_ended=lambda: ended, check_measurable=lambda _unreported: None)
    run.progress = SimpleNamespace(note=notes.append)

    def refuse_in(what: str) -> None:
        if what == fails:
            raise ProofError("refused")

    def timed_answer(_prepared: Any, batch: int) -> tuple[float, dict[str, Any]]:
        refuse_in("first request" if batch == points[1].batch else "another request")
        return 0.01, {}

    def latency_ms(job: LoadJob, number: int) -> float:
        refuse_in("pass" if (job.point, number) == (points[1], 4) else "another pass")
        return toy.LATENCY_MS

    def audit(_job: LoadJob, best: PointResult) -> PointResult:
        refuse_in("audit")
        return structs.replace(best, marks=(cached,))

    monkeypatch.setattr(perf_analyzer, "run_pass", toy.SimulatedServer(latency_ms).run_pass)
    monkeypatch.setattr(measuring, "audit_cache", audit)
    monkeypatch.setattr(measuring, "timed_answer", timed_answer)
    saved: list[Any] = []
    with contextlib.suppress(ProofError):
        measuring.measure_point(run, points[0], saved.append)
    with pytest.raises(InputError):
        measuring.measure_point(run, LoadPoint("online", 1, 99))
    assert any(map(len, saved)), "it is saved meanwhile"
    run.hold_machine.assert_called_once_with(exclusive=True)
    assert [cached in result.marks for result in saved[-1]] == marked
    assert bool(notes) == (fails == "audit" and not ended)
    assert all(result.latency_budget for results in saved for result in results)


def test_case_that_a_reload_left_unloaded_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a repository is otherwise loaded before its run asks for it."""
    monkeypatch.setattr(loader_module, "check_supported", lambda *_: None)
    prepared = MagicMock(**{"load_anew.side_effect": [ProofError("no memory"), "python"]})
    prepared.load_and_ask.return_value = ("python", None, None)
    loader = Loader(MagicMock(prepared=prepared), LoadedCase("offline", toy.DEPLOYMENT, "onnx", {}))
    with pytest.raises(ProofError, match="no memory"):
        loader.reload()
    for _ in range(2):
        loader.ensure_loaded("offline", toy.DEPLOYMENT)
    assert prepared.load_anew.call_count == 2


def test_reloaded_case_is_cold() -> None:
    server = SimpleNamespace(unload=str, name_of=str)
    prepared = SimpleNamespace(case="net", load_anew=lambda *_: "python", server=server)
    run: Any = SimpleNamespace(prepared=prepared)
    loader = Loader(run, LoadedCase("offline", toy.DEPLOYMENT, "onnx", {}), was_under_load=True)
    loader.reload()
    assert (loader.loaded, loader.was_under_load) == (LoadedCase("offline", toy.DEPLOYMENT, "python"), False)


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
