"""A case beside its baseline: what is lost, what is new, and how both are loaded and measured in turns."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from msgspec import structs

from tests import toy
from tests.fake_nvml import Clock
from tests.helpers import present
from tests.run.conftest import RunOf
from tests.run.stand_in_case import MODEL, Prepare, StandInServer, described_model, prepare
from tritonproof.base.errors import InputError, ProofError
from tritonproof.measure import sweep
from tritonproof.measure.point_state import PointState, Side
from tritonproof.measure.slowdown import ComparisonTerms
from tritonproof.ratios import MAX_LOADINGS
from tritonproof.record.speed import LoadPoint
from tritonproof.run import comparing, loader, measuring, preparing
from tritonproof.run.case_run import CaseRun
from tritonproof.run.repository_case import other_inputs
from tritonproof.spec import Samples, Tensor

B = Tensor("B", "FP32", (4,))
SideOf = Callable[..., Prepare]
Compared = Callable[[Prepare, Prepare], CaseRun]


@pytest.fixture
def side(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> SideOf:
    """Prepares a model of no single requests, with these warnings and these seconds of loadings."""
    logs = (tmp_path / f"log{number}" for number in itertools.count())
    monkeypatch.setattr(loader, "time", clock)  # which passes only while a server loads a model

    def of(
        *warnings: str, loadings_s: Any = (1.0,) * 9, batch: int = 4, samples: Any = None, **model: Any
    ) -> Prepare:
        log, seconds = next(logs), iter(loadings_s)
        log.write_text("".join(f'W1124 03:18:53.9 12 model.cc:1] "{warning}"\n' for warning in warnings))

        def load() -> None:
            clock.now_s += next(seconds)

        return prepare(
            case=toy.case(replace(MODEL, **{"exchange": "decoupled", **model})),
            server=StandInServer(log=log, on_loading=load),
            deployment=structs.replace(toy.DEPLOYMENT, max_batch_size=batch),
            samples=samples or toy.samples(1),
            described=described_model(),
        )

    return of


@pytest.fixture
def compared(run_of: RunOf, monkeypatch: pytest.MonkeyPatch) -> Compared:
    """`compared(side(), side())`: a run of a case, and its baseline that is prepared in the other way."""

    def start(own: Prepare, other: Prepare) -> CaseRun:
        monkeypatch.setattr(preparing, "prepare", lambda scope, **_compared: other(scope))
        points = {"cpu-toy-plain-fp32": [LoadPoint("offline", batch, 1) for batch in (1, 2, 4)]}
        return run_of(own, points=points, against=".")

    return start


def test_losses_of_clients_and_new_warnings_are_told_once(side: SideOf, compared: Compared) -> None:
    more = Tensor("MORE", "FP32", (1,))
    other = {"exchange": "sequence", "outputs": (more, *MODEL.outputs)}
    run = compared(side("known, 12 ms", "fresh"), side("known, 7 ms", "gone", batch=8, **other))
    result = comparing.compare_with_baseline(run)
    lost = "it lacks outputs that the other has: MORE (FP32); batches up to 4 are taken, and up to 8 there; "
    assert result.finding.result.fault.startswith(f"{lost}its requests are decoupled, and sequence there")
    assert result.comparison.warnings == ("fresh",)
    assert comparing.compare_with_baseline(run) is result, "no server loads it again"


def test_baseline_differs_by_its_triton_alone(run_of: RunOf) -> None:
    run = run_of(triton="docker:own", against_triton="docker:other")
    baseline = present(run.baseline)
    assert baseline.settings == replace(run.settings, triton=present(run.settings.against_triton))
    assert baseline.model_run is run.model_run


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
    inputs: list[Tensor], inputs_there: list[Tensor], lost: str, side: SideOf, compared: Compared
) -> None:
    run = compared(side(inputs=inputs), side(inputs=inputs_there, exchange="sequence"))
    fault = comparing.compare_with_baseline(run).finding.result.fault
    assert fault == f"{lost}its requests are decoupled, and sequence there"


@pytest.mark.parametrize(("loadings_s", "count"), [((1.2,), 1), ((9, 9, 1.2), 3), ((9,) * 9, MAX_LOADINGS)])
def test_slow_loading_is_repeated_in_turns(
    loadings_s: Any, count: int, side: SideOf, compared: Compared
) -> None:
    run = compared(side(loadings_s=loadings_s), side(exchange="sequence"))
    baseline = comparing.compare_with_baseline(run).comparison
    assert baseline.current.loadings_s == loadings_s[:count]
    assert baseline.baseline.loadings_s == (1.0,) * count


def test_batch_that_the_baseline_does_not_take_is_measured_alone(
    side: SideOf, compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "sweep_points", taken := Mock(side_effect=ProofError("not measured")))
    run = compared(side(exchange="single"), side(exchange="single", batch=2))
    with pytest.raises(ProofError, match="not measured"):
        measuring.measure_point(run, LoadPoint("offline", 1, 1))
    states, plan = taken.call_args.args
    terms = ComparisonTerms(".", allowed_slowdown=0.03, compared_points=3)
    assert [state.terms for state in states] == [terms, terms, None]
    assert plan.point_budget_s == 120.0, "of both sides"


def test_build_that_does_not_take_the_largest_batch_is_refused(compared: Compared, tmp_path: Path) -> None:
    (config := tmp_path / "config.pbtxt").write_text("max_batch_size: 2")
    converted = {"case": toy.case(), "described": None}
    run = compared(prepare(**converted), prepare(**converted, folder=tmp_path))
    begun = [PointState((Side(toy.job(LoadPoint("offline", batch, 1))),)) for batch in (2, 4)]
    with pytest.raises(InputError, match="up to 2, not 4") as refused:
        comparing.add_baselines(run, present(run.baseline), begun)
    assert refused.value.where == str(config)


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
    side: SideOf, compared: Compared, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def taking(*shape: int, others: list[Samples]) -> Prepare:
        own, given = samples_of(1, 4, other_shapes=others), [replace(B, shape=shape)]
        return side(inputs=given, outputs=given, exchange="single", samples=own)

    monkeypatch.setattr(StandInServer, "infer", lambda *asked: asked[-1])
    taken, lost = samples_of(3, 4), samples_of(2, 5)
    run = compared(taking(-1, -1, others=[lost, taken]), taking(-1, 4, others=[taken]))
    begun = PointState((Side(run.job(LoadPoint("online", 1, 4), run.expected_answers)),))
    (state,) = comparing.add_baselines(run, present(run.baseline), [begun])
    tried = comparing.compare_with_baseline(run).finding.result.tried
    assert run.expected_answers is run.gate_context.single_answers.across_kernels, "they are asked for once"
    for sent in (side.job for side in state.sides):
        assert (sent.served.data.ids, sent.output_bytes) == (["(1, 4)", "(3, 4)"], [16, 48])
    by_signature = present(state.current.job.expected_answers).by_signature
    assert [*itertools.chain(*(part.samples for part in by_signature.values()))] == [0, 1]
    assert state.sides[1].job.expected_answers is None, "its answers may differ"
    assert tried == "2 samples, each twice alone, beside ., without shapes that it does not take (1)"
    assert len([line for line in lines if "load of the shapes that it takes too" in line]) == 1
