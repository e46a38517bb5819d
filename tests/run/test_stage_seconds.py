"""A record says how long the tests of each stage took, so that later runs know what to expect."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.cases import cases_of
from fixtures.host import locks
from fixtures.host.targets import CPU
from fixtures.run import stage_seconds
from fixtures.run.options import SETTINGS
from fixtures.run.stage_seconds import pytest_configure, pytest_runtest_makereport
from reports.record import files
from tests import samples

CASE = next(iter(cases_of(CPU)))
RECORD = samples.record(case=CASE.key)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run whose case has a record."""
    narrator = SimpleNamespace(waits=lambda _what: lambda _holder: None)
    monkeypatch.setattr(stage_seconds, "narrator_of", lambda _config: narrator)
    files.write(RECORD, files.path_of(RECORD.case, tmp_path))
    stash = pytest.Stash()
    settings: Any = SimpleNamespace(results=tmp_path)
    stash[SETTINGS] = settings
    made: Any = SimpleNamespace(stash=stash)
    pytest_configure(made)
    return made


def run_test(
    config: Any, stage: str, phases: Mapping[str, float], *, recorded: bool = True, **fixtures: Any
) -> None:
    """A test of a stage has run; its phases took so many seconds."""
    place = files.path_of(RECORD.case, Path())
    item: Any = SimpleNamespace(
        config=config,
        stash=pytest.Stash(),
        nodeid=f"test_{stage}",
        callspec=SimpleNamespace(params={"case": CASE}),
        funcargs=fixtures,
        user_properties=[("record", str(place))] if recorded else [],
        get_closest_marker=lambda _name: SimpleNamespace(args=(stage,)),
    )
    for when, duration in phases.items():
        pytest_runtest_makereport(item, SimpleNamespace(when=when, duration=duration))  # type: ignore[arg-type]


def kept(config: Any) -> Mapping[str, float]:
    return files.read(files.path_of(RECORD.case, config.stash[SETTINGS].results)).stage_seconds


def test_a_stage_takes_what_its_test_takes_with_what_is_set_up_and_ended(config: Any) -> None:
    run_test(config, "accuracy", {"setup": 2.0, "call": 5.0, "teardown": 0.5})
    assert kept(config) == {"accuracy": 7.5}


def test_the_tests_of_a_scenario_have_their_mean_as_the_first_measures_all(config: Any) -> None:
    for call in (30.0, 0.0, 0.0):
        run_test(config, "offline", {"setup": 0.0, "call": call, "teardown": 0.0})
    assert kept(config) == {"offline": 10.0}


def test_converting_the_model_is_no_part_of_it(config: Any) -> None:
    """It has a time of its own in the record, which a run that reuses the model has too."""
    build = SimpleNamespace(reused=False, build_time_s=60.0)
    for stage in ("conversion", "accuracy"):
        setup = 61.0 if stage == "conversion" else 1.0
        run_test(config, stage, {"setup": setup, "call": 4.0, "teardown": 0.0}, build=build)
    assert kept(config) == {"conversion": 5.0, "accuracy": 5.0}


def test_a_model_that_is_reused_took_nothing(config: Any) -> None:
    build = SimpleNamespace(reused=True, build_time_s=60.0)
    run_test(config, "conversion", {"setup": 1.0, "call": 4.0, "teardown": 0.0}, build=build)
    assert kept(config) == {"conversion": 5.0}


def test_waiting_for_another_process_is_no_part_of_it(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another run does is none of the case's business."""
    before_s = locks.waited_s()
    waited_s = itertools.chain([before_s + 2.0], itertools.repeat(before_s + 10.0))
    monkeypatch.setattr(locks, "waited_s", lambda: next(waited_s))
    run_test(config, "online", {"setup": 5.0, "call": 20.0, "teardown": 0.5})
    assert kept(config) == {"online": 15.5}


def test_a_test_that_recorded_nothing_says_nothing(config: Any) -> None:
    run_test(config, "accuracy", {"setup": 2.0, "call": 5.0, "teardown": 0.5}, recorded=False)
    assert kept(config) == {}


def test_workers_wait_for_each_other_and_say_nothing(config: Any) -> None:
    config.workerinput = {}
    run_test(config, "accuracy", {"setup": 2.0, "call": 5.0, "teardown": 0.5})
    assert kept(config) == {}
