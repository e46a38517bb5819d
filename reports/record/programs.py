"""Runs a program for what it prints, of which no more is kept than any of them says, for no longer than it should take."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LARGEST_OUTPUT_BYTES = 16 * 2**20
"""Bytes of what a program prints to either output; git's list of a checkout of 100,000 files has some 6 MiB."""
_PART = 65536


@dataclass(frozen=True)
class Ended:
    """A program that has ended by itself."""

    status: int
    """Its exit status; of one that a signal ended the signal's number, below 0."""
    output: bytes
    """What it printed to its standard output."""
    errors: bytes
    """What it printed to its standard error."""

    @property
    def text(self) -> str:
        """Its standard output, whatever bytes are in it."""
        return self.output.decode(errors="replace")

    @property
    def error_text(self) -> str:
        """Its standard error, whatever bytes are in it."""
        return self.errors.decode(errors="replace")


class ProgramError(Exception):
    """A program that cannot be started, does not end, or prints without end; a sentence that says which."""


def run(
    command: Sequence[str],
    *,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
    largest_bytes: int = LARGEST_OUTPUT_BYTES,
) -> Ended:
    """Run a program that asks for nothing until it ends, by default in this process's environment.

    Raises ProgramError where it cannot be started, takes longer than `limit_s` seconds, or prints more than
    `largest_bytes`; nothing of it runs any more then.
    """
    name = Path(command[0]).name
    deadline = time.monotonic() + limit_s
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if environment is None else dict(environment),
            start_new_session=True,  # to be ended with all that it has started
        )
    except (OSError, ValueError) as error:  # a ValueError of an argument that no program can be given
        raise ProgramError(
            f"{name} cannot be started: {getattr(error, 'strerror', None) or error}"
        ) from error
    try:
        outputs = _read(process, deadline, largest_bytes)
        status = process.wait(max(0.0, deadline - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise ProgramError(f"{name} did not end within {limit_s:g} s") from None
    except OverflowError:
        raise ProgramError(f"{name} printed more than {largest_bytes / 2**20:g} MiB") from None
    finally:
        _end(process)
    return Ended(status, *outputs)


def _read(process: "subprocess.Popen[bytes]", deadline: float, largest_bytes: int) -> tuple[bytes, bytes]:
    """What a program prints to both of its outputs until they are closed. Raises TimeoutError and OverflowError."""
    assert process.stdout is not None
    assert process.stderr is not None
    pipes = (process.stdout, process.stderr)
    found = {pipe.fileno(): bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe.fileno(), selectors.EVENT_READ)
        while selector.get_map():
            if (left_s := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            for key, _ in selector.select(left_s):
                part = os.read(key.fd, _PART)
                found[key.fd] += part
                if len(found[key.fd]) > largest_bytes:
                    raise OverflowError
                if not part:
                    selector.unregister(key.fd)
    first, second = (bytes(found[pipe.fileno()]) for pipe in pipes)
    return first, second


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a program that has not been waited for, with all that it has started."""
    if process.returncode is None:  # so its number is nobody else's, though it may have ended
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
