"""Fake shared libraries with chosen dependencies and CUDA code."""

import struct
from collections.abc import Iterable
from pathlib import Path


def write_library(
    path: Path, needed: Iterable[str] = (), binaries: Iterable[int] = (), sources: Iterable[int] = ()
) -> Path:
    """Write a library with these dependencies, and CUDA machine code and PTX for these architectures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    pieces = [(2, architecture) for architecture in binaries] + [
        (1, architecture) for architecture in sources
    ]
    path.write_bytes(b"\x7fELF\x02\x01\x01" + names + _cuda_code(pieces))
    return path


def _cuda_code(pieces: Iterable[tuple[int, int]]) -> bytes:
    entries = b"".join(
        struct.pack("<HHIQQIII", kind, 1, 64, 8, 0, 0, architecture, 0).ljust(64, b"\0") + b"machine!"
        for kind, architecture in pieces
    )
    return b"padding" + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries if entries else b""
