"""Scenarios: what each does to a run, and what must hold then."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from reports.run import STATUS
from tests.faults.place import Ended, Place

PASSED, ENDED, REFUSED = 0, 2, 4
INFRASTRUCTURE = STATUS["infrastructure"]


@dataclass(frozen=True)
class Scenario:
    """One fault, or one bad use."""

    name: str
    """What happens."""
    act: Callable[[Place], Ended]
    """Does it, and returns how the run ended. Raises AssertionError if it left something wrong."""
    statuses: tuple[int, ...]
    """The right exit statuses."""
    names: str = ""
    """What the run's output has to name: the option, file, server or holder at fault."""
    needs: Callable[[], str] = lambda: ""
    """Why this machine cannot do it; empty if it can."""
    may_leave: bool = False
    """Whether something may stay in the temporary folder for the next run, as after a guard was killed."""

    def __str__(self) -> str:
        return self.name


def root() -> str:
    """Needs root, who alone gives files away, mounts and becomes another user."""
    return "" if os.getuid() == 0 else "needs root"


def program(name: str) -> Callable[[], str]:
    """Needs a program."""
    return lambda: "" if shutil.which(name) else f"needs the program {name}"


def root_and(name: str) -> Callable[[], str]:
    """Needs root and a program."""
    return lambda: root() or program(name)()
