"""A server whose model lost the process that held it is ended, and whoever meets that is told at once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.build.repository import BuiltModel
from fixtures.errors import ProofError
from fixtures.measure import perf_analyzer
from fixtures.measure.job import Job
from fixtures.measure.load_data import input_data
from fixtures.serve.launch import serve
from fixtures.serve.server import Server
from fixtures.serve.server_spec import Choice
from fixtures.spec import LoadPoint
from tests.conftest import DEPLOYMENT
from tests.serve.programs import VALUES, doubled_by, process_of
from tests.toy import samples_of


def a_request(server: Server, built: BuiltModel) -> None:
    doubled_by(server, built)


def a_load_point(server: Server, built: BuiltModel) -> None:
    model = built.case.model
    with input_data(model, samples_of({model.inputs[0].name: VALUES}), server.scratch) as data:
        name = server.name_of(built.case)
        perf_analyzer.take(Job(server, name, model, LoadPoint("online", 1, 4), "none", data), 0.1)


@pytest.mark.parametrize("meet", [a_request, a_load_point])
def test_a_model_that_lost_its_process_is_the_end_of_its_server(
    meet: Callable[[Server, BuiltModel], None], models: Path, doubling: BuiltModel, tmp_path: Path
) -> None:
    with serve(Choice("embedded"), models, tmp_path / "log", device="cpu") as server:
        server.load(doubling, DEPLOYMENT, "online")
        for process in process_of(server).children(recursive=True):
            process.kill()

        with pytest.raises(ProofError) as raised:
            meet(server, doubling)

        assert "attempts" not in raised.value.what, "each would end alike"
        assert server.process is not None
        assert server.process.poll() is not None
        assert "lost the process" in server.how_it_ended()
