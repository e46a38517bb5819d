"""Runs programs: for their output, or under the guard, so that nothing of them outlives this process; and
reads the ends of their logs. They get only the variables by which they find files and compute: models, and
programs that load and serve models, are other people's code, which must not see the caller's tokens."""

import contextlib
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from tritonproof.base import disk
from tritonproof.base.sanitize import cut, visible
from tritonproof.host import guard

EXTRA_VARIABLES = "TRITONPROOF_SERVER_ENV"
"""The variable with the names, separated by commas, of further variables to hand on, even secrets."""

_EVERY_PROGRAM = (
    # Where programs, libraries and files are found; another allocator comes by LD_PRELOAD.
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "HOME", "TMPDIR"),
    # Text and time in logs; PyTorch's temporary folder is called after the user.
    *("LANG", "LANGUAGE", "LC_*", "TZ", "USER", "LOGNAME"),
    # Threads and memory, which decide the speed: served and in process, a model has the caller's settings.
    *("OMP_*", "GOMP_*", "KMP_*", "MKL_*", "DNNL_*", "ONEDNN_*", "OPENBLAS_*", "ATEN_*"),
    *("MALLOC_*", "GLIBC_TUNABLES", "TCMALLOC_*"),
    # The frameworks' own switches.
    *("ORT_*", "TF_*", "XLA_*", "TORCH*", "PYTORCH_*"),
    # The driver and CUDA. UCX_MEM_EVENTS is set by NVIDIA's image for its Triton.
    *("CUDA_*", "CUDNN_*", "CUBLAS_*", "NVIDIA_*", "NCCL_*", "UCX_*"),
)
PROXIES = ("*_proxy", "*_PROXY")
"""Patterns of variables for programs that reach other hosts; a proxy's address may contain a password."""
DOCKER_VARIABLES = (
    # The engine and how to reach it; where docker keeps the logins of registries.
    *("DOCKER_*", "SSH_AUTH_SOCK", "XDG_*", "DBUS_SESSION_BUS_ADDRESS"),
    *PROXIES,
)
"""Patterns of variables for docker's client, which hands none of them to the container."""
CHECKOUT_VARIABLES = (
    # The suite's own.
    "TRITONPROOF_*",
    # Compilers, with what they find; the certificates of a proxy.
    *("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "*INCLUDE_PATH", "LIBRARY_PATH"),
    *("SSL_CERT_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *PROXIES,
)
"""Patterns of variables for a checkout of this suite that builds a case: about what tox hands on."""
_SECRET = re.compile("TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|KEY|CREDENTIAL", re.IGNORECASE)


def minimal_environment(extra: Collection[str] = ()) -> dict[str, str]:
    """The variables of this process that every program gets, with those that match a pattern in `extra`, but
    without any whose name says that it is a secret, unless TRITONPROOF_SERVER_ENV names it. Python writes no
    bytecode: beside a model, bytecode would be code that the digest does not cover."""
    named = {name.strip() for name in os.environ.get(EXTRA_VARIABLES, "").split(",")}
    patterns = (*_EVERY_PROGRAM, *extra)
    variables = {
        name: value
        for name, value in os.environ.items()
        if name in named
        or (any(fnmatchcase(name, pattern) for pattern in patterns) and _SECRET.search(name) is None)
    }
    return variables | {"PYTHONDONTWRITEBYTECODE": "1"}


PRIVATE_UMASK = 0o077
"""The umask of servers and load generators, as requests' tensors have names in /dev/shm."""
_CLEANING_S = 30.0
"""Seconds for the guard to end its command and to clean up: far more than that takes."""


@dataclass(frozen=True)
class ProgramResult:
    """A program that ended by itself."""

    status: int
    """The program's exit status, or the negative number of the signal that ended it."""
    output: bytes
    error_text: str

    @property
    def text(self) -> str:
        return self.output.decode(errors="replace")


class ProgramError(Exception):
    """A program cannot be started, does not end, or fails: a sentence that says which."""


def run_program(
    command: Sequence[str], *, limit_s: float, environment: Mapping[str, str] | None = None
) -> ProgramResult:
    """Run a program without input until it ends, by default in this process's environment. Raises
    ProgramError if it cannot be started, or is killed because it did not end within `limit_s` seconds."""
    name = Path(command[0]).name
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # so that it can be killed with all that it started
        )
    except OSError as error:
        raise ProgramError(f"{name} cannot be started: {error.strerror}") from error
    with process:
        try:
            output, errors = process.communicate(timeout=limit_s)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ProgramError(f"{name} did not end within {limit_s:g} s") from None
            raise
    return ProgramResult(process.returncode, output, errors.decode(errors="replace"))


def output_of(command: Sequence[str], *, limit_s: float) -> bytes:
    """The output of a program. Raises ProgramError, with the program's own message, if it fails."""
    ended = run_program(command, limit_s=limit_s)
    if ended.status:
        raise ProgramError(ended.error_text.strip() or f"it {how_ended(ended.status)}")
    return ended.output


_GUARD = (
    f"import sys; sys.path.append({str(Path(guard.__file__).parent)!r}); import guard; sys.exit(guard.main())"
)
"""The guard as a module, which Python keeps compiled: as a script it took 45 ms to start, as a module 32."""


@contextlib.contextmanager
def guarded(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: IO[bytes],
    grace_s: float,
    segments: Sequence[str] = (),
    remove: Path | None = None,
    cleanup: Sequence[str] = (),
    folder: Path | None = None,
    umask: int = -1,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `command` in a session of its own, in `folder` if given; the yielded process has its exit status.

    At the end of the block, or when this process dies in whatever way, the command gets SIGTERM, and
    `grace_s` seconds later SIGKILL with all its descendants. Then shared-memory segments that it used, or
    whose whole names match one of the regular expressions `segments`, are removed unless another process uses
    them, and so is the folder `remove`. The command `cleanup` runs last, for what is not below this process.
    A command that cannot be started ends with status 127 and the reason in `output`.
    """
    started = time.time()
    what_to_remove = {
        "--segment": list(segments),
        "--remove": [] if remove is None else [str(remove)],
        "--cleanup": [shlex.join(cleanup)] if cleanup else [],
    }
    options = ["--caller", str(os.getpid()), "--grace-s", str(grace_s)]
    options += [word for name, values in what_to_remove.items() for value in values for word in (name, value)]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _GUARD, *options, "--", *command],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        start_new_session=True,
        cwd=folder,
        umask=umask,
    )
    try:
        yield process
    finally:
        stop(process, grace_s)
        if process.returncode < 0:
            # The guard was killed, and the command with it. What the command started is in its group.
            deadline = time.monotonic() + guard.KILL_S
            with contextlib.suppress(ProcessLookupError):
                while time.monotonic() < deadline:
                    os.killpg(process.pid, signal.SIGKILL)
                    time.sleep(0.02)
            guard.clean_up(what_to_remove, (), started)


def stop(process: "subprocess.Popen[bytes]", grace_s: float = 0.0) -> None:
    """End a command of `guarded`, perhaps before its block ends, and wait until all is cleaned up."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        wait(process, grace_s + _CLEANING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait(process: "subprocess.Popen[bytes]", limit_s: float) -> int:
    """The exit status of a process as soon as it ends: `Popen.wait` with a limit looks only every 50 ms.
    Raises subprocess.TimeoutExpired if it does not end within `limit_s` seconds."""
    if process.poll() is None:
        ended = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(ended, select.POLLIN)
            poll.poll(1e3 * limit_s)
        finally:
            os.close(ended)
    if (status := process.poll()) is None:
        raise subprocess.TimeoutExpired(process.args, limit_s)
    return status


def how_ended(status: int) -> str:
    """`ended with status 1`, or for the status of a program that a signal ended `was ended by SIGKILL`."""
    try:
        # Popen negates the number of the signal; a shell, Docker and the guard add 128 to it.
        name = signal.Signals(-status if status < 0 else status - 128).name
    except ValueError:
        return f"ended with status {status}"
    return f"was ended by {name}" + (", as where memory runs out" if name == "SIGKILL" else "")


_READ_BYTES = 64 * 1024
"""Bytes read from the end of a log: a verbose server writes gigabytes, and errors show its last words."""


def log_end(log: Path | IO[bytes]) -> str:
    """The last lines of a log, or of an open file whose position stays, safe to show; perhaps empty."""
    try:
        with disk.opened(log) if isinstance(log, Path) else contextlib.nullcontext(log) as file:
            start = max(0, os.fstat(file.fileno()).st_size - _READ_BYTES)
            tail = os.pread(file.fileno(), _READ_BYTES, start)
    except OSError:
        return ""
    whole_lines = tail.partition(b"\n")[2] if start and b"\n" in tail else tail
    return visible(whole_lines.decode(errors="replace"))


def last_lines(log: Path | IO[bytes], count: int) -> list[str]:
    """The last lines of a log that are not blank, at most `count`."""
    return [line for line in log_end(log).splitlines() if line.strip()][-count:]


def indented_lines(lines: Iterable[str]) -> str:
    """Another program's lines, shortened if long, to stand below an error's sentence; empty without lines."""
    return "".join(f"\n  | {cut(line)}" for line in lines)
