"""Records have the duration of each stage, for later estimates."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.cases import cases_of
from fixtures.host import locks
from fixtures.host.targets import CPU
from fixtures.plugin import recorder
from fixtures.plugin.options import SETTINGS
from reports.record import files
from tests import examples

CASE = next(iter(cases_of(CPU)))
RECORD = examples.record(case=CASE.key)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run whose case has a record."""
    narrator = SimpleNamespace(waits=lambda _what: lambda _holder: None)
    monkeypatch.setattr(recorder, "narrator_of", lambda _config: narrator)
    files.write(RECORD, files.path_of(RECORD.case, tmp_path))
    fake: Any = SimpleNamespace(stash=pytest.Stash())
    fake.stash[SETTINGS] = SimpleNamespace(results=tmp_path)
    recorder.pytest_configure(fake)
    return fake


def run_test(config: Any, stage: str, *phases_s: float, recorded: bool = True, **fixtures: Any) -> None:
    """Report a test of a stage whose setup, call and teardown took `phases_s`."""
    item: Any = SimpleNamespace(
        config=config,
        stash=pytest.Stash(),
        callspec=SimpleNamespace(params={"case": CASE}),
        funcargs=fixtures,
        user_properties=[("record", str(files.path_of(RECORD.case, Path())))] if recorded else [],
        get_closest_marker=lambda _name: SimpleNamespace(args=(stage,)),
    )
    for when, duration in zip(("setup", "call", "teardown"), phases_s, strict=True):
        recorder.note_seconds(item, SimpleNamespace(when=when, duration=duration))  # type: ignore[arg-type]


def kept(config: Any) -> Mapping[str, float]:
    return files.read(files.path_of(RECORD.case, config.stash[SETTINGS].results)).stage_seconds


@pytest.mark.parametrize(
    ("tests", "seconds"),
    [
        ([("accuracy", 2.0, 5.0, 0.5)], {"accuracy": 7.5}),
        # The first test of a scenario measures all of its points, so that the mean counts.
        ([("offline", 0.0, call, 0.0) for call in (30.0, 0.0, 0.0)], {"offline": 10.0}),
    ],
)
def test_stage_time_is_mean_over_its_tests(
    config: Any, tests: list[tuple[Any, ...]], seconds: dict[str, float]
) -> None:
    for arguments in tests:
        run_test(config, *arguments)
    assert kept(config) == seconds


@pytest.mark.parametrize(("reused", "first_s"), [(False, 61.0), (True, 1.0)])
def test_conversion_time_is_excluded(config: Any, reused: bool, first_s: float) -> None:
    """The record has it separately, also when a run reuses the model."""
    run = SimpleNamespace(build=SimpleNamespace(reused=reused, build_time_s=60.0))
    for stage, setup_s in (("conversion", first_s), ("accuracy", 1.0)):
        run_test(config, stage, setup_s, 4.0, 0.0, run=run)
    assert kept(config) == {"conversion": 5.0, "accuracy": 5.0}


def test_waiting_time_is_excluded(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before_s = locks.waited_s()
    waited_s = itertools.chain([before_s + 2.0], itertools.repeat(before_s + 10.0))
    monkeypatch.setattr(locks, "waited_s", lambda: next(waited_s))
    run_test(config, "online", 5.0, 20.0, 0.5)
    assert kept(config) == {"online": 15.5}


@pytest.mark.parametrize("is_worker", [False, True])
def test_unrecorded_tests_and_workers_keep_no_stage_time(config: Any, is_worker: bool) -> None:
    if is_worker:
        config.workerinput = {}
    run_test(config, "accuracy", 2.0, 5.0, 0.5, recorded=is_worker)
    assert kept(config) == {}
