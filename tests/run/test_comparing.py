"""A case beside its baseline: what is lost, what is new, and how both are loaded and measured in turns."""

import contextlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import toy
from tests.helpers import present, settings
from tritonproof.client.input_data import input_data
from tritonproof.gates.context import GateFinding
from tritonproof.measure.point_state import PointState
from tritonproof.ratios import MAX_LOADINGS, loading_is_slower
from tritonproof.record.schema import GateResult, LoadPoint
from tritonproof.run import comparing
from tritonproof.run.repository_case import other_inputs
from tritonproof.serve.server import Server
from tritonproof.spec import Samples, Tensor

B = Tensor("B", "FP32", (4,))


def side(log: Path, *warnings: str, loadings_s: Any = (1.0,), batch: int = 4, **model: Any) -> Any:
    """A run of a model that takes no single requests, on a server with these warnings in its log."""
    log.write_text("".join(f'W1124 03:18:53.9 12 model.cc:1] "{warning}"\n' for warning in warnings))
    case, seconds = toy.case(toy.model(**{"exchange": "decoupled", **model})), iter(loadings_s)
    run: Any = SimpleNamespace(case=case, samples=toy.samples(1), prepared=None, comparison=None)
    run.settings = settings(against=".")
    run.server = Server(run.settings.triton, "", "2.51.0", log, None)
    run.loader = SimpleNamespace(reload=lambda: next(seconds), served=SimpleNamespace(data=None))
    run.loader.ensure_loaded = lambda _: SimpleNamespace(backend="")
    run.suite_run, run.deployment = SimpleNamespace(point_count=3), SimpleNamespace(max_batch_size=batch)
    run.hold_machine, run.say = lambda **_how: contextlib.nullcontext(), lambda *_step: None
    return run


def test_losses_of_clients_and_new_warnings_are_told_once(tmp_path: Path) -> None:
    run, more = side(tmp_path / "log", "known, 12 ms", "fresh"), (Tensor("MORE", "FP32", (1,)),)
    other = {"exchange": "sequence", "outputs": (*more, *toy.model().outputs)}
    run.baseline = side(tmp_path / "other", "known, 7 ms", "gone", batch=8, **other)
    finding, baseline = comparing.compare_with_baseline(run)
    lost = "it lacks outputs that the other has: MORE (FP32); batches up to 4 are taken, and up to 8 there; "
    assert finding.result.fault.startswith(f"{lost}its requests are decoupled, and sequence there")
    assert baseline.warnings == ("fresh",)
    assert comparing.compare_with_baseline(run) == (finding, baseline), "no server loads it again"


@pytest.mark.parametrize(
    ("inputs", "inputs_there", "lost"),
    [
        ([B], [], "it requires the input B, which the other does not; "),
        ([B], [replace(B, optional=True)], "it requires the input B, which the other does not; "),
        ([replace(B, optional=True)], [], ""),
        ([B], [replace(B, shape=(-1,))], "its input B takes [-1, 4], and [-1, -1] there; "),
        ([replace(B, shape=(-1,))], [B], ""),
    ],
)
def test_requests_that_are_not_taken_any_more_are_losses(
    inputs: list[Tensor], inputs_there: list[Tensor], lost: str, tmp_path: Path
) -> None:
    run = side(tmp_path / "log", inputs=inputs)
    run.baseline = side(tmp_path / "other", inputs=inputs_there, exchange="sequence")
    fault = comparing.compare_with_baseline(run)[0].result.fault
    assert fault == f"{lost}its requests are decoupled, and sequence there"


def test_start_up_is_slower_by_a_time_that_somebody_notices() -> None:
    assert not loading_is_slower([0.15] * 5, [0.1] * 5)
    assert loading_is_slower([0.25] * 5, [0.1] * 5)


@pytest.mark.parametrize(("loadings_s", "count"), [((1.2,), 1), ((9, 9, 1.2), 3), ((9,) * 9, MAX_LOADINGS)])
def test_slow_loading_is_repeated_in_turns(loadings_s: Any, count: int, tmp_path: Path) -> None:
    run = side(tmp_path / "log", loadings_s=loadings_s)
    run.baseline = side(tmp_path / "other", loadings_s=(1.0,) * 9, exchange="sequence")
    _, baseline = comparing.compare_with_baseline(run)
    assert baseline.current.loadings_s == loadings_s[:count]
    assert baseline.baseline.loadings_s == (1.0,) * count


def test_batch_that_the_baseline_does_not_take_is_measured_alone(tmp_path: Path) -> None:
    begun = [PointState(toy.job(LoadPoint("offline", batch, 1))) for batch in (1, 2, 4)]
    states, plan = comparing.with_baselines(side(tmp_path / "log"), side(tmp_path / "other", batch=2), begun)
    assert [state.baseline is not None for state in states] == [True, True, False]
    assert (plan.compared_points, plan.budget_s) == (3, 120.0)


def samples_of(*shape: int, **more: Any) -> Samples:
    """One sample of the input B, named after its shape."""
    return Samples([f"{shape}"], lambda rows: {"B": np.zeros((len(rows), *shape), np.float32)}, **more)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"shape": (-1,)}, []),
        ({"shape": (5,)}, ["B (FP32) [5]"]),
        ({"dtype": "INT32"}, ["B (INT32) [4]"]),
        ({"name": "C"}, ["C (FP32) [4]"]),
        ({"name": "C", "optional": True}, []),
    ],
)
def test_inputs_that_do_not_take_the_samples_are_named(change: Any, named: list[str]) -> None:
    assert other_inputs(toy.model(inputs=(replace(B, **change),)), samples_of(4)) == named


def test_samples_that_only_one_side_takes_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(_run: Any, _baseline: Any, parts: Any, _name: str) -> GateFinding:
        return GateFinding(GateResult("baseline", 0, " and ".join(" ".join(data.ids) for data in parts)))

    run, notes = side(tmp_path / "log", inputs=[replace(B, shape=(-1, -1))], exchange="single"), list[str]()
    baseline = side(tmp_path / "other", inputs=[replace(B, shape=(-1, 4))], exchange="single")
    run.samples = samples_of(1, 4, other_shapes=[samples_of(2, 5), samples_of(3, 4)])
    baseline.samples = samples_of(1, 4, other_shapes=[samples_of(3, 4)])
    run.progress = SimpleNamespace(note=notes.append)
    run.expectations = SimpleNamespace(gate_context=None, check_of=lambda data: tuple(data.ids))
    baseline.expectations = run.expectations
    monkeypatch.setattr(comparing, "compare_servers", compare)
    with input_data(run.case.model, run.samples, tmp_path) as data, contextlib.ExitStack() as run.stack:
        job = toy.job(LoadPoint("online", 1, 4))
        job = replace(job, served=replace(job.served, data=data))
        run.loader.served = job.served
        (state,), _ = comparing.with_baselines(run, baseline, [PointState(job)])
        tried = comparing._compare_answers(run, baseline, "old").result.tried
    sides: Any = (state, present(state.baseline))
    assert all(one.job.served.data.ids == ["(1, 4)", "(3, 4)"] == list(one.job.check) for one in sides)
    assert (tried, len(notes)) == ("(1, 4) (3, 4), without shapes that it does not take (1)", 1)
