"""A search over configurations of a repository's model: what may vary, and which settings are left out."""

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests import toy
from tests.build.conversions import DEPLOYMENT
from tests.gates.stand_in import gate_context
from tritonproof.base.errors import AccuracyError
from tritonproof.gates.context import GateFinding
from tritonproof.record.schema import GateResult
from tritonproof.run import searching
from tritonproof.search.candidates import Candidate, SearchGoal
from tritonproof.user_models.model_repository import RepositoryModel


def search_of(**configuration: Any) -> Any:
    """The search of a model with this configuration, on a server that notes what it loads."""
    found = RepositoryModel("m", Path("m"), ModelConfig(**configuration))
    run: Any = SimpleNamespace(case=toy.case(), loads=[], notes=[])
    run.expectations = SimpleNamespace(gate_context=gate_context(), answer_check=None)
    run.server = SimpleNamespace(load_from_repository=lambda *loaded: run.loads.append(loaded))
    run.settings, run.loader = SimpleNamespace(concurrencies=None), SimpleNamespace(load=str)
    run.hold_machine = lambda **_how: contextlib.nullcontext()
    run.progress = SimpleNamespace(note=run.notes.append)
    prepared: Any = SimpleNamespace(described=SimpleNamespace(model=found, config=found.config))
    return searching.RepositorySearch(run, prepared)


@pytest.mark.parametrize(("groups", "fixed"), [([{}], set()), ([{}, {}], {"instances"})])
def test_several_groups_of_instances_stay_as_they_are(groups: list[Any], fixed: set[str]) -> None:
    space = search_of(max_batch_size=4, instance_group=groups).space(SearchGoal(10, 99))
    assert (space.fixed, space.incumbent) == (fixed, ("offline", space.own))


def test_settings_that_change_answers_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = (GateFinding(GateResult("reload", 1, "", fault)) for fault in ("", "row 3 differs", "", ""))
    for gate in ("reload_gate", "in_flight_gate"):
        monkeypatch.setattr(searching, gate, lambda _context: next(findings))
    search, candidate = search_of(instance_group=[{}]), Candidate("online", DEPLOYMENT, ())
    with pytest.raises(AccuracyError, match="row 3 differs"):
        search.load(candidate)
    assert f"left out: {candidate.label}" in search.run.notes[0]
    for _once_and_again in range(2):
        search.load(candidate)
    assert len(search.run.loads) == 2, "once after it was left out"
