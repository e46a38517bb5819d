"""Progress: a rewritten line on a terminal, a few plain lines elsewhere, and no failures."""

import fcntl
import os
import re
import struct
import termios
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import wait_until
from tritonproof.run import narrator
from tritonproof.run.narrator import Narrator

Clock = Callable[[float], None]
Plain = Callable[..., tuple[Narrator, Callable[[], str]]]
Live = Callable[..., tuple[Narrator, "Terminal"]]


class Terminal:
    """A pseudo-terminal, and what a reader sees on it."""

    def __init__(self, columns: int) -> None:
        self.read_end, self.write_end = os.openpty()
        fcntl.ioctl(self.write_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.set_blocking(self.read_end, False)
        self.lines = [""]
        self.row, self.column = 0, 0

    def seen(self) -> list[str]:
        """The lines on the screen after all output of pytest and the narrator."""
        for control, text in re.findall(r"(\r|\n|\x1b\[\d*[A-Zm])|([^\r\n\x1b]+)", self._written()):
            self._take(control, text)
        return list(self.lines)

    def _take(self, control: str, text: str) -> None:
        if control == "\r":
            self.column = 0
        elif control == "\n":
            self.row, self.column = self.row + 1, 0
            self.lines += [""] * (self.row + 1 - len(self.lines))
        elif control == "\x1b[1A":
            self.row -= 1
        elif control == "\x1b[2K":
            self.lines[self.row] = ""
        elif text:
            line, end = self.lines[self.row], self.column + len(text)
            self.lines[self.row], self.column = line[: self.column] + text + line[end:], end

    def by_pytest(self, text: str) -> None:
        """Write as pytest does."""
        os.write(self.write_end, text.encode())

    def _written(self) -> str:
        """The output since the last call, with the terminal's line ends undone."""
        parts = []
        while True:
            try:
                parts.append(os.read(self.read_end, 65536))
            except BlockingIOError:
                return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stop the narrator's clock; the returned function advances it. No second ticks by itself."""
    now = [1000.0]

    def advance(seconds: float) -> None:
        now[0] += seconds

    stopped = types.SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _s: threading.Event().wait())
    monkeypatch.setattr(narrator, "time", stopped)
    return advance


@pytest.fixture
def reporter() -> types.SimpleNamespace:
    """The part of pytest's reporter that the narrator uses: the line it has begun, and its verbosity."""
    return types.SimpleNamespace(currentfspath=None, verbosity=1)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Plain]:
    """Start a narrator of plain lines, as `plain(prefix="[gw1] ")`; also returns a reader of it."""
    path = tmp_path / "out"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    started: list[Narrator] = []

    def start(**options: Any) -> tuple[Narrator, Callable[[], str]]:
        started.append(Narrator(descriptor, **{"live": False, **options}))
        return started[-1], path.read_text

    yield start
    for progress in started:
        progress.rest()  # before its descriptor is closed, since it writes by itself
    os.close(descriptor)


@pytest.fixture
def live(reporter: types.SimpleNamespace) -> Iterator[Live]:
    """Start a narrator on a terminal of so many columns, beside pytest's reporter; returns both."""
    started: list[tuple[Narrator, Terminal]] = []

    def start(columns: int = 80) -> tuple[Narrator, Terminal]:
        screen = Terminal(columns)
        started.append((Narrator(screen.write_end, live=True, reporter=reporter), screen))
        return started[-1]

    yield start
    for progress, screen in started:
        progress.rest()
        os.close(screen.read_end)
        os.close(screen.write_end)


# --- plain lines -------------------------------------------------------------------------------------------


def test_plain_progress_shows_steps_once_and_some_details(plain: Plain, clock: Clock) -> None:
    progress, text = plain(prefix="[gw1] ")

    progress.say("convert")
    for done in range(100):
        clock(0.1)
        progress.say("evaluate", f"{done} of 100")

    first, *details = text().splitlines()
    assert first == "[gw1] convert"
    assert details[0] == "[gw1] evaluate: 0 of 100"
    assert len(details) in (2, 3), "of ten seconds"


def test_plain_progress_repeats_long_steps_until_rest(plain: Plain) -> None:
    progress, text = plain(quiet_s=0.01)

    progress.say("load into Triton")

    wait_until(lambda: len(text().splitlines()) >= 3, said=text)
    assert all(line.startswith("load into Triton") for line in text().splitlines())
    progress.rest()
    written = text()
    time.sleep(0.05)
    assert text() == written


def test_plain_lines_start_on_a_new_line(plain: Plain, reporter: types.SimpleNamespace) -> None:
    reporter.currentfspath = "tests/test_a.py"
    progress, text = plain(reporter=reporter)

    progress.say("convert")

    assert text() == "\n  convert"
    assert reporter.currentfspath is None, "pytest writes the name of its file again"


# --- the live line -----------------------------------------------------------------------------------------


def test_note_stays_and_rest_clears_the_line(live: Live) -> None:
    progress, screen = live()
    screen.by_pytest("collected 2 items\n")

    progress.say("convert")
    progress.note("built in 3 s")
    progress.say("compare")
    progress.rest()
    progress.rest()
    screen.by_pytest("\ntest_a PASSED")

    assert screen.seen() == ["collected 2 items", "  built in 3 s", "test_a PASSED"]


@pytest.mark.parametrize(
    ("verbosity", "left"),
    [
        pytest.param(1, [], id="a name alone, which comes again with its outcome"),
        pytest.param(0, ["tests/test_a.py .."], id="outcomes, which stay"),
    ],
)
def test_live_progress_leaves_started_line_alone(
    live: Live, reporter: types.SimpleNamespace, verbosity: int, left: list[str]
) -> None:
    progress, screen = live()
    screen.by_pytest("tests/test_a.py ..")
    reporter.currentfspath, reporter.verbosity = "tests/test_a.py", verbosity

    progress.say("convert")

    assert screen.seen() == [*left, "  convert 0 s"]


@pytest.mark.parametrize("columns", [0, 1, 5, 20, 79])
def test_long_line_is_cut_at_its_beginning(live: Live, columns: int) -> None:
    progress, screen = live(columns)

    progress.say(
        "cpu-resnet50-micro-onnx-fp32: measure online", "b001-c032 pass 3, 0 of 1 points, 400.0 infer/s"
    )

    (shown,) = screen.seen()
    assert shown.endswith(" 0 s")
    assert len(shown) <= max((columns or 80) - 1, len(" 0 s"))
    assert columns not in (0, 79) or "fp32: measure online: b001-c032" in shown


@pytest.mark.parametrize("is_live", [True, False])
def test_closed_output_does_not_fail_the_run(is_live: bool, reporter: types.SimpleNamespace) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)

    progress = Narrator(write_end, live=is_live, reporter=reporter)
    progress.say("convert")
    progress.note("built")
    progress.rest()

    os.close(write_end)


def test_forgotten_narrator_ends_its_thread() -> None:
    earlier = set(threading.enumerate())
    progress = Narrator(2, live=False, quiet_s=0.01)
    (thread,) = set(threading.enumerate()) - earlier

    del progress
    thread.join(60)
    assert not thread.is_alive()
