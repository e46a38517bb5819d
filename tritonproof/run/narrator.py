"""Live progress: shows the current step, on a terminal and off it."""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any


class Narrator:
    """Shows the current step. On a terminal it rewrites one line, with the seconds since the step began.
    Elsewhere, and in xdist's workers, it prints plain lines: one for each new step, one with its progress
    every few seconds, and one after each quarter of a minute of silence."""

    def __init__(
        self, descriptor: int, *, live: bool, prefix: str = "", reporter: Any = None, quiet_s: float = 15.0
    ) -> None:
        """Write to a file descriptor: if `live` as one line; else as plain lines that begin with `prefix`, at
        least one every `quiet_s` seconds. `reporter` is pytest's terminal reporter, whose line is left before
        anything is written."""
        self._descriptor, self._live, self._prefix, self._reporter = descriptor, live, prefix, reporter
        self._quiet_s = 0.0 if live else quiet_s
        self._lock = threading.Lock()
        self._step, self._detail = "", ""
        self._began, self._shown_at = 0.0, 0.0
        self._is_drawn = False  # whether the live line is on the terminal right now
        self._is_ours = False  # whether the terminal's line was taken from pytest since it last wrote
        tick_s = 1.0 if live else min(1.0, quiet_s)
        threading.Thread(target=_tick, args=(weakref.ref(self), tick_s), daemon=True).start()

    def say(self, step: str, detail: str = "") -> None:
        """Show a step and its progress, such as the running estimate."""
        now = time.monotonic()
        with self._lock:
            is_new = step != self._step
            if is_new:
                self._began = now
            self._step, self._detail = step, detail
            # Nobody reads a live line faster; plain lines keep the log short, and nobody wonders if it hangs.
            interval_s = 0.1 if self._live else max(5.0, 0.2 * (now - self._began))
            if is_new or now - self._shown_at >= interval_s:
                self._show(now)

    def waits(self, step: str) -> Callable[[str], None]:
        """A callback that shows who holds the lock that a step waits for: `tritonproof.host.locks.OnWait`."""
        return lambda holder: self.say(step, holder)

    def note(self, text: str) -> None:
        """Write one line that stays."""
        with self._lock:
            self._clear()
            self._write_line(text)

    def rest(self) -> bool:
        """Clear the step, since pytest writes next; returns whether this had taken pytest's line."""
        with self._lock:
            self._clear()
            was_ours, self._is_ours = self._is_ours, False
            if was_ours and self._live:
                self._write("\x1b[1A")  # pytest begins with a line break, which leads back here
            return was_ours

    def _show(self, now: float, *, again: bool = False) -> None:
        """Write the step, as the live line cut to the terminal or as a plain line; one that is written
        `again` without news gives the step's duration."""
        self._shown_at = now
        text = f"{self._step}: {self._detail}" if self._detail else self._step
        seconds = f" {now - self._began:.0f} s"
        if not self._live:
            self._write_line(f"{text} ({seconds.strip()})" if again else text)
            return
        columns = 0
        with contextlib.suppress(OSError):  # no terminal
            columns = os.get_terminal_size(self._descriptor).columns
        room, shown = max(0, (columns or 80) - 1 - len(seconds)), f"  {text}"
        if len(shown) > room:
            # The beginning of a case's name may be missing, but only this line shows the step's progress.
            shown = f"…{shown[len(shown) - room + 1 :]}"[:room]
        if not self._is_drawn:
            self._leave_pytests_line()
        self._write(f"\r\x1b[2K\x1b[2m{shown}{seconds}\x1b[0m")
        self._is_drawn = True

    def _clear(self) -> None:
        """End the step, and take its live line away."""
        self._step = ""
        if self._is_drawn:
            self._write("\r\x1b[2K")
            self._is_drawn = False

    def _write_line(self, text: str) -> None:
        """Write a line that stays, apart from what pytest has begun."""
        if self._reporter is None:
            self._write(f"{self._prefix}{text}\n")
        elif self._live:
            self._leave_pytests_line()
            self._write(f"  {text}\n")
        else:
            # pytest begins its next line with the line break, so each of ours does too.
            self._reporter.currentfspath = None
            self._is_ours = True
            self._write(f"\n  {text}")

    def _leave_pytests_line(self) -> None:
        """Take the line from pytest, unless it is ours already."""
        reporter = self._reporter
        if reporter is None or self._is_ours:
            return
        if reporter.verbosity > 0 and isinstance(reporter.currentfspath, str):
            self._write("\r\x1b[2K")  # a test's name alone is written again with its outcome
        elif reporter.currentfspath is not None or reporter.verbosity < 0:
            self._write("\n")  # outcomes stay
        reporter.currentfspath = None
        self._is_ours = True

    def _rewrite(self) -> None:
        """Write the step again while it runs, to update its seconds."""
        now = time.monotonic()
        with self._lock:
            if self._step and now - self._shown_at >= self._quiet_s:
                self._show(now, again=True)

    def _write(self, text: str) -> None:
        # A reader that has gone must not fail a measurement.
        with contextlib.suppress(OSError):
            os.write(self._descriptor, text.encode())


def _tick(narrator: "weakref.ref[Narrator]", tick_s: float) -> None:
    """Update a narrator until nobody has it. Its reporter holds a whole run of pytest, which would stay in
    the memory of a process that starts several."""
    while (narrator_now := narrator()) is not None:
        narrator_now._rewrite()
        del narrator_now
        time.sleep(tick_s)
