"""A case's server that ends by itself is started again once; each end is known, with the end of its log."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from fixtures.build.repository import BuiltModel
from fixtures.errors import ProofError
from fixtures.measure import perf_analyzer
from fixtures.measure.job import Job as LoadJob
from fixtures.measure.load_data import input_data
from fixtures.serve.choice import Choice
from fixtures.serve.launch import serve
from fixtures.serve.restarts import End, Restarts
from fixtures.serve.server import Server
from fixtures.spec import LoadPoint
from tests.conftest import DEPLOYMENT
from tests.inputs import samples_of
from tests.serve.programs import VALUES, doubled_by, process_of


class Job(NamedTuple):
    """A model that a server has loaded."""

    server: Server
    built: BuiltModel


class StandIn:
    """As much of a server as its restarts ask, which ends when it is told to."""

    def __init__(self, log: Path | None = None) -> None:
        self.log, self.how = log, ""

    def how_it_ended(self) -> str:
        return self.how

    def check_running(self) -> None:
        raise ProofError(f"Triton {self.how} in an earlier test of the case")


def restarts(*servers: Any) -> Restarts:
    """The restarts of a case that starts with the first server, and can start the others."""
    later = iter(servers[1:])
    return Restarts(servers[0], lambda _end: next(later))


def test_a_server_that_runs_stays_the_case_s() -> None:
    first: Any = StandIn()
    found = restarts(first)

    assert found.running() is found.running() is first
    assert not found.ends


def test_a_server_that_ended_is_started_again_once_and_a_second_end_is_the_case_s() -> None:
    first, second, third = StandIn(), StandIn(), StandIn()
    servers: list[Any] = [first, second, third]
    found = restarts(*servers)
    first.how = "was ended by SIGSEGV"
    assert found.running() is found.running() is servers[1]
    second.how = "ended with status 1"

    for _again in range(2):
        with pytest.raises(ProofError, match="ended with status 1 in an earlier test of the case"):
            found.running()

    assert [end.how for end in found.ends] == ["was ended by SIGSEGV", "ended with status 1"]


def test_a_server_that_others_started_is_not_started_again() -> None:
    first: Any = SimpleNamespace(log=None, how_it_ended=lambda: "", check_running=lambda: None)
    assert not Restarts(first).may_start()


def test_an_end_is_told_once_with_the_last_lines_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("started\nfree(): invalid pointer\n" + "x" * 10_000)
    first = StandIn(log)
    found = restarts(first, StandIn())
    first.how = "was ended by SIGABRT"

    assert found.has_ended()
    assert found.has_ended()
    (end,) = found.news()

    assert isinstance(end, End)
    assert "free(): invalid pointer" in end.log
    assert max(map(len, end.log)) < 1000
    assert not found.news()


def test_a_real_server_that_is_killed_is_followed_by_another_that_answers(
    server: Server, models: Path, doubling: BuiltModel, tmp_path: Path
) -> None:
    with serve(Choice("embedded"), models, tmp_path / "log", device="cpu") as first:
        found = Restarts(first, lambda _end: server)
        process_of(found.running()).kill()

        second = found.running()
        second.load(doubling, DEPLOYMENT, "online")

        assert doubled_by(second, doubling)
    (end,) = found.ends
    assert "SIGKILL" in end.how
    assert any("Started GRPCInferenceService" in line for line in end.log)


def a_request(job: Job) -> None:
    doubled_by(job.server, job.built)


def a_load_point(job: Job) -> None:
    inputs = {job.built.case.model.inputs[0].name: VALUES}
    with input_data(job.built.case.model, samples_of(inputs), job.server.scratch) as data:
        name = job.server.name_of(job.built.case)
        perf_analyzer.take(
            LoadJob(job.server, name, job.built.case.model, LoadPoint("online", 1, 4), "none", data), 0.1
        )


@pytest.mark.parametrize("meet", [a_request, a_load_point])
def test_a_server_that_lost_the_process_of_its_model_is_ended_and_followed_by_another(
    meet: Callable[[Job], None], server: Server, models: Path, doubling: BuiltModel, tmp_path: Path
) -> None:
    with serve(Choice("embedded"), models, tmp_path / "log", device="cpu") as first:
        found = Restarts(first, lambda _end: server)
        first.load(doubling, DEPLOYMENT, "online")
        assert doubled_by(first, doubling)
        for process in process_of(first).children(recursive=True):
            process.kill()

        with pytest.raises(ProofError) as raised:
            meet(Job(first, doubling))

        assert "attempts" not in raised.value.what, "each would end alike"
        assert first.process is not None
        assert first.process.poll() is not None
        found.running().load(doubling, DEPLOYMENT, "online")
        assert doubled_by(found.running(), doubling)
    (end,) = found.ends
    assert "lost the process" in end.how
