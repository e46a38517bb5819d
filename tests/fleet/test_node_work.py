"""What a task of Ray does on its node: tasks of one node take turns, and the one that waits says behind whom."""

import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.fleet import checkout, environment
from fixtures.fleet.ledger import Attempt
from fixtures.fleet.node_work import Order, work_off

NODE = "c0ffee" * 8


class _Asked:
    """What Ray makes of an actor's method: it is called by `remote`."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.remote = method


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much of Ray as a task asks that gets no work."""
    context = types.SimpleNamespace(get_node_id=lambda: NODE, get_assigned_resources=dict)
    module = types.SimpleNamespace(get_runtime_context=lambda: context, get=lambda answer: answer)
    monkeypatch.setitem(sys.modules, "ray", module)


class _LedgerOfAnAttempt:
    """A ledger that has one attempt, and keeps what is told of it."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.problems: list[str | None] = []
        attempt = Attempt(0, 1, ("a.py::test",), files)
        self.begin = _Asked(lambda _group, _node: attempt)
        self.tell = _Asked(lambda _attempt, _told, _log: True)
        self.end = _Asked(lambda _attempt, problem: self.problems.append(problem))
        self.wait = _Asked(lambda *_: None)


def _work_off(line: str, files: dict[str, bytes], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The problem that the ledger is told of where the run on the node writes a line into the pipe."""
    python = folder / "python"
    python.write_text(
        f"#!/bin/sh\nwhile [ $1 != --fleet-report ]; do shift; done\nprintf '%s\\n' '{line}' > $2\n"
    )
    python.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(environment, "python_for", lambda *_: python)
    monkeypatch.setenv(environment.CACHE, str(folder))
    ledger = _LedgerOfAnAttempt(files)
    (folder / "checkout").mkdir()
    (folder / "checkout" / "a.py").touch()
    work_off(0, "cpu", ledger, Order((), {}, checkout.packed(folder / "checkout")))
    (problem,) = ledger.problems
    assert problem is not None
    return problem


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        "3",
        "[" * 100_000,
        '{"files": 3}',
        '{"files": {"a": 3}}',
        '{"files": {"a": "+"}}',
        "\x1b[2J",
    ],
    ids=lambda line: line[:20],
)
def test_a_line_of_the_run_that_is_damaged_ends_the_attempt_in_a_sentence(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = _work_off(line, {}, tmp_path, monkeypatch)

    assert "told of its tests in a line that is damaged" in problem
    assert "fix:" in problem
    assert "\x1b" not in problem


@pytest.mark.usefixtures("ray")
def test_a_file_of_another_node_whose_name_leads_elsewhere_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = _work_off("{}", {"../../elsewhere": b"code"}, tmp_path, monkeypatch)

    assert "a name that is none" in problem
    assert list(tmp_path.rglob("elsewhere")) == []
