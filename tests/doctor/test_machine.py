"""Cores, load, memory, shared memory and disks: shortages are reported."""

import os
import shutil
from collections.abc import Callable
from types import SimpleNamespace

import psutil
import pytest

from tritonproof.doctor import Finding, machine
from tritonproof.host import machine as host


@pytest.mark.parametrize(("limit", "state"), [(2.5, "warning"), (8.0, "ok"), (None, "ok")])
def test_fewer_cores_than_are_visible_are_a_warning(
    limit: float | None, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {4, 5, 6, 7, 8, 9, 10, 12})
    monkeypatch.setattr(host, "cgroup_cores", lambda: limit)
    finding = machine.cores()
    assert (finding.state, "taskset -c 4,5 " in finding.fix) == (state, limit == 2.5)


@pytest.mark.parametrize(
    ("check", "free_gib", "state"),
    [
        (machine.memory, 2, "warning"),
        (machine.memory, 9, "ok"),  # without the calibration of nnunet
        (machine.shared_memory, 0.008, "problem"),
        (machine.shared_memory, 0.06, "warning"),
        (machine.shared_memory, 2, "ok"),
        (machine.disks, 0.1, "problem"),
        (machine.disks, 2, "warning"),
        (machine.disks, 50, "ok"),
    ],
)
def test_shortage_is_a_warning_or_a_problem(
    check: Callable[[], Finding], free_gib: float, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "free_memory_gib", lambda: free_gib)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=free_gib * 2**30))
    assert check().state == state


def test_unwritable_folder_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert machine.disks().state == machine.shared_memory().state == "problem"


@pytest.mark.parametrize(
    ("percent", "state"),
    [({"user": 2.0}, "ok"), ({"user": 40.0, "softirq": 10.0}, "warning"), ({"steal": 10.0}, "warning")],
    ids=["quiet", "other programs", "stolen by the host"],
)
def test_busy_machine_is_a_warning(
    percent: dict[str, float], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = dict.fromkeys(("user", "nice", "system", "irq", "softirq", "steal"), 0.0)
    monkeypatch.setattr(psutil, "cpu_times_percent", lambda _s: SimpleNamespace(**{**shares, **percent}))
    assert machine.other_load().state == state
