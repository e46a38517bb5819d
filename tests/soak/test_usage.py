"""Resources of a server: memory, shared memory, open files, threads and GPU memory."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures.errors import NotAvailableError
from fixtures.host import nvml
from fixtures.serve.server import Server
from fixtures.soak.usage import MEMORY, Usage, usage_of, watch
from tests.host.fake_nvml import Nvml

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
    """A program that uses more of something when it is told to."""

    process: "subprocess.Popen[str]"

    def use(self, what: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(what, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    """Start such a program; it, and its segment of shared memory, are gone after the test."""
    started: list[subprocess.Popen[str]] = []
    name = f"tritonproof-test-{uuid.uuid4().hex}"

    def run(*arguments: str) -> Program:
        command = [sys.executable, "-c", PROGRAM, f"{name}-{len(started)}", *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        program = Program(started[-1])
        program.use("nothing")
        return program

    yield run
    for place, one in enumerate(started):
        one.communicate()
        (MEMORY / f"{name}-{place}").unlink(missing_ok=True)


def server_of(pid: int | None, **changes: Any) -> Server:
    fields: dict[str, Any] = {"scratch": Path("/tmp") / SERVER, "pid": pid}
    return Server("embedded", "127.0.0.1:1", "2.51.0", None, None, **(fields | changes))


def grown(before: Usage, after: Usage) -> dict[str, float]:
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
def test_each_resource_increase_is_seen_alone(
    what: str, name: str, least: int, start: Callable[..., Program]
) -> None:
    program = start()
    watched = watch(server_of(program.process.pid))
    before = usage_of(watched)

    program.use(what)

    found = grown(before, usage_of(watched))
    assert least <= found.pop(name) < 1.5 * least
    assert max(found.values()) < MIB


def test_segment_of_another_program_is_excluded(start: Callable[..., Program]) -> None:
    server, other = start(), start()
    watched = watch(server_of(server.process.pid))
    before = usage_of(watched)

    other.use("mapped segment")

    assert grown(before, usage_of(watched))["shared memory"] == 0


def test_gpu_memory_is_read_if_nvml_reports_it(
    start: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Nvml(lambda: 0.0)
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    nvml.visible_gpus.cache_clear()
    try:
        server = start().process.pid
        driver.pids = lambda _handle: [server, 1]
        told = watch(server_of(server, device="cuda"))
        assert usage_of(told)["GPU memory"] == 5 * 2**30
        assert not told.not_watched

        for refused in ("nvmlDeviceGetComputeRunningProcesses", "usedGpuMemory"):
            driver.refused = {refused}
            silent = watch(server_of(server, device="cuda"))
            assert "GPU memory" not in usage_of(silent)
            assert len(silent.not_watched) == 1
    finally:
        nvml.visible_gpus.cache_clear()


def docker_that_says(pid: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A docker client whose engine gives every container's first process this number."""
    program = folder / "docker"
    program.write_text(f'#!/bin/sh\n[ "$1 $4" = "inspect {SERVER}" ] && echo {pid}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def container() -> Server:
    return Server("docker", "127.0.0.1:1", "2.51.0", None, None, scratch=Path("/tmp") / SERVER)


def test_container_is_watched_by_its_first_process(
    start: Callable[..., Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = start(f"--id={SERVER}")
    docker_that_says(program.process.pid, tmp_path, monkeypatch)
    watched = watch(container())
    before = usage_of(watched)

    program.use("memory")
    program.use("segment")

    found = grown(before, usage_of(watched))
    assert found["memory of the server"] >= 8 * MIB
    assert found["shared memory"] >= 4 * MIB


def test_unreadable_processes_limit_what_is_watched(
    start: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: not str(path).endswith("fd"))

    watched = watch(server_of(start().process.pid))

    assert set(usage_of(watched)) == {"memory of the server", "threads"}
    assert "open files and shared memory were not watched" in watched.not_watched[0]


def test_invisible_server_is_not_soaked() -> None:
    with pytest.raises(NotAvailableError):
        watch(server_of(None, scratch=None))


def test_container_of_remote_engine_is_not_watched(
    start: Callable[..., Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker_that_says(start().process.pid, tmp_path, monkeypatch)

    with pytest.raises(NotAvailableError):
        watch(container())
