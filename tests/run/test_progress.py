"""Progress off a terminal: a few plain lines, and no failures."""

import threading
import time
import types

import pytest

from tests.helpers import wait_until
from tritonproof.run import progress as progress_module
from tritonproof.run.progress import Progress, lines_to


def test_plain_progress_shows_activities_once_and_some_details(monkeypatch: pytest.MonkeyPatch) -> None:
    now, lines = [1000.0], list[str]()
    stopped = types.SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _s: threading.Event().wait())
    monkeypatch.setattr(progress_module, "time", stopped)  # no second ticks by itself
    progress = Progress(lines.append)

    progress.say("convert")
    for done in range(100):
        now[0] += 0.1
        progress.say("evaluate", f"{done} of 100")

    first, *details = lines
    assert first == "convert"
    assert details[0] == "evaluate: 0 of 100"
    assert len(details) in (2, 3), "of ten seconds"


def test_plain_progress_repeats_long_activities_until_rest() -> None:
    lines: list[str] = []
    progress = Progress(lines.append, quiet_s=0.01)

    progress.say("load into Triton")

    wait_until(lambda: len(lines) >= 3, said=lambda: str(lines))
    assert all(line.startswith("load into Triton") for line in lines)
    progress.rest()
    written = len(lines)
    time.sleep(0.05)
    assert len(lines) == written


def test_lines_have_the_prefix(capfd: pytest.CaptureFixture[str]) -> None:
    lines_to(1, "[gw1] ")("convert")
    assert capfd.readouterr().out == "[gw1] convert\n"


def test_forgotten_progress_ends_its_thread() -> None:
    earlier = set(threading.enumerate())
    progress = Progress(print, quiet_s=0.01)
    (thread,) = set(threading.enumerate()) - earlier
    del progress
    thread.join(60)
    assert not thread.is_alive()
