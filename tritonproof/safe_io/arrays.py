"""Reads the headers and values of arrays in NumPy's files, without running code and within memory; raw bytes
of Triton's types; and pictures of eight bits. A small file can ask for more memory than any machine has."""

import contextlib
import math
import struct
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.host.machine import free_memory_gib
from tritonproof.safe_io.files import MAX_REQUEST_BYTES, opened_for_parsing, size_text
from tritonproof.spec import Tensor

if TYPE_CHECKING:
    from PIL import Image

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_WHAT = "NumPy's file"
_FIX = "save it anew with numpy.save or numpy.savez"


def check_row(name: str, shape: Sequence[int], dtype: str, where: object) -> None:
    """Raise InputError for a row of an input that no request can hold."""
    needed = Tensor(name, dtype, tuple(shape)).row_bytes
    if needed > MAX_REQUEST_BYTES:
        what = f"a row of the input {name} takes {size_text(needed)}, and a request less than 2 GiB"
        raise InputError(what, where=where, fix="give smaller samples, or a model of smaller inputs")


@dataclass(frozen=True)
class ArrayHeader:
    """The header of an array whose file is long enough for all its elements."""

    shape: tuple[int, ...]
    dtype: np.dtype
    """The type of its elements, never Python's objects."""

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def members(path: Path) -> list[str]:
    """The names of the arrays in an .npz archive. Raises InputError if the file is none."""
    with opened_for_parsing(path, _WHAT, _FIX) as file, zipfile.ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def array_header(path: Path, member: str = "") -> ArrayHeader:
    """The header of an .npy file or an archive's `member`. Raises InputError if cut off or with objects."""
    with opened_for_parsing(path, _WHAT, _FIX) as file:
        if not member:
            return _read_header(file, path.stat().st_size, path)
        with zipfile.ZipFile(file) as archive:
            info = archive.getinfo(f"{member}.npy")
            with archive.open(info) as inner:
                return _read_header(inner, info.file_size, path)


def _read_header(file: IO[bytes], size_bytes: int, path: Path) -> ArrayHeader:
    shape, _, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    if dtype.hasobject:
        what = f"{_WHAT} cannot be read: it has Python's objects, which may be code, and was not opened"
        raise InputError(what, where=path, fix="save numbers, or texts as NumPy's: array.astype('S')")
    header = ArrayHeader(tuple(shape), dtype)
    if any(length < 0 for length in shape) or size_bytes < file.tell() + header.size_bytes:
        raise ValueError("it is cut off")
    return header


def array(path: Path, member: str = "") -> Any:
    """The array in an .npy file, memory-mapped so that only the rows in use are read, or the array `member`
    of an .npz archive, unpacked. Raises InputError if it is damaged or does not fit into memory."""
    header = array_header(path, member)
    if not member:
        with opened_for_parsing(path, _WHAT, _FIX):
            # An empty file cannot be mapped.
            return np.load(path, mmap_mode="r" if header.size_bytes else None, allow_pickle=False)
    free_bytes = int(free_memory_gib() * 2**30)
    if header.size_bytes > free_bytes:  # Linux would grant them, and later kill this process without a word
        sizes = f"{size_text(header.size_bytes)} of memory, and {size_text(free_bytes)} are free"
        fix = "save it as .npy, of which only the rows in use are read"
        raise InputError(f"the array {member}, unpacked, takes {sizes}", where=path, fix=fix)
    with opened_for_parsing(path, _WHAT, _FIX) as file, np.load(file, allow_pickle=False) as archive:
        return archive[member]


def values_of(content: bytes, datatype: str, shape: Iterable[int]) -> np.ndarray | None:
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
