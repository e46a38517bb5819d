"""Progress on pytest's terminal: a rewritten line, or plain ones off a terminal, and no failures."""

import fcntl
import os
import re
import struct
import termios
import types
from collections.abc import Callable, Iterator

import pytest

from fixtures.live_progress import PytestTerminal
from tritonproof.run.progress import Progress

Live = Callable[..., tuple[Progress, PytestTerminal, "Screen"]]


class Screen:
    """A pseudo-terminal, and what a reader sees on it."""

    def __init__(self, columns: int) -> None:
        self.read_end, self.write_end = os.openpty()
        fcntl.ioctl(self.write_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.set_blocking(self.read_end, False)
        self.lines = [""]
        self.row, self.column = 0, 0

    def seen(self) -> list[str]:
        """The lines on the screen after all output of pytest and of progress."""
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
def reporter() -> types.SimpleNamespace:
    """The part of pytest's reporter that progress uses: the line it has begun, and its verbosity."""
    return types.SimpleNamespace(currentfspath=None, verbosity=1)


@pytest.fixture
def live(reporter: types.SimpleNamespace) -> Iterator[Live]:
    """Start progress on a terminal of so many columns, beside pytest's reporter; returns all three."""
    started: list[tuple[Progress, PytestTerminal, Screen]] = []

    def start(columns: int = 80) -> tuple[Progress, PytestTerminal, Screen]:
        screen = Screen(columns)
        terminal = PytestTerminal(screen.write_end, reporter, live=True)
        started.append((Progress(terminal.write_line, terminal.draw), terminal, screen))
        return started[-1]

    yield start
    for progress, _, screen in started:
        progress.rest()
        os.close(screen.read_end)
        os.close(screen.write_end)


def test_plain_lines_start_on_a_new_line(reporter: types.SimpleNamespace) -> None:
    reporter.currentfspath = "tests/test_a.py"
    read_end, write_end = os.pipe()

    PytestTerminal(write_end, reporter, live=False).write_line("convert")

    assert os.read(read_end, 99) == b"\n  convert"
    os.close(read_end)
    os.close(write_end)
    assert reporter.currentfspath is None, "pytest writes the name of its file again"


def test_note_stays_and_rest_clears_the_line(live: Live) -> None:
    progress, terminal, screen = live()
    screen.by_pytest("collected 2 items\n")

    progress.say("convert")
    progress.note("built in 3 s")
    progress.say("compare")
    for _ in range(2):
        progress.rest()
        terminal.rest()
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
    progress, _, screen = live()
    screen.by_pytest("tests/test_a.py ..")
    reporter.currentfspath, reporter.verbosity = "tests/test_a.py", verbosity

    progress.say("convert")

    assert screen.seen() == [*left, "  convert 0 s"]


@pytest.mark.parametrize("columns", [0, 1, 5, 20, 79])
def test_long_line_is_cut_at_its_beginning(live: Live, columns: int) -> None:
    progress, _, screen = live(columns)

    progress.say("cpu-resnet50-micro-onnx-fp32: measure online", "b001-c032 pass 3, 0 of 1 points, 9 infer/s")

    (shown,) = screen.seen()
    assert shown.endswith(" 0 s")
    assert len(shown) <= max((columns or 80) - 1, len(" 0 s"))
    assert columns not in (0, 79) or "fp32: measure online: b001-c032" in shown


@pytest.mark.parametrize("is_live", [True, False])
def test_closed_output_does_not_fail_the_run(is_live: bool, reporter: types.SimpleNamespace) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)

    terminal = PytestTerminal(write_end, reporter, live=is_live)
    progress = Progress(terminal.write_line, terminal.draw if is_live else None)
    progress.say("convert")
    progress.note("built")
    progress.rest()

    os.close(write_end)
