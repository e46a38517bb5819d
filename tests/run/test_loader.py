"""How a case is loaded again, and what its run then knows of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests import toy
from tests.run.conftest import RunOf
from tests.run.stand_in_case import StandInServer, prepare, prepare_repository_case
from tritonproof.base.errors import ProofError
from tritonproof.client.requests import LoadedAs
from tritonproof.gates import GATES
from tritonproof.run.proving import run_gate
from tritonproof.serve.kinds import ServerProgram
from tritonproof.serve.server_spec import ServerKind, ServerSpec


@pytest.mark.parametrize("prepare_on", [prepare, prepare_repository_case])
def test_case_that_a_reload_left_unloaded_is_loaded_once(prepare_on: Any, run_of: RunOf) -> None:
    loading = Mock(side_effect=[ProofError("no memory"), None])
    loader = run_of(prepare_on(server=StandInServer(on_loading=loading))).loader
    with pytest.raises(ProofError, match="no memory"):
        loader.reload()
    for _ in range(2):
        loader.ensure_loaded("offline")
    assert loading.call_count == 2


@pytest.mark.parametrize("kind", ["embedded", "local", "docker", "remote"])
def test_every_kind_of_server_takes_a_repositorys_model(
    kind: ServerKind, run_of: RunOf, tmp_path: Path
) -> None:
    """It needs no backend of the suite's: `tmp_path`, the server's folder of backends, is empty."""
    server = StandInServer(spec=ServerSpec(kind), program=ServerProgram(backends=tmp_path))
    assert run_of(prepare_repository_case(server)).loader.ensure_loaded("online").variant.scenario == "online"


def test_reloaded_case_is_cold(run_of: RunOf) -> None:
    loader = run_of(prepare()).loader
    loaded = LoadedAs(toy.ONLINE._replace(scenario="offline"), "onnx", {})
    loader.loaded, loader.is_cold = loaded, False
    loader.reload()
    assert (loader.loaded, loader.is_cold) == (replace(loaded, backend="python", first_answer=None), True)


def test_first_answer_of_an_earlier_loading_is_not_one_after_a_reload(
    run_of: RunOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = run_of(prepare_repository_case()), Mock()
    for name in ("repeated", "reload"):
        monkeypatch.setitem(GATES, name, replace(GATES[name], check=seen))
        run_gate(run, name)
    assert [call.args[0].loaded.first_answer for call in seen.call_args_list] == [{}, None]
