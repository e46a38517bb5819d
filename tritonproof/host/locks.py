"""The lock of the machine, which all users and runs share; and locks of folders and files."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tritonproof.base.sanitize import one_line
from tritonproof.host.scratch import SHARED_MEMORY_FOLDER

MACHINE_LOCK = SHARED_MEMORY_FOLDER
"""The folder whose lock is the machine's: all load generators share its names for shared memory, whatever
TMPDIR is. Every user can open it and nobody can remove it, so its lock needs no file."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_held: dict[Path, bool] = {}
"""The folders whose lock this process has, and whether it has it exclusively."""


@contextlib.contextmanager
def hold_machine(
    *, exclusive: bool, on_wait: Callable[[str], None] = lambda _holder: None, folder: Path | None = None
) -> Iterator[None]:
    """Lock the machine, or in its place a `folder`: exclusively to measure speed, which everything beside it
    changes, else shared. Requests to share the lock do not overtake an earlier exclusive one, and the kernel
    frees the lock of a process that dies. A process may lock again, but not exclusively while it shares the
    lock. It must start no process that locks the same: both might wait for ever. `on_wait` gets a description
    of who has the lock, before a wait; an exception from it ends the attempt."""
    folder = folder or MACHINE_LOCK
    if (held_exclusively := _held.get(folder)) is not None:
        assert held_exclusively or not exclusive, "a shared lock cannot become an exclusive one"
        yield
        return
    operation = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    with _unlocking(os.open(folder, _FOLDER)) as lock:
        # The kernel gives a free lock to any process, and a shared one to each that asks. So processes queue
        # by a second lock until they have the first: whoever waits with it holds up all who come later.
        with _unlocking(os.open(folder.parent, _FOLDER)) as turn:
            _wait_for((turn, lock), operation, on_wait)
        _held[folder] = exclusive
        try:
            yield
        finally:
            del _held[folder]


@contextlib.contextmanager
def hold_path(path: Path, *, on_wait: Callable[[str], None] = lambda _holder: None) -> Iterator[None]:
    """Lock a path, which need not exist, by the file `.NAME.lock` beside it, which is created and stays."""
    file, flags = path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # NFS gives an exclusive lock only on a file that is open for writing.
        descriptor = os.open(file, flags | os.O_RDWR, 0o644)
    except PermissionError:  # another user's
        descriptor = os.open(file, flags | os.O_RDONLY, 0o644)
    with _unlocking(descriptor):
        _wait_for((descriptor,), fcntl.LOCK_EX, on_wait)
        yield


@contextlib.contextmanager
def _unlocking(descriptor: int) -> Iterator[int]:
    """Unlock an open file at the end before closing it: a child forked meanwhile has it open too."""
    try:
        yield descriptor
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _wait_for(files: Sequence[int], operation: int, on_wait: Callable[[str], None]) -> None:
    """Lock open `files` in turn; before a wait, tell `on_wait` who holds the last, or else another one."""
    for index, file in enumerate(files):
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            others = (set(holders(os.fstat(one))) - {os.getpid()} for one in reversed(files))
            names = map(describe_process, sorted(next(filter(None, others), ())))
            on_wait(", ".join(names) or "a process that is not seen from here")
            for remaining in files[index:]:
                fcntl.flock(remaining, operation)
            return


def holders(status: os.stat_result, table: str | None = None) -> list[int]:
    """The ids of the processes that have locked a file or folder, by /proc/locks; none in a container."""
    if table is None:
        with contextlib.suppress(OSError):
            table = Path("/proc/locks").read_text()
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    rows = (line.split() for line in (table or "").splitlines())
    pids = [int(row[4]) for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5] == inode]
    return list(dict.fromkeys(pids))


def describe_process(pid: int) -> str:
    """A process in a line: its id, user, start and command, as far as these can be seen."""
    import psutil

    text = f"process {pid}"
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(process.create_time()))
        text += f" of {process.username()}, running since {since}"
        text += f" ({one_line(' '.join(process.cmdline()), 100)})"
    return text
