"""Modes that refuse, to root too: root's right to pass over them is laid down meanwhile."""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

_VERSION = 0x20080522
"""The third version of the structures below. Source: _LINUX_CAPABILITY_VERSION_3 in linux/capability.h."""
_PASSES_OVER_MODES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH there."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Rights(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


@contextlib.contextmanager
def closed(path: Path, mode: int = 0) -> Iterator[None]:
    """Give a file or folder a mode that refuses something to this thread, for the length of the block, whoever runs it.

    0 closes it; 0o444 lets a folder be listed and not entered, 0o111 entered and not listed, 0o555 not be written to.
    `os.access` goes by the rights that root could take up again, so what asks it alone is not refused.
    """
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        with _held_to_modes():
            yield
    finally:
        path.chmod(before)


@contextlib.contextmanager
def _held_to_modes() -> Iterator[None]:
    library = ctypes.CDLL(None, use_errno=True)
    header, rights = _Header(_VERSION, 0), (_Rights * 2)()
    assert library.capget(ctypes.byref(header), rights) == 0, os.strerror(ctypes.get_errno())
    before = rights[0].effective
    try:
        rights[0].effective = before & ~_PASSES_OVER_MODES
        assert library.capset(ctypes.byref(header), rights) == 0, os.strerror(ctypes.get_errno())
        yield
    finally:
        rights[0].effective = before
        assert library.capset(ctypes.byref(header), rights) == 0, os.strerror(ctypes.get_errno())
