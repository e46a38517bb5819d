"""What a scenario is: what is done to a run, and what must hold then."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from reports.run.outcomes import STATUS
from tests.faults.place import Ended, Place

PASSED, ENDED, REFUSED = 0, 2, 4
INFRASTRUCTURE = STATUS["infrastructure"]


@dataclass(frozen=True)
class Scenario:
    """One fault, or one bad use."""

    name: str
    """What is done."""
    act: Callable[[Place], Ended]
    """Does it, and returns how the run ended; an AssertionError says what it left in a wrong state."""
    statuses: tuple[int, ...]
    """The exit statuses that are right."""
    names: str = ""
    """What the run has to name: the option, the file, the server or the holder that is at fault."""
    needs: Callable[[], str] = lambda: ""
    """Why this machine cannot do it; empty where it can."""
    may_leave: bool = False
    """Whether something may stay in the temporary folder for the next run, as after a guard was killed."""

    def __str__(self) -> str:
        return self.name


def root() -> str:
    """Only root gives files away, mounts and becomes another user."""
    return "" if os.getuid() == 0 else "needs root"


def program(name: str) -> Callable[[], str]:
    """A program that has to be there."""
    return lambda: "" if shutil.which(name) else f"needs the program {name}"


def root_and(name: str) -> Callable[[], str]:
    """Root, and a program."""
    return lambda: root() or program(name)()
