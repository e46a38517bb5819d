"""`python -m tritonproof doctor`: what could go wrong on this machine, with fixes. Each check is a function
that returns a Finding, and imports packages other than msgspec only when it runs, as they may be missing."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    state: Literal["ok", "warning", "problem"]
    """After a warning some cases skip or some figures suffer; after a problem `pytest benchmarks` stops."""
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
