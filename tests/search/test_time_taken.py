"""How long a search took, as its record says it."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.host import locks
from fixtures.run import searching
from fixtures.run.searching import find_fastest as find_fastest
from fixtures.search import fastest, on_server
from tests import toy


@pytest.fixture
def case() -> Any:
    return toy.case()


@pytest.fixture
def search_space() -> None:
    """Nothing, as the search is another's here."""


@pytest.fixture
def job_of() -> None:
    """Nothing is measured."""


@pytest.fixture
def deploy() -> Callable[..., object]:
    return lambda *_what: object()


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    return SimpleNamespace(
        goal=SimpleNamespace(budget_ms=10), plan=SimpleNamespace(budget_s=1.0), results=tmp_path
    )


@pytest.fixture
def narrator() -> None:
    """Nobody is told."""


@pytest.fixture
def use_machine() -> Callable[..., object]:
    return contextlib.nullcontext


def test_a_search_takes_as_long_as_its_own_work_without_waiting_for_other_runs(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_s: list[float] = []
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)

    def wait_for_the_machine(*_what: object) -> Any:
        def end_of_the_other(_holder: str) -> None:
            time.sleep(0.1)
            fcntl.flock(other, fcntl.LOCK_UN)

        with locks.hold_machine(exclusive=True, folder=tmp_path, waiting=end_of_the_other):
            entry = SimpleNamespace(candidate=SimpleNamespace(scenario="online", deployment=None))
            return SimpleNamespace(winner=SimpleNamespace(verdict="failed", entry=entry))

    monkeypatch.setattr(fastest, "search", wait_for_the_machine)
    monkeypatch.setattr(searching.record_file, "write_config", lambda *_what: "")
    monkeypatch.setattr(
        on_server, "summarise", lambda _found, _goal, _plan, took_s, _config: taken_s.append(took_s)
    )
    waited_s, began_s = locks.waited_s(), time.monotonic()

    request.getfixturevalue("find_fastest")()

    waited_s = locks.waited_s() - waited_s
    os.close(other)
    assert waited_s > 0
    assert 0 <= taken_s[0] <= time.monotonic() - began_s - waited_s
