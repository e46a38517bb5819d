"""A search over configurations of a repository's model: what may vary, and which settings are left out."""

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests import toy
from tests.build.conversions import UP_TO_32
from tests.gates.made_up_model import gate_context
from tests.helpers import settings
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.gates.context import GateFinding
from tritonproof.record.schema import GateResult, LoadPoint
from tritonproof.run import searching
from tritonproof.search import fastest
from tritonproof.search.candidates import Candidate, SearchGoal
from tritonproof.user_models.model_repository import RepositoryModel


def search_of(**configuration: Any) -> Any:
    """The search of a model with this configuration, on a server that notes what it loads."""
    found = RepositoryModel("m", Path("m"), ModelConfig(**configuration))
    run: Any = SimpleNamespace(case=toy.case(), loads=[], notes=[])
    run.expectations = SimpleNamespace(gate_context=gate_context(), answer_check=None)
    run.server = SimpleNamespace(load_from_repository=lambda *loaded: run.loads.append(loaded))
    run.settings, run.loader = SimpleNamespace(concurrencies=None), SimpleNamespace(ensure_loaded=str)
    run.hold_machine = lambda **_how: contextlib.nullcontext()
    run.progress = SimpleNamespace(note=run.notes.append)
    prepared: Any = SimpleNamespace(described=SimpleNamespace(model=found, config=found.config))
    return searching.RepositorySearch(run, prepared)


@pytest.mark.parametrize(
    ("groups", "fixed", "gpus"), [([{}], set(), 1), ([{"gpus": [0, 2]}, {}], {"instances"}, 2)]
)
def test_several_groups_of_instances_stay_as_they_are(groups: Any, fixed: set[str], gpus: int) -> None:
    space = search_of(max_batch_size=4, instance_group=groups).space(SearchGoal(10, 99))
    assert (space.fixed, space.incumbent, space.gpus) == (fixed, ("offline", space.own_deployment), gpus)


def test_settings_that_change_answers_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = (GateFinding(GateResult("reload", 1, "", fault)) for fault in ("", "row 3 differs", "", ""))
    for gate in ("reload_gate", "in_flight_gate"):
        monkeypatch.setattr(searching, gate, lambda _context: next(findings))
    search, candidate = search_of(instance_group=[{}]), Candidate("online", UP_TO_32, ())
    with pytest.raises(AccuracyError, match="row 3 differs"):
        search.load(candidate)
    for _once_and_again in range(2):
        search.load(candidate)
    assert len(search.run.loads) == 2, "once after it was left out"


def test_what_a_search_leaves_out_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    candidate, run = Candidate("online", UP_TO_32, (LoadPoint("online", 1, 4),)), search_of().run
    given = settings(latency_budget_ms="7", batches="1,8,64")
    vars(run).update(prepared=None, deployment=UP_TO_32, settings=given)
    run.loader.ensure_loaded = Mock(side_effect=ProofError("too large"))
    probing = lambda _space, _goal, probe, *_more: probe(candidate, candidate.ladder[0])  # noqa: E731
    monkeypatch.setattr(fastest, "find_fastest", probing)
    with pytest.raises(ProofError), searching.search(run):
        pass
    said = "batch 64: larger than 32", f"{candidate.label}: too large"
    assert run.notes == [f"{run.case}: left out: {what}" for what in said]
