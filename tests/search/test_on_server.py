"""The search measures a server through the same interface as sweeps do."""

import contextlib
import dataclasses
from typing import cast

import pytest

from fixtures.measure.job import Job
from fixtures.measure.point_state import PointState
from fixtures.measure.stopping import MeasuringPlan
from fixtures.search import candidates, on_server
from fixtures.search.candidates import Candidate, Goal
from fixtures.search.fastest import Result
from fixtures.search.on_server import Bench as RealBench
from fixtures.search.trials import Entry
from fixtures.spec import LoadPoint
from reports.record.schema import Verdict
from tests import toy
from tests.search.proven import SPACE, proven


def bench_of(generator: toy.LoadGenerator, loaded: list[Candidate]) -> RealBench:
    """A bench with a simulated server; it appends each loaded candidate to `loaded`."""

    def job_of(candidate: Candidate, point: LoadPoint) -> Job:
        loaded.append(candidate)
        return toy.job(point, request_s=0.002)

    return RealBench(
        Goal(7, 99),
        job_of,
        contextlib.nullcontext,
        MeasuringPlan(budget_s=2.0),
        take_look=generator.take,
        take_pass=generator.take,
    )


def test_answers_are_checked_only_in_proofs() -> None:
    looking, proving = toy.LoadGenerator(), toy.LoadGenerator()
    bench = dataclasses.replace(bench_of(looking, []), take_pass=proving.take)
    candidate = candidates.basic_candidates(SPACE, Goal(7, 99))[0]

    bench.look(candidate, candidate.ladder[3])
    assert (len(looking.calls), len(proving.calls)) == (1, 0)

    bench.prove([Entry(candidate, 3)])
    assert len(looking.calls) == 1
    assert proving.calls


def test_proof_runs_both_orders_and_spends_its_budget() -> None:
    generator, loaded = toy.LoadGenerator(lambda _job, _number: 1.0), list[Candidate]()
    first, second, *_ = candidates.basic_candidates(SPACE, Goal(7, 99))
    entries = [Entry(first, 3), Entry(second, 1)]

    states = bench_of(generator, loaded).prove(entries)

    assert loaded == [first, second, second, first], "a steady drift falls on both alike"
    assert [state.point for state in states] == [entry.point for entry in entries]
    assert all(4.0 - 0.5 < state.spent_s < 4.0 + 0.5 for state in states), "two budgets of a point each"
    assert all(run.steady.latencies_ms[0] == 1.0 for run in states[0].mine.passes)


def test_search_result_is_summarized_for_the_record() -> None:
    goal, plan = Goal(7, 99), MeasuringPlan()
    for verdict, expected in (("passed", "within"), ("not shown", "not shown"), ("failed", "beyond")):
        proof = proven(cast(Verdict, verdict), 100.0)
        warm = dataclasses.replace(proof.state.mine, warm_up=proof.state.mine.passes[:2])
        proof = dataclasses.replace(proof, state=PointState(warm))
        summary = on_server.summarise(Result(proof, None, 9, 95), goal, plan, 71.64, "config.pbtxt")
        assert (summary.verdict, summary.passes, summary.duration_s) == (expected, 95, 71.6)
        assert summary.load.throughput_per_s.value == pytest.approx(100, rel=0.01)
