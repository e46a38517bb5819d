"""A point beside another model under load: measured in turns with the point alone, and its answers compared then."""

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.measure.beside import keeping_busy, measure_beside
from fixtures.measure.job import Job, Run
from fixtures.measure.load_data import input_data
from fixtures.measure.stopping import MeasuringPlan
from fixtures.serve.choice import Choice
from fixtures.serve.launch import serve
from fixtures.spec import LoadPoint
from reports.record.schema import VerifiedAnswers
from tests import simulated
from tests.conftest import DEPLOYMENT, DOUBLING, MakeBuild
from tests.inputs import samples_of
from tests.waiting import wait_until

POINT = LoadPoint("online", 1, 4)
PLAN = MeasuringPlan(budget_s=30)
MINE, OTHER = simulated.job(POINT), simulated.job(LoadPoint("online", 1, 16), "other")


class Machine:
    """A server on which one model takes twice as long while the other is under load."""

    def __init__(self) -> None:
        self.loads: list[str] = []
        self.calls: list[bool] = []

    @contextlib.contextmanager
    def under_load(self, job: Job) -> Iterator[None]:
        self.loads.append(job.name)
        try:
            yield
        finally:
            self.loads.pop()

    def take(self, job: Job, window_s: float) -> Run:
        self.calls.append(bool(self.loads))
        generator = simulated.LoadGenerator(lambda _job, _number: 20.0 if self.loads else 10.0)
        return dataclasses.replace(
            generator.take(job, window_s), answers=VerifiedAnswers(5, 1 if self.loads else 0, 5, 0.1)
        )


def test_the_ratio_is_of_the_point_beside_the_other_over_the_point_alone() -> None:
    machine = Machine()

    found = measure_beside(MINE, OTHER, PLAN, take=machine.take, under_load=machine.under_load)

    assert (found.other, found.concurrency) == ("other", 16)
    assert found.ratio.value == pytest.approx(0.5, rel=0.02)
    assert found.p99_ms.value == pytest.approx(20, rel=0.02)
    assert found.p99_alone_ms.value == pytest.approx(10, rel=0.02)
    assert machine.loads == []


def test_both_are_measured_equally_often_and_neither_always_first() -> None:
    machine = Machine()
    for _time in range(6):
        measure_beside(MINE, OTHER, PLAN, take=machine.take, under_load=machine.under_load)

    pairs = list(zip(machine.calls[::2], machine.calls[1::2], strict=True))
    assert all(first != second for first, second in pairs)
    assert {True, False} <= {first for first, _ in pairs}


def test_the_answers_are_those_given_while_the_other_was_under_load() -> None:
    machine = Machine()

    found = measure_beside(MINE, OTHER, PLAN, take=machine.take, under_load=machine.under_load)

    assert found.answers is not None
    assert found.answers.wrong * 5 == found.answers.verified > 0


def test_a_load_that_does_not_begin_is_the_error_of_the_point() -> None:
    def broken(_job: Job) -> contextlib.AbstractContextManager[None]:
        raise ProofError("the load on the other model did not begin")

    with pytest.raises(ProofError, match="did not begin"):
        measure_beside(MINE, OTHER, PLAN, take=Machine().take, under_load=broken)


@pytest.fixture(scope="module")
def busy(make_build: MakeBuild, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """A model on a real server."""
    folder: Path = tmp_path_factory.mktemp("busy")
    built = make_build(folder / "models", f"B{os.getpid()}", DOUBLING)
    model = built.case.model
    rows = np.ones((20, 4), np.float32)
    with (
        serve(Choice("embedded"), folder / "models", folder / "log", device="cpu") as server,
        input_data(model, samples_of({model.inputs[0].name: rows}), server.scratch) as data,
    ):
        server.load(built, DEPLOYMENT, "online")
        yield Job(server, str(built.case), model, POINT, "none", data)


def answered(job: Job) -> Any:
    return job.server.client.get_inference_statistics(job.name).model_stats[0].inference_stats.success.count


@pytest.mark.campaign
def test_a_model_is_kept_busy_for_the_length_of_the_block_and_no_longer(busy: Job) -> None:
    with keeping_busy(busy):
        first = answered(busy)
        wait_until(lambda: answered(busy) > first + 50)

    def is_at_rest() -> bool:
        before = answered(busy)
        time.sleep(0.5)
        return bool(answered(busy) == before)

    wait_until(is_at_rest)


@pytest.mark.campaign
def test_a_model_that_is_not_there_is_no_load(busy: Job) -> None:
    with (
        pytest.raises(Exception, match="gone"),
        keeping_busy(dataclasses.replace(busy, name="gone")),
    ):
        pass
