"""Search for the highest request rate of a real Triton with a known service time."""

import contextlib
import os
from pathlib import Path

import pytest

from fixtures.measure.job import Job
from fixtures.measure.load_data import input_data
from fixtures.measure.stopping import MeasuringPlan
from fixtures.search import fastest, on_server
from fixtures.search.candidates import Candidate, Goal
from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice
from fixtures.spec import LoadPoint
from tests.measure import timed_server
from tests.measure.timed_server import service_times_ms
from tests.search.queueing import highest_rate_per_s
from tests.search.test_fastest import ALONE

LAST = 300


@pytest.mark.campaign
def test_highest_rate_of_live_server_matches_its_queue(tmp_path: Path) -> None:
    name, goal, plan = f"rates_{os.getpid()}", Goal(25, 90, "poisson"), MeasuringPlan()
    repository = tmp_path / "models"
    repository.mkdir()
    model = timed_server.write(repository, name, service_times_ms("fixed"))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            serve(Choice("embedded"), repository, tmp_path / "server.log", device="cpu")
        )
        server.client.load_model(name)
        data = stack.enter_context(input_data(model, model.samples("evaluation", None, None), server.scratch))

        def job_of(_candidate: Candidate, point: LoadPoint) -> Job:
            return Job(server, name, model, point, "system", data.below(server.scratch), 0.005)

        bench = on_server.Bench(goal, job_of, contextlib.nullcontext, plan)
        result = fastest.search(
            ALONE,
            goal,
            bench.look,
            bench.prove,
            patience_s=bench.patience_s,
        )
        bench.take_look(job_of(result.winner.entry.candidate, LoadPoint("online", 1, 8)), 1.0)

    # While the model is busy, its own clock shows the server's overhead beyond the 5 ms too.
    service_s = 1 / timed_server.busy_rate_per_s(repository, name, LAST)
    exact = highest_rate_per_s(service_s, goal)
    rate = result.winner.entry.point.request_rate_per_s
    if result.winner.verdict != "passed":
        pytest.skip(f"other programs delayed requests: {result.winner.latency_ms} is {result.winner.verdict}")
    assert rate is not None
    # Other programs lengthen tails, which only lowers the rate within budget.
    assert 0.3 * exact < rate < 1.05 * exact, f"{exact:.1f}/s of {1e3 * service_s:.2f} ms"
    assert result.winner.goodput_per_s is not None
    assert result.winner.goodput_per_s.value == pytest.approx(rate, rel=0.12)
