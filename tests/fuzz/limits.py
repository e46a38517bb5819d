"""Limits on reading a file, and the form of a refusal."""

import contextlib
import re
import resource
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

LARGEST_MIB = 1024
"""Memory that reading one small file may add to the process. The largest correct file of the tests becomes a
volume of 128^3 voxels in four modalities, 32 MiB, with some copies and a loaded library."""
LONGEST_CPU_S = 20
"""Seconds of CPU time of this process; no example takes one, however busy the machine is."""
LONGEST_MESSAGE = 5000
"""Characters, with the path of a test's file: two screens of a terminal."""
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys and a reader does not see: control characters, halves of pairs, marks of
direction."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """More memory raises MemoryError in the block, and more CPU time raises TimeoutError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (_taken_bytes() + LARGEST_MIB * 2**20, hard))
    signal.setitimer(signal.ITIMER_PROF, LONGEST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)


def _taken_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - read at each example
        return int(file.read().split()[0]) * resource.getpagesize()


def _too_long(_signal: int, _frame: FrameType | None) -> Any:
    raise TimeoutError(f"reading took more than {LONGEST_CPU_S} s of work")


def check_refusal(error: BaseException, names: str, *, may_ask: bool = False) -> None:
    """Assert that a refusal is readable: it names the fault, is short, and nothing in it acts on a terminal.
    Only with `may_ask` may it come from a failed allocation."""
    text = str(error)
    assert names in text, f"it does not name {names}: {text[:300]!r}"
    assert len(text) <= LONGEST_MESSAGE, f"{len(text):,} characters: {text[:300]!r}"
    assert not _ACTING.search(text), f"it holds {set(_ACTING.findall(text))}: {text[:300]!r}"
    sentence, *rest = text.splitlines()
    assert sentence.strip(), "it says nothing"
    assert all(line.startswith(("  where: ", "  fix:  ")) for line in rest), (
        f"more than a sentence: {text[:500]!r}"
    )
    assert may_ask or not _ran_out_of_memory(error), (
        f"it was refused after the memory was asked for: {text[:300]!r}"
    )


def _ran_out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError) or "allocate memory" in str(error) or "bad_alloc" in str(error):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False
