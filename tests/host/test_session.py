"""How much a session stands back behind all others."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.host import session
from fixtures.host.cpu import niceness


@pytest.fixture
def sleeping() -> Iterator[int]:
    """The process that began a session, and sleeps."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process.pid
    process.kill()
    process.wait()


def test_a_session_stands_back_as_it_was_told_last(sleeping: int) -> None:
    of_session = Path(f"/proc/{sleeping}/autogroup")
    for wanted in (session.LARGEST_NICENESS, niceness(), session.LARGEST_NICENESS):
        session.stand_back(sleeping, wanted)

        assert not of_session.exists() or of_session.read_text().split()[-1] == str(max(0, wanted))
        if os.geteuid() == 0 or wanted == session.LARGEST_NICENESS:
            assert os.getpriority(os.PRIO_PROCESS, sleeping) == wanted


def test_a_session_that_has_ended_is_an_error() -> None:
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()

    with pytest.raises(ProcessLookupError):
        session.stand_back(process.pid, session.LARGEST_NICENESS)
