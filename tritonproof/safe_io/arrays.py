"""Reads the headers and values of arrays in NumPy's files, without running code and within memory; raw bytes
of Triton's types; and pictures of eight bits. A small file can ask for more memory than any machine has."""

import contextlib
import math
import struct
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.host.machine import free_memory_gib
from tritonproof.safe_io.files import opened_for_parsing, size_text

if TYPE_CHECKING:
    from PIL import Image

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_WHAT = "NumPy's file"
_FIX = "save it anew with numpy.save or numpy.savez"


def members(path: Path) -> list[str]:
    """The names of the arrays in an .npz archive. Raises InputError if the file is none."""
    with opened_for_parsing(path, _WHAT, _FIX) as file, zipfile.ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def shape_and_bytes(path: Path, member: str = "") -> tuple[tuple[int, ...], int]:
    """The shape of the array in an .npy file or an archive's `member`, and the bytes of its elements, by its
    header alone. Raises InputError if the file is too short for them, or holds Python's objects."""
    with opened_for_parsing(path, _WHAT, _FIX) as file:
        if not member:
            return _read_header(file, path.stat().st_size, path)
        with zipfile.ZipFile(file) as archive:
            info = archive.getinfo(f"{member}.npy")
            with archive.open(info) as inner:
                return _read_header(inner, info.file_size, path)


def _read_header(file: IO[bytes], file_bytes: int, path: Path) -> tuple[tuple[int, ...], int]:
    shape, _, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    if dtype.hasobject:
        what = f"{_WHAT} cannot be read: it has Python's objects, which may be code, and was not opened"
        raise InputError(what, where=path, fix="save numbers, or texts as NumPy's: array.astype('S')")
    size_bytes = math.prod(shape) * dtype.itemsize
    if any(length < 0 for length in shape) or file_bytes < file.tell() + size_bytes:
        raise ValueError("it is cut off")
    return tuple(shape), size_bytes


def array(path: Path, member: str = "") -> Any:
    """The array in an .npy file, memory-mapped so that only the rows in use are read, or the array `member`
    of an .npz archive, unpacked. Raises InputError if it is damaged or does not fit into memory."""
    _, size_bytes = shape_and_bytes(path, member)
    if not member:
        with opened_for_parsing(path, _WHAT, _FIX):
            # An empty file cannot be mapped.
            return np.load(path, mmap_mode="r" if size_bytes else None, allow_pickle=False)
    free_bytes = int(free_memory_gib() * 2**30)
    if size_bytes > free_bytes:  # Linux would grant them, and later kill this process without a word
        sizes = f"{size_text(size_bytes)} of memory, and {size_text(free_bytes)} are free"
        fix = "save it as .npy, of which only the rows in use are read"
        raise InputError(f"the array {member}, unpacked, takes {sizes}", where=path, fix=fix)
    with opened_for_parsing(path, _WHAT, _FIX) as file, np.load(file, allow_pickle=False) as archive:
        return archive[member]


def values_of(content: bytes | memoryview, datatype: str, shape: Iterable[int]) -> np.ndarray | None:
    """The tensor in raw bytes of a Triton `datatype`, BF16 as float32; None if `content` does not fit."""
    from tritonclient.utils import deserialize_bytes_tensor, triton_to_np_dtype

    try:
        if datatype == "BYTES":
            values = deserialize_bytes_tensor(content)
        elif datatype == "BF16":
            values = (np.frombuffer(content, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(content, triton_to_np_dtype(datatype))
        return np.asarray(values).reshape(list(shape))
    except (ValueError, struct.error):
        return None


_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
"""Pillow's modes of at most eight bits. Of deeper pictures Pillow would turn all values above 255 white."""


@contextlib.contextmanager
def opened_picture(path: Path, what: str, fix: str, formats: tuple[str, ...]) -> Iterator["Image.Image"]:
    """Open a picture for a block. Its content must have one of the `formats`: by itself Pillow takes any, and
    runs a program for PostScript. Raises InputError, also for errors within the block."""
    from PIL import Image

    with opened_for_parsing(path, what, fix) as file, Image.open(file, formats=formats) as picture:
        if picture.mode not in _MODES:
            raise ValueError(f"its pixels have more than eight bits (Pillow's mode {picture.mode})")
        yield picture
