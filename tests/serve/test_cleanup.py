"""Leftovers of a killed Triton in /tmp are removed, except those that may still be in use.

These tests use their own folders and processes, independent of other Tritons on the machine.
"""

import mmap
import os
import time
from pathlib import Path

import psutil
import pytest

from fixtures.serve import cleanup

HOUR_S = 3600.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that a backend made an hour ago."""
    path = tmp_path / "temporary" / "python_env_aB3xYz"
    path.mkdir(parents=True)
    os.utime(path, (time.time() - HOUR_S,) * 2)
    return path


@pytest.fixture
def processes(tmp_path: Path) -> Path:
    """The /proc of a machine without a Triton."""
    view = tmp_path / "proc"
    view.mkdir()
    add_process(view, 10, age_s=10 * HOUR_S, library="/usr/lib/libc.so.6")
    return view


def add_process(view: Path, pid: int, *, age_s: float, library: str) -> None:
    """Add a process of this age that has loaded a library."""
    ticks = (time.clock_gettime(time.CLOCK_BOOTTIME) - age_s) * os.sysconf("SC_CLK_TCK")
    (view / str(pid)).mkdir()
    (view / str(pid) / "stat").write_text(f"{pid} (a (name)) S {' 0' * 18} {ticks:.0f} 0 0\n")
    (view / str(pid) / "maps").write_text(f"7f00-7f01 r-xp 00000000 00:00 1 {library}\n")


@pytest.mark.parametrize(
    ("age_s", "is_orphan"), [(None, True), (HOUR_S / 2, True), (HOUR_S, False), (2 * HOUR_S, False)]
)
def test_empty_folder_older_than_living_backends_is_an_orphan(
    folder: Path, processes: Path, age_s: float | None, is_orphan: bool
) -> None:
    if age_s is not None:
        add_process(processes, 20, age_s=age_s, library="/opt/backends/python/libtriton_python.so")
    assert cleanup.orphans(folder.parent, processes) == ([folder] if is_orphan else [])


def test_full_linked_or_foreign_folders_and_other_names_stay(
    folder: Path, processes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python_env_mine", "python_env_backups", "my_python_env_aB3xYz"):
        other = folder.rename(folder.with_name(name))
        assert cleanup.orphans(folder.parent, processes) == []
        other.rename(folder)
    with monkeypatch.context() as patch:
        user = os.getuid()
        patch.setattr(os, "getuid", lambda: user + 1)
        assert cleanup.orphans(folder.parent, processes) == []
    (folder / "0").mkdir()
    os.utime(folder, (0, 0))
    assert cleanup.orphans(folder.parent, processes) == []
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")
    assert cleanup.orphans(folder.parent, processes) == []


def test_living_backends_are_found_with_start_times(tmp_path: Path) -> None:
    library = tmp_path / "libtriton_python.so"
    library.write_bytes(b"\0" * mmap.PAGESIZE)
    own = psutil.Process().create_time()
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        # psutil counts in whole clock ticks from a boot time in whole seconds.
        assert any(abs(started - own) < 1.5 for started in cleanup.backends_started())
