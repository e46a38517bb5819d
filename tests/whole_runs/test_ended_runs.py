"""A killed or interrupted run leaves its record and nothing else."""

import signal
from pathlib import Path

import psutil
import pytest

from tests.helpers import Household, program_name, wait_until
from tests.whole_runs.suite import FAST, GIVEN, Run, command


def segments_of(processes: list[psutil.Process]) -> set[tuple[Path, int]]:
    """The shared-memory segments that processes have mapped, each with its inode: another run, which may
    start as soon as this one ends, uses the same names."""
    segments: set[tuple[Path, int]] = set()
    for process in processes:
        try:
            lines = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        except OSError:
            continue
        shared = [line for line in lines if "/dev/shm/" in line]
        segments.update((Path(line[line.index("/dev/shm/") :]), int(line.split()[4])) for line in shared)
    return {segment for segment in segments if is_there(*segment)}


def is_there(path: Path, inode: int) -> bool:
    try:
        return path.stat().st_ino == inode
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=lambda how: how.name)
def test_ended_run_leaves_no_process_and_keeps_measurements(
    how: signal.Signals, given: tuple[str, ...], household: Household, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    # The signal comes in the middle of its passes.
    precise = ("--interval-target", "0.01", "--point-budget-s", "60")
    selected = (*given, "-v", "-k", f"{GIVEN} and (accuracy or online)", *FAST[4:])
    words = command(*selected, *precise, repos=tmp_path / "repos", results=tmp_path)
    run = household.start(words, log)
    path = tmp_path / "cpu" / f"{GIVEN}.json"
    wait_until(lambda: path.is_file() and '"unfinished"' in path.read_text(), 600, log.read_text)
    started, segments = list[psutil.Process](), set[tuple[Path, int]]()

    def is_under_load() -> bool:
        nonlocal started, segments
        started = psutil.Process(run.pid).children(recursive=True)
        segments = segments_of(started)
        return any(path.name.startswith("NUMBERS") for path, _ in segments)

    wait_until(is_under_load, 600, log.read_text)
    names = {program_name(process) for process in started}
    assert "tritonserver" in names, log.read_text()
    assert len(segments) > 1, "those of the server, and those of the load generator"
    run.send_signal(how)
    run.wait(timeout=300)
    _, alive = psutil.wait_procs(started, timeout=120)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    record = Run(run.returncode, log.read_text(), tmp_path).record(GIVEN)
    assert record.accuracy is not None
    (result,) = record.points
    assert result.marks[0].code == "unfinished"
    assert len(result.passes) > 1
    assert not [path.name for path, inode in segments if is_there(path, inode)]
    assert not [*household.temporary.glob("*/runs/*")]
