"""Memory, shared memory and disks: too little of one is told before a run dies of it."""

import os
from pathlib import Path

import pytest

from fixtures.doctor import space
from fixtures.host.memory import free_memory_gib
from tests.doctor.findings import states


def test_memory_is_weighed_against_what_cases_take() -> None:
    assert states(space.memory(2.0), space.memory(9.0), space.memory(20.0)) == ["warning", "ok", "ok"]
    assert "calibrating nnunet for INT8 takes 11.3 GiB" in space.memory(9.0).found
    assert "serving nnunet" not in space.memory(9.0).found


def test_a_control_group_may_leave_less_memory_than_the_machine_has(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n")
    assert free_memory_gib(meminfo, tmp_path) == 16
    (tmp_path / "memory.max").write_text(f"{4 * 2**30}\n")
    (tmp_path / "memory.current").write_text(f"{2**30}\n")
    assert free_memory_gib(meminfo, tmp_path) == 3
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory_gib(meminfo, tmp_path) == 16


def test_little_shared_memory_is_a_warning_and_hardly_any_a_problem() -> None:
    assert states(*map(space.shared_memory, (8, 64, 2048))) == ["problem", "warning", "ok"]


def test_a_disk_that_is_nearly_full_is_told_with_its_folder(tmp_path: Path) -> None:
    gib = 2**30
    findings = [space.disks([tmp_path], lambda _folder, free=free: free * gib) for free in (0.1, 2, 50)]  # type: ignore[misc]

    assert states(*findings) == ["problem", "warning", "ok"]
    assert str(tmp_path) in findings[0].found


def test_a_folder_that_cannot_be_written_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)

    assert states(space.disks([tmp_path]), space.shared_memory()) == ["problem", "problem"]
