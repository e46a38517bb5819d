"""The server of the format that all of a model are set beside, which ends by itself: the cases after it have another."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from fixtures.build.repository import BuiltModel
from fixtures.errors import ProofError
from fixtures.plugin.restarting import kept_running
from fixtures.plugin.serving_reference import ServedReference
from fixtures.serve.choice import Choice
from fixtures.serve.launch import serve
from fixtures.serve.server import Server
from fixtures.spec import LoadPoint
from tests.conftest import DEPLOYMENT, DOUBLING, MakeBuild
from tests.plugin.test_other_server import Notes
from tests.serve.programs import doubled_by, process_of


@pytest.fixture
def build(make_build: MakeBuild, tmp_path: Path) -> BuiltModel:
    return make_build(tmp_path / "models", "doubling", DOUBLING)


def test_a_reference_whose_server_was_killed_is_loaded_on_another_for_the_cases_after_it(
    build: BuiltModel, tmp_path: Path
) -> None:
    notes: Any = Notes()

    def serving(log: str) -> contextlib.AbstractContextManager[Server]:
        return serve(Choice("embedded"), tmp_path / "models", tmp_path / log, device="cpu")

    with kept_running("the reference's Triton", "cpu-m-ts", "reference", serving, notes) as restarts:
        reference = ServedReference(
            build.case,
            restarts,
            LoadPoint("online", 1, 1),
            0.001,
            lambda server: server.load(build, DEPLOYMENT, "online"),
        )
        reference.load_where_it_is_not()
        first = reference.server
        assert first is not None
        reference.is_warm = True
        reference.load_where_it_is_not()
        assert (reference.server, reference.is_warm) == (first, True), "it is loaded once"
        process_of(first).kill()
        with pytest.raises(ProofError, match=r"the reference's Triton \(cpu-m-ts\) was ended by SIGKILL"):
            doubled_by(first, build)

        reference.load_where_it_is_not()

        assert reference.server is not None
        assert reference.server is not first
        assert not reference.is_warm
        assert doubled_by(reference.server, build)
    (line,) = notes.lines
    assert line.startswith("cpu-m-ts: the reference's Triton was ended by SIGKILL")
    assert "another is started in its place" in line
