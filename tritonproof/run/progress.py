"""Live progress: shows the current activity, as plain lines or in a terminal."""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable


class Progress:
    """Shows the current activity in plain lines: one for each new activity, one with its progress every few
    seconds, and one after each 15 s of silence. A terminal redraws the activity with its seconds instead."""

    def __init__(
        self,
        write_line: Callable[[str], None],
        draw: Callable[[str, str], None] | None = None,
        *,
        quiet_s: float = 15.0,
    ) -> None:
        """`write_line` writes a line that stays, at least one every `quiet_s` seconds. `draw`, if there is a
        terminal, shows an activity and its seconds in place of the last; two empty texts show nothing."""
        self._write_line, self._draw = write_line, draw
        self._quiet_s = quiet_s if draw is None else 0.0
        self._lock = threading.Lock()
        self._activity, self._detail = "", ""
        self._began, self._shown_at = 0.0, 0.0
        threading.Thread(target=_tick, args=(weakref.ref(self), min(1.0, quiet_s)), daemon=True).start()

    def say(self, activity: str, detail: str = "") -> None:
        """Show an activity and its progress, such as the running estimate."""
        now = time.monotonic()
        with self._lock:
            is_new = activity != self._activity
            if is_new:
                self._began = now
            self._activity, self._detail = activity, detail
            # A live line changes as fast as people read; plain lines are rare, to keep the log short.
            interval_s = max(5.0, 0.2 * (now - self._began)) if self._draw is None else 0.1
            if is_new or now - self._shown_at >= interval_s:
                self._show(now)

    def note(self, text: str) -> None:
        """Write one line that stays."""
        with self._lock:
            self._clear()
            self._write_line(text)

    def rest(self) -> None:
        """Show no activity any more."""
        with self._lock:
            self._clear()

    def _show(self, now: float, *, again: bool = False) -> None:
        """Show the activity. `again` shows it without news: a plain line then adds its seconds so far."""
        self._shown_at = now
        text = f"{self._activity}: {self._detail}" if self._detail else self._activity
        seconds = f"{now - self._began:.0f} s"
        if self._draw is not None:
            self._draw(text, seconds)
        else:
            self._write_line(f"{text} ({seconds})" if again else text)

    def _clear(self) -> None:
        self._activity = ""
        if self._draw is not None:
            self._draw("", "")

    def _rewrite(self) -> None:
        """Show the activity again while it lasts, to update its seconds."""
        now = time.monotonic()
        with self._lock:
            if self._activity and now - self._shown_at >= self._quiet_s:
                self._show(now, again=True)


def _tick(progress: "weakref.ref[Progress]", tick_s: float) -> None:
    """Update the progress until nothing else refers to it. A strong reference would keep pytest's terminal,
    which may draw it, and with it a whole run in the memory of a process that starts several."""
    while (progress_now := progress()) is not None:
        progress_now._rewrite()
        del progress_now
        time.sleep(tick_s)


def lines_to(descriptor: int, prefix: str = "", end: str = "\n") -> Callable[[str], None]:
    """A function that writes a text, between `prefix` and `end`, to a file descriptor."""

    def write(text: str) -> None:
        # A reader that has gone must not fail a measurement.
        with contextlib.suppress(OSError):
            os.write(descriptor, f"{prefix}{text}{end}".encode())

    return write
