"""The doctor: what could go wrong on this machine, with fixes. `python -m tritonproof doctor`. Each file has
checks, functions that return a Finding. They import only the standard library and msgspec until they run,
since missing packages are one of the findings."""

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
