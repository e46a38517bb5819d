"""`python -m tritonproof doctor` says what could go wrong on this machine, and how to fix it. Each check is a
function that returns a Finding, and imports packages other than msgspec as it runs: they may be missing."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """What a check of the doctor found."""

    state: Literal["ok", "warning", "problem"]
    """warning: some cases would skip or some figures suffer; problem: the benchmarks would stop."""
    text: str
    """A sentence without a full stop."""
    fix: str = ""
    """What to do about it, a command if possible; empty only if all is well."""

    def __post_init__(self) -> None:
        assert self.fix or self.state == "ok", f"no fix for: {self.text}"


def ok(text: str) -> Finding:
    return Finding("ok", text)


def warning(text: str, fix: str) -> Finding:
    return Finding("warning", text, fix)


def problem(text: str, fix: str) -> Finding:
    return Finding("problem", text, fix)
