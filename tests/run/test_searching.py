"""A search over configurations of a repository's model: what may vary, and what is left out."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tests import sample_records, toy
from tests.build.conversions import UP_TO_32
from tests.fake_nvml import Clock
from tests.run.conftest import RunOf
from tests.run.stand_in_case import StandInServer, prepare, prepare_repository_case
from tritonproof.accuracy.answer_comparison import AnswerFinding
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.record import setup, speed
from tritonproof.record.correctness import GateResult
from tritonproof.run import searching
from tritonproof.run.searching import RepositorySearch
from tritonproof.search import fastest
from tritonproof.search.candidates import Candidate
from tritonproof.search.measurer import Measurer, RerunError

VARIANT = setup.ConfigVariant("online", UP_TO_32)
POINT = speed.LoadPoint("online", 1, 4)
CANDIDATE = Candidate(VARIANT, (POINT,))


@pytest.mark.parametrize(
    ("groups", "fixed", "gpus"), [([{}], set(), 1), ([{"gpus": [0, 2]}, {}], {"instances"}, 2)]
)
def test_several_groups_of_instances_stay_as_they_are(
    groups: Any, fixed: set[str], gpus: int, run_of: RunOf
) -> None:
    run: Any = run_of(prepare_repository_case(max_batch_size=4, instance_group=groups))
    space = RepositorySearch(run, run.described).space()
    assert (space.fixed, space.own_scenario, space.gpus) == (fixed, "offline", gpus)


def test_configuration_that_changes_answers_is_left_out(
    run_of: RunOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = (AnswerFinding(GateResult("reload", 1, "", fault)) for fault in ("", "row 3 differs", "", ""))
    for gate in ("reload_gate", "in_flight_gate"):
        monkeypatch.setattr(searching, gate, lambda _context: next(findings))
    server = StandInServer(on_loading=(loading := Mock()))
    run: Any = run_of(prepare_repository_case(server, instance_group=[{}]))
    search = RepositorySearch(run, run.described)
    with pytest.raises(AccuracyError, match="row 3 differs"):
        search.load(toy.ONLINE)  # its own deployment
    assert (run.loader.loaded, loading.call_count) == (None, 1)
    for _once_and_again in range(2):
        search.load(toy.ONLINE)
    loaded = loading.call_count, run.loader.ensure_loaded("online").by_own_config, loading.call_count
    assert loaded == (2, True, 3), "the search loads it once, the next step its own configuration"


def test_own_configuration_follows_a_failed_search(run_of: RunOf, monkeypatch: pytest.MonkeyPatch) -> None:
    server = StandInServer(on_loading=(loading := Mock(side_effect=[ProofError("nothing loads"), None])))
    run = run_of(prepare_repository_case(server, instance_group=[{}]), latency_budget_ms="7")
    monkeypatch.setattr(fastest, "find_fastest", lambda _space, measurer: measurer.probe(CANDIDATE, POINT))
    with pytest.raises(ProofError, match="nothing loads"), searching.search_for_fastest(run):
        pass
    own = run.loader.ensure_loaded("online").variant
    assert (loading.call_count, own) == (2, run.gate_context.loaded.variant)


def test_what_a_search_leaves_out_is_noted(
    run_of: RunOf, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = StandInServer(on_loading=Mock(side_effect=ProofError("too large")))
    run = run_of(
        prepare(case=toy.case(), described=None, server=server, deployment=UP_TO_32),
        latency_budget_ms="7",
        batches="1,8,64",
    )

    def find(_space: object, measurer: Measurer) -> object:
        with pytest.raises(ProofError, match="too large"):
            measurer.probe(CANDIDATE, POINT)
        return measurer.rerun({CANDIDATE: POINT})

    monkeypatch.setattr(fastest, "find_fastest", find)
    with pytest.raises(RerunError), searching.search_for_fastest(run):
        pass
    said = "batch 64: larger than 32", *[f"{CANDIDATE.label}: too large"] * 2
    noted = [line for line in lines if "left out" in line]
    assert noted == [f"{run.case}: left out: {what}" for what in said]


def test_entry_of_a_search_has_its_duration_and_the_winners_configuration(
    run_of: RunOf, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search itself leaves both empty."""

    def find(*_arguments: object) -> Any:
        clock.now_s += 71.6
        return SimpleNamespace(candidate=CANDIDATE), sample_records.search(duration_s=0.0, config="")

    monkeypatch.setattr(searching, "time", clock)
    monkeypatch.setattr(fastest, "find_fastest", find)
    run = run_of(prepare(case=toy.case(), described=None, deployment=UP_TO_32), latency_budget_ms="7")
    with searching.search_for_fastest(run) as entry:
        assert (entry.duration_s, entry.diff) == (71.6, "")
        config = (run.settings.results / run.case.target.name / entry.config).read_text()
    assert "dynamic_batching" in config
