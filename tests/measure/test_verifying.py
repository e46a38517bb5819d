"""Answers between the passes of a real server, from the load point to the record: what a run of the suite does."""

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from fixtures.accuracy.compare_answers import Closeness, expect
from fixtures.errors import ProofError
from fixtures.measure import measured, perf_analyzer, sweep
from fixtures.measure.job import Check, Job
from fixtures.measure.load_data import input_data
from fixtures.measure.stopping import MeasuringPlan
from fixtures.measure.to_record import record_entry
from fixtures.measure.verifying import ask_server, verifying
from fixtures.serve.server import Server
from fixtures.spec import LoadPoint
from reports.text.correctness import wrong_answers
from reports.text.publishable import publishable
from tests import samples
from tests.conftest import DEPLOYMENT, MakeBuild
from tests.toy import samples_of

_HALF_WRONG = """
def load(artifact, settings):
    def predict(arrays):
        out = 2 * arrays[0]
        out[arrays[0][:, 0] < 0] += 1
        return [out]
    return predict
"""
PLAN = MeasuringPlan(budget_s=0.5)


@pytest.fixture(scope="module")
def job(make_build: MakeBuild, server_of_models: tuple[Server, Path]) -> Iterator[Job]:
    """A load point of a server that answers wrongly to some samples."""
    server, folder = server_of_models
    built = make_build(folder, f"V{os.getpid()}", _HALF_WRONG)
    model = built.case.model
    rows = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    with input_data(model, samples_of({model.inputs[0].name: rows}), server.scratch) as data:
        server.load(built, DEPLOYMENT, "online")
        check = Check(expect(data.ids, {model.outputs[0].name: 2 * rows}), Closeness(0.01, 0.01, 1.0))
        yield Job(server, str(built.case), model, LoadPoint("online", 1, 4), "system", data, check=check)


def test_a_measured_point_tells_its_samples_and_its_answers_and_a_wrong_one_hides_its_speed(job: Job) -> None:
    (state,) = sweep.measure([measured.begin(job)], PLAN, take=verifying(perf_analyzer.take))

    load = record_entry(state, PLAN).load

    assert load.samples == 20
    assert load.answers is not None
    assert 0 < load.answers.wrong < load.answers.verified, "some samples have the right answer"
    assert "row-" in wrong_answers(load)
    assert publishable(samples.record(loads=(load,))).loads == ()
    right = structs.replace(load, answers=structs.replace(load.answers, wrong=0, first_wrong=None))
    assert publishable(samples.record(loads=(right,))).loads == (right,)


def test_the_other_build_of_a_comparison_is_not_held_to_this_one_s_answers(job: Job) -> None:
    state = measured.against(measured.begin(job), job.server, job.name, None)  # type: ignore[arg-type]

    assert state.theirs is not None
    assert state.theirs.job.check is None
    assert state.mine.job.check is not None


def test_a_request_that_fails_is_an_error_with_the_server_s_words(job: Job) -> None:
    with pytest.raises(
        ProofError, match=r"a request under load failed: \[StatusCode.NOT_FOUND\].*gone"
    ) as raised:
        ask_server(dataclasses.replace(job, name="gone"), 0.1)
    assert "Rendezvous" not in str(raised.value), "what gRPC calls the call tells a reader nothing"
    assert raised.value.fix


def test_the_server_keeps_no_memory_that_answers_came_through_also_after_an_error(job: Job) -> None:
    assert ask_server(job, 0.1)
    with pytest.raises(ProofError):
        ask_server(dataclasses.replace(job, name="gone"), 0.1)

    regions = job.server.client.get_system_shared_memory_status().regions
    assert job.server.scratch is not None
    assert not [name for name in regions if name.startswith(job.server.scratch.name)]
