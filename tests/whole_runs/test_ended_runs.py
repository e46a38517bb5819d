"""What stays of a run that was killed or interrupted: its record, and nothing else."""

import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import program_name
from tests.whole_runs.suite import FAST, ONNX, ROOT, Run, command


def below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def segments_of(processes: list[psutil.Process]) -> set[tuple[Path, int]]:
    """The segments of shared memory that processes have mapped, each with its inode: the next run on the machine, which may
    have waited for this one to end, gives its own the same names."""
    found: set[tuple[Path, int]] = set()
    for process in processes:
        try:
            lines = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        except OSError:
            continue
        found.update(
            (Path(line[line.index("/dev/shm/") :]), int(line.split()[4]))
            for line in lines
            if "/dev/shm/" in line
        )
    return {one for one in found if is_there(*one)}


def is_there(path: Path, inode: int) -> bool:
    try:
        return path.stat().st_ino == inode
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "how",
    [signal.SIGKILL, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.campaign)],
    ids=lambda how: how.name,
)
def test_a_run_that_is_ended_leaves_no_process_and_what_it_had_measured(
    how: signal.Signals, repos: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("w") as output:
        run = subprocess.Popen(
            command(
                *("-v", "-k", f"{ONNX} and (accuracy or online)", *FAST[4:], "--point-budget-s", "60"),
                repos=repos,
                results=tmp_path,
            ),
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + 600  # bounds a hang
    path = tmp_path / "cpu" / f"{ONNX}.json"
    while time.monotonic() < deadline and not (path.is_file() and '"unfinished"' in path.read_text()):
        time.sleep(0.05)
    started, segments = below(run.pid), set[tuple[Path, int]]()
    while time.monotonic() < deadline and not any(path.name.startswith("INPUT") for path, _ in segments):
        started = below(run.pid)
        segments = segments_of(started)
    names = {program_name(process) for process in started}
    assert "tritonserver" in names, log.read_text()
    assert len(segments) > 1, "those of the server, and those of the load generator"
    run.send_signal(how)
    run.wait(timeout=300)
    _, alive = psutil.wait_procs(started, timeout=120)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    found = Run(run.returncode, log.read_text(), tmp_path).record(ONNX)
    assert found.accuracy is not None
    (load,) = found.loads
    assert load.marks[0].code == "unfinished"
    assert len(load.passes) > 1
    assert not [path.name for path, inode in segments if is_there(path, inode)]
