"""Reads what a server uses now: memory, shared memory, open files, threads, and its processes' GPU memory.

Memory is the private memory of the processes (RssAnon, and its swapped part): mapped files are the page
cache's, and shared memory is counted once.
"""

import contextlib
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tritonproof.base.errors import NotAvailableError
from tritonproof.host import guard, nvml
from tritonproof.host.machine import VISIBLE_GPUS
from tritonproof.host.scratch import SHARED_MEMORY_FOLDER
from tritonproof.serve.server import Server

PROCESSES = Path("/proc")
_STUB = b"triton_python_backend_stub"
"""The program of an instance of Triton's Python backend, each in a process of its own."""
_UNLOADING_S = 5.0
"""How long the stubs of an earlier loading get to end: one that never ends is a leak, which is to be read."""
_BLOCK = 512
"""Bytes of a block as stat counts blocks, whatever the file system."""
_STATUS = re.compile(rb"^(RssAnon|VmSwap|Threads):\s+(\d+)", re.MULTILINE)
"""Lines of /proc/PID/status, with memory in KiB (proc_pid_status(5))."""

Usage = Mapping[str, float]
"""How much is used of each visible resource of RESOURCE_UNITS, in its unit."""


@dataclass(frozen=True)
class ServerWatch:
    """A server whose use is read repeatedly."""

    pid: int
    """The ancestor of all of the server's processes."""
    process_count: int
    """How many processes the server had when the watch began."""
    gpus: tuple[nvml.GpuHandle, ...] = ()
    not_watched: tuple[str, ...] = ()
    """What cannot be seen of this server, and why, in sentences."""
    is_readable: bool = True
    """Whether this process may read the server processes' open files and memory maps; not another user's."""
    before: Collection[str] = frozenset()
    """The names of the shared-memory segments that existed when the watch began."""
    shared_memory_folder: Path = SHARED_MEMORY_FOLDER
    """The folder in which shared memory has its names, as this process sees it."""


def watch(server: Server) -> ServerWatch:
    """Begin to watch a server. Raises NotAvailableError if this process cannot see the server's processes."""
    pid = server.visible_pid()
    if pid is None or server.scratch is None:
        where = "in this container" if server.in_container else f"at {server.address}"
        what = f"the processes of the server {where} are not seen from here, so nothing says what they use"
        fix = "use --triton embedded or local, where the model and its backend are the same"
        raise NotAvailableError(what, fix=fix)
    missing = []
    gpus = nvml.visible_gpus(os.environ.get(VISIBLE_GPUS)) if server.device == "cuda" else ()
    if any(nvml.memory_of(nvml.processes_on(gpu) or {}, _family(pid)) is None for gpu in gpus):
        gpus = ()
    if server.device == "cuda" and not gpus:
        missing.append("GPU memory was not watched: NVML does not tell it of this server on its GPU")
    is_readable = all(os.access(PROCESSES / str(member) / "fd", os.R_OK) for member in _family(pid))
    if not is_readable:
        missing.append("open files and shared memory were not watched: its processes are another user's")
    has_own = server.in_container and is_readable  # a container may have a /dev/shm of its own
    folder = PROCESSES / str(pid) / "root/dev/shm" if has_own else SHARED_MEMORY_FOLDER
    before = frozenset(_segments(folder))
    return ServerWatch(pid, len(_family(pid)), gpus, tuple(missing), is_readable, before, folder)


def read_usage(watched: ServerWatch) -> Usage:
    """What the server uses now. A process that ends meanwhile does not count."""
    pids = _family(watched.pid)
    usage: defaultdict[str, float] = defaultdict(float, {"memory of the server": 0.0, "threads": 0.0})
    if watched.is_readable:
        usage |= {"shared memory": _shared_bytes(watched, pids), "open files": 0.0}
    for pid in pids:
        with contextlib.suppress(OSError, KeyError):
            folder = PROCESSES / str(pid)
            status = dict(_STATUS.findall((folder / "status").read_bytes()))
            is_stub = _STUB in (folder / "cmdline").read_bytes()
            private_kib = int(status[b"RssAnon"]) + int(status.get(b"VmSwap", 0))
            usage["memory of its stubs" if is_stub else "memory of the server"] += 1024 * private_kib
            usage["threads"] += int(status[b"Threads"])
            if watched.is_readable:
                usage["open files"] += sum(1 for _ in (folder / "fd").iterdir())
    used = [nvml.memory_of(nvml.processes_on(gpu) or {}, pids) for gpu in watched.gpus]
    if used and None not in used:
        usage["GPU memory"] = 2.0**20 * sum(filter(None, used))
    return dict(usage)


def read_usage_after_unloading(watched: ServerWatch) -> Usage:
    """What the server uses once the stubs of the loading before have ended, if they do so in time: Triton
    ends one after the other, in about a second each, while the new loading answers."""
    deadline = time.monotonic() + _UNLOADING_S
    while len(_family(watched.pid)) > watched.process_count and time.monotonic() < deadline:
        time.sleep(0.05)
    return read_usage(watched)


def _family(pid: int) -> list[int]:
    try:
        return [pid, *(process.pid for process in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []  # the server ended, which the load generator reports


def _shared_bytes(watched: ServerWatch, pids: Collection[int]) -> int:
    """Bytes of the segments that the server's processes map, and of new ones that no other program maps."""
    sizes, ours = _segments(watched.shared_memory_folder), _mapped(pids)
    if new := sizes.keys() - ours - set(watched.before):
        ours |= new - _mapped(set(psutil.pids()) - set(pids))
    return sum(size for name, size in sizes.items() if name in ours)


def _segments(folder: Path) -> dict[str, int]:
    """The bytes of this user's segments of shared memory, by name."""
    sizes = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError):  # gone meanwhile
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid():
                sizes[path.name] = status.st_blocks * _BLOCK
    return sizes


def _mapped(pids: Collection[int]) -> set[str]:
    """The names of the segments that these processes map, as far as they are this user's processes."""
    return {Path(path).name for path in guard.segments_mapped_by(pids)}
