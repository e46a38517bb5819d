"""Fake shared libraries with chosen dependencies."""

from collections.abc import Iterable
from pathlib import Path


def write_library(path: Path, needed: Iterable[str]) -> Path:
    """Write a library with these dependencies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    path.write_bytes(b"\x7fELF\x02\x01\x01" + names)
    return path
