"""What a server uses, read from real processes."""

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fake_nvml import Nvml
from tests.helpers import present
from tests.serve.programs import script
from tritonproof.base.errors import NotAvailableError
from tritonproof.host.scratch import SHARED_MEMORY_FOLDER
from tritonproof.measure.usage import read_usage, watch
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec

MIB = 2**20
SERVER = "tritonproof-unused"
PROGRAM = """\
import mmap, os, sys, threading
kept, name = [], sys.argv[1]
for line in sys.stdin:
    what = line.strip()
    if what == "memory":
        kept.append(os.urandom(8 << 20))
    elif what == "file":
        kept += [open(os.devnull) for _ in range(5)]
    elif what == "thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif what in ("segment", "mapped segment"):
        file = open(f"/dev/shm/{name}", "w+b")
        file.write(b"x" * (4 << 20))
        file.flush()
        if what == "mapped segment":
            kept.append(mmap.mmap(file.fileno(), 0))
        file.close()
    print("done", flush=True)
"""


@dataclass
class Program:
    """A program that uses more of a resource on command."""

    process: "subprocess.Popen[str]"

    def use(self, what: str) -> None:
        print(what, file=present(self.process.stdin), flush=True)
        assert present(self.process.stdout).readline() == "done\n"


Start = Callable[..., Program]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start such a program; after the test it and its shared memory are gone."""
    with contextlib.ExitStack() as stack:

        def run(*arguments: str) -> Program:
            segment = f"tritonproof-test-{uuid.uuid4().hex}"
            command = [sys.executable, "-c", PROGRAM, segment, *arguments]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback((SHARED_MEMORY_FOLDER / segment).unlink, missing_ok=True)
            stack.callback(process.communicate)
            program = Program(process)
            program.use("nothing")
            return program

        yield run


def server_of(pid: int | None, kind: Any = "embedded", **changes: Any) -> Server:
    fields: dict[str, Any] = {"scratch": Path("/tmp") / SERVER, "pid": pid}
    return Server(ServerSpec(kind), "127.0.0.1:1", "2.51.0", None, None, **(fields | changes))


def increases(server: Server, program: Program, *uses: str) -> dict[str, float]:
    """How much more a server uses once a program uses more."""
    watched = watch(server)
    before = read_usage(watched)
    for what in uses:
        program.use(what)
    after = read_usage(watched)
    return {name: after[name] - before[name] for name in before}


@pytest.mark.parametrize(
    ("what", "name", "least"),
    [
        ("memory", "memory of the server", 8 * MIB),
        ("file", "open files", 5),
        ("thread", "threads", 1),
        ("segment", "shared memory", 4 * MIB),
        ("mapped segment", "shared memory", 4 * MIB),
    ],
)
def test_each_resource_increase_is_seen_alone(what: str, name: str, least: int, start: Start) -> None:
    program = start()
    more = increases(server_of(program.process.pid), program, what)
    assert least <= more.pop(name) < 1.5 * least
    assert max(more.values()) < MIB


def test_segment_of_another_program_is_excluded(start: Start) -> None:
    server, other = start(), start()
    assert increases(server_of(server.process.pid), other, "mapped segment")["shared memory"] == 0


def test_gpu_memory_is_read_if_nvml_reports_it(start: Start, nvml: Nvml) -> None:
    pid = start().process.pid
    nvml.pids = lambda _handle: [pid, 1]
    reporting = watch(server_of(pid, device="cuda"))
    assert read_usage(reporting)["GPU memory"] == 5 * 2**30
    assert not reporting.not_watched

    for refused in ("nvmlDeviceGetComputeRunningProcesses", "usedGpuMemory", "this process"):
        nvml.refused = {refused}
        nvml.pids = lambda _handle: [1] if "this process" in nvml.refused else [pid, 1]
        assert "GPU memory" not in read_usage(reporting), "rather than 0"
        silent = watch(server_of(pid, device="cuda"))
        assert "GPU memory" not in read_usage(silent)
        assert len(silent.not_watched) == 1


def docker_that_says(pid: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a fake docker on the PATH that gives SERVER's first process this ID."""
    script(folder / "docker", f'[ "$1 $4" = "inspect {SERVER}" ] && echo {pid}')
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_container_is_watched_by_its_first_process(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = start(f"--id={SERVER}")
    docker_that_says(program.process.pid, tmp_path, monkeypatch)
    more = increases(server_of(None, "docker"), program, "memory", "segment")
    assert more["memory of the server"] >= 8 * MIB
    assert more["shared memory"] >= 4 * MIB


def test_unreadable_processes_limit_what_is_watched(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: not str(path).endswith("fd"))
    watched = watch(server_of(start().process.pid))
    assert set(read_usage(watched)) == {"memory of the server", "threads"}
    assert "open files and shared memory were not watched" in watched.not_watched[0]


def test_unseen_server_is_not_watched(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server elsewhere, and a container of another machine's engine, whose process has an id of this one."""
    with pytest.raises(NotAvailableError):
        watch(server_of(None, scratch=None))
    docker_that_says(start().process.pid, tmp_path, monkeypatch)
    with pytest.raises(NotAvailableError):
        watch(server_of(None, "docker"))
