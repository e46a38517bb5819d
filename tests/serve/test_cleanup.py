"""What a killed Triton leaves in /tmp is removed, and nothing that may still be in use.

Which Tritons are alive on the machine makes no difference to these tests: they bring their own folders, and most of
them their own view of the processes.
"""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fixtures.serve import cleanup
from tests.helpers import closed

HOUR_S = 3600.0
GONE_S = 10.0  # bounds a hang; it takes a few tenths of a second


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a backend made an hour ago."""
    made = tmp_path / "temporary" / "python_env_aB3xYz"
    made.mkdir(parents=True)
    then = time.time() - HOUR_S
    os.utime(made, (then, then))
    return made


@pytest.fixture
def processes(tmp_path: Path) -> Path:
    """A machine on which no Triton runs, as the kernel shows its processes."""
    view = tmp_path / "proc"
    view.mkdir()
    add_process(view, 10, age_s=10 * HOUR_S, library="/usr/lib/libc.so.6")
    return view


def add_process(view: Path, pid: int, *, age_s: float, library: str) -> None:
    """Let there be a process that was started so long ago and has a library loaded."""
    ticks = (time.clock_gettime(time.CLOCK_BOOTTIME) - age_s) * os.sysconf("SC_CLK_TCK")
    (view / str(pid)).mkdir()
    (view / str(pid) / "stat").write_text(f"{pid} (a (name)) S {' 0' * 18} {ticks:.0f} 0 0\n")
    (view / str(pid) / "maps").write_text(f"7f00-7f01 r-xp 00000000 00:00 1 {library}\n")


def add_backend(view: Path, *, age_s: float) -> None:
    """Let there be a Triton with the Python backend."""
    add_process(view, 20, age_s=age_s, library="/opt/backends/python/libtriton_python.so")


def test_an_empty_folder_without_a_backend_is_an_orphan(folder: Path, processes: Path) -> None:
    assert cleanup.orphans(folder.parent, processes) == [folder]


def test_a_folder_older_than_every_backend_is_an_orphan(folder: Path, processes: Path) -> None:
    add_backend(processes, age_s=HOUR_S / 2)

    assert cleanup.orphans(folder.parent, processes) == [folder]


@pytest.mark.parametrize("age_s", [HOUR_S, 2 * HOUR_S])
def test_a_folder_that_a_backend_alive_may_have_made_stays(
    folder: Path, processes: Path, age_s: float
) -> None:
    add_backend(processes, age_s=age_s)

    assert cleanup.orphans(folder.parent, processes) == []


def test_a_folder_that_holds_something_stays(folder: Path, processes: Path) -> None:
    (folder / "0").mkdir()
    os.utime(folder, (0, 0))

    assert cleanup.orphans(folder.parent, processes) == []


@pytest.mark.parametrize("name", ["python_env_mine", "python_env_backups", "my_python_env_aB3xYz"])
def test_other_names_stay(folder: Path, processes: Path, name: str) -> None:
    folder.rename(folder.with_name(name))

    assert cleanup.orphans(folder.parent, processes) == []


def test_a_folder_of_another_user_stays(
    folder: Path, processes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)

    assert cleanup.orphans(folder.parent, processes) == []


def test_a_link_stays(folder: Path, processes: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")

    assert cleanup.orphans(folder.parent, processes) == []


@pytest.fixture
def own_backend(tmp_path: Path) -> Iterator[None]:
    """This process, as one that has the Python backend loaded."""
    library = tmp_path / "libtriton_python.so"
    library.write_bytes(b"\0" * mmap.PAGESIZE)
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        yield


def test_the_kernel_says_which_backends_are_alive_and_how_old_they_are(own_backend: None) -> None:
    own = psutil.Process().create_time()

    # psutil counts in whole clock ticks from a boot time in whole seconds.
    assert any(abs(started - own) < 1.5 for started in cleanup.backends_started())


def test_the_command_removes_orphans_with_the_standard_library_alone(folder: Path) -> None:
    os.utime(folder, (0, 0))  # older than every process
    command = [*cleanup.COMMAND, str(folder.parent)]

    done = subprocess.run(command, env={}, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not folder.exists()


def test_who_calls_it_is_told_what_was_removed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.utime(folder, (0, 0))

    assert cleanup.main([str(folder.parent)]) == 0
    assert str(folder) in capsys.readouterr().out
    assert cleanup.main([str(folder.parent)]) == 0
    assert "nothing" in capsys.readouterr().out


@pytest.mark.parametrize(("shut", "mode"), [("given", 0), ("given", 0o111), (".", 0)])
def test_a_folder_that_may_not_be_looked_into_is_refused(
    shut: str, mode: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    with closed(tmp_path / shut, mode), pytest.raises(SystemExit) as ended:
        cleanup.main([str(folder)])
    assert ended.value.code == 4
    assert str(folder) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--help"], 0, "FOLDER"),
        (["--folders"], 4, "--folders"),
        (["nowhere"], 4, "'nowhere' is no folder"),
        ([".", "more"], 4, "more"),
    ],
)
def test_asked_for_help_or_for_what_it_cannot_do_the_command_removes_nothing(
    folder: Path, arguments: list[str], status: int, said: str
) -> None:
    os.utime(folder, (0, 0))  # older than every process
    looks_there = [
        "-c",
        f"import sys; sys.path.insert(0, {str(Path(cleanup.__file__).parent)!r}); import cleanup; ",
    ]
    looks_there[1] += f"cleanup.FOLDERS = cleanup.Path({str(folder.parent)!r}); cleanup.main()"

    done = subprocess.run(
        [sys.executable, *looks_there, *arguments],
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == status
    assert said in done.stdout + done.stderr
    assert folder.exists()
