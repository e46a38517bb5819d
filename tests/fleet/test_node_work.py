"""What a task of Ray does on its node: tasks of one node take turns, and the one that waits says behind whom."""

import fcntl
import functools
import os
import sys
import tempfile
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.fleet.node_work import Order, work_off
from fixtures.host import private

NODE = "c0ffee" * 8


class _Asked:
    """What Ray makes of an actor's method: it is called by `remote`."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.remote = method


class _LedgerOfRay:
    """A ledger that has no work, and lets go of the node when it hears that somebody waits for it."""

    def __init__(self, let_go: Callable[[], None]) -> None:
        self.heard: list[tuple[int, str, str]] = []

        def wait(group: int, node: str, holder: str) -> None:
            self.heard.append((group, node, holder))
            let_go()

        self.wait, self.begin = _Asked(wait), _Asked(lambda _group, _node: None)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much of Ray as a task asks that gets no work."""
    context = types.SimpleNamespace(get_node_id=lambda: NODE, get_assigned_resources=dict)
    module = types.SimpleNamespace(get_runtime_context=lambda: context, get=lambda answer: answer)
    monkeypatch.setitem(sys.modules, "ray", module)


@pytest.mark.usefixtures("ray")
def test_a_task_that_waits_for_its_turn_on_a_node_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    turn = os.open(private.folder_of_user(f"node-{NODE[:16]}", "turn"), os.O_RDONLY)
    fcntl.flock(turn, fcntl.LOCK_EX)
    let_go = functools.partial(fcntl.flock, turn, fcntl.LOCK_UN)
    of = _LedgerOfRay(let_go)
    in_any_case = threading.Timer(5, let_go)
    in_any_case.start()

    assert work_off(3, "cpu", of, Order((), {}, b"")) is None

    in_any_case.cancel()
    os.close(turn)
    ((group, node, _holder),) = of.heard
    assert group == 3
    assert NODE[:6] in node
