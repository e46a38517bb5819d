"""Shared libraries that need what a test wants them to need, and hold code for the GPUs that it wants."""

import struct
from collections.abc import Iterable
from pathlib import Path

_MEMORY_OFFSET = 0x1000
"""Addresses in memory lie this much above places in the file, as they do in most libraries."""


def write_library(
    path: Path, needed: Iterable[str] = (), binaries: Iterable[int] = (), sources: Iterable[int] = ()
) -> Path:
    """An ELF file of 64 bits with these DT_NEEDED and pieces of CUDA code (machine code, PTX) by architecture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    places = [names.index(b"\0" + name.encode() + b"\0") + 1 for name in needed]
    strings = 64 + 2 * 56
    table = strings + len(names)
    entries = [(1, place) for place in places] + [(5, strings + _MEMORY_OFFSET), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    size = table + len(dynamic)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, _MEMORY_OFFSET, _MEMORY_OFFSET, size, size, 0x1000)
    linked = struct.pack(
        "<IIQQQQQQ",
        2,
        6,
        table,
        table + _MEMORY_OFFSET,
        table + _MEMORY_OFFSET,
        len(dynamic),
        len(dynamic),
        8,
    )
    pieces = [(2, one) for one in binaries] + [(1, one) for one in sources]
    path.write_bytes(header + load + linked + names + dynamic + _cuda_code(pieces))
    return path


def _cuda_code(pieces: Iterable[tuple[int, int]]) -> bytes:
    entries = b"".join(
        struct.pack("<HHIQQIII", kind, 1, 64, 8, 0, 0, architecture, 0).ljust(64, b"\0") + b"machine!"
        for kind, architecture in pieces
    )
    return b"padding" + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries if entries else b""
