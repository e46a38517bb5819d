"""Reads a user's paths and files. Whatever is wrong ends in an error of one sentence. Sizes are limited: a
small file can ask for more memory than any machine has."""

import contextlib
import hashlib
import importlib
import io
import json
import math
import os
import pkgutil
import shlex
import stat
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from tritonproof.base import disk
from tritonproof.base.disk import file_digest, strict_walk
from tritonproof.base.errors import InputError, ProofError
from tritonproof.base.sanitize import excerpt, is_printable
from tritonproof.spec import Format, Metric, NetworkModel

_MAX_PATH_CHARS = 4095
"""The most bytes of a path on Linux. Source: PATH_MAX in linux/limits.h is 4096, with the final zero."""


def as_given(option: str, text: str, longest: int = 100) -> str:
    """An option and its text as typed: `--samples DIR`, or `--samples NAME=DIR` if it ends in `NAME=`."""
    return option + ("" if option.endswith("=") else " ") + excerpt(text, longest)


def absolute_path(where: str, text: str) -> Path:
    """The absolute path that `text`, given to the option `where`, names; `~` is replaced by the user's home.
    Does not open the path. Raises InputError if the text is no path, or one that no record can name."""
    if not text.strip():
        what, fix = "the path is empty", "give a path, or leave the option out; is a variable not set?"
    elif not is_printable(text):
        what, fix = "the path has control characters, or bytes that are no UTF-8", "rename what it names"
    else:
        try:
            return Path(text).expanduser().absolute()
        except (RuntimeError, OSError) as error:  # there is no such user, or no current folder
            what, fix = f"the path cannot be found: {str(error)[:200]}", "write it out, from / on"
    raise InputError(what, where=as_given(where, text), fix=fix)


def existing_path(where: str, text: str) -> Path:
    """The absolute path of an existing file or folder, which `text`, given to the option `where`, names.
    Raises InputError for anything else: reading a FIFO may never end."""
    path = absolute_path(where, text)
    what = "it is neither a file nor a folder"
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return path
    except FileNotFoundError:
        what = "there is no such file or folder" + (" behind this link" if path.is_symlink() else "")
    except OSError as error:
        what = f"it cannot be looked up: {error.strerror}"
    raise InputError(what, where=as_given(where, text, _MAX_PATH_CHARS), fix="name a file or a folder")


MAX_REQUEST_BYTES = 2**31 - 1
"""The most bytes of a request, and so of a row. Source: protobuf, and so gRPC, has messages below 2 GiB."""
MAX_SAMPLES = 2_000_000
"""The most samples; ImageNet's training set, the largest common one, has 1,281,167."""
MAX_DIMENSIONS = 30
"""The most dimensions of a tensor: NumPy 1 allows 32 (NPY_MAXDIMS); a batch and stacking take one each."""


def check_count(count: int, where: object) -> None:
    """Raise InputError above MAX_SAMPLES."""
    if count > MAX_SAMPLES:
        what = f"there are {count:,} samples, and {MAX_SAMPLES:,} are the most"
        raise InputError(what, where=where, fix="give a few thousand, which tell a score to a percent")


def size_text(count: int) -> str:
    """Bytes in the largest unit that gives at least 1."""
    unit = min(4, max(0, count.bit_length() - 1) // 10)
    return f"{count >> 10 * unit:,} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


MAX_SETTINGS_BYTES = 2**20
"""The most bytes of a file that somebody writes by hand."""
_SAID = {
    "KeyError": "it lacks the key ",
    "UnicodeDecodeError": "not UTF-8: ",
    "JSONDecodeError": "not JSON: ",
    "TOMLDecodeError": "not TOML: ",
    "BadZipFile": "no archive: ",
}
"""Prefixes for exceptions whose text does not explain itself, by the name of the exception's type."""


@contextlib.contextmanager
def readable(what: str, where: object, fix: str) -> Iterator[None]:
    """Turn any error about a file's content into an InputError: `what`, such as "the labels", cannot be read.
    For damaged files libraries raise exceptions of many types, and new versions raise other types."""
    try:
        yield
    except ProofError:
        raise
    except PermissionError as error:
        raise refused(what, error.filename or where) from error
    except BaseException as error:
        # Libraries written in Rust raise PanicException, which is no Exception, where their code is at fault.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{what} cannot be read: {reason(error)}", where=where, fix=fix) from error


def refused(what: str, where: object) -> InputError:
    """The error for a file or folder that its own mode, or a parent's, keeps this user from opening."""
    path = excerpt(str(where), _MAX_PATH_CHARS)
    fix = f"let this user read it, and enter its folders, whose modes are in: namei -l {shlex.quote(path)}"
    return InputError(f"{what} cannot be read: permission denied", where=path, fix=fix)


def reason(error: BaseException) -> str:
    """What an exception says about a file, in one line that is safe to show."""
    if isinstance(error, MemoryError):
        return "it takes more memory than there is"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    message = (error.strerror if isinstance(error, OSError) else None) or str(error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    summary = excerpt(lines[0]) if lines else type(error).__name__
    return _SAID.get(type(error).__name__, "") + summary


def check_regular(path: Path, what: str, fix: str) -> None:
    """Raise InputError unless `path` is a regular file or a link to one, for a library that opens it by name.
    Opening a pipe may wait for ever, and a device may have no end."""
    where = excerpt(str(path), _MAX_PATH_CHARS)  # a part of the path may come from a file
    with readable(what, where, fix):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
            raise ValueError(f"it is {kind}, not a file")


@contextlib.contextmanager
def opened_for_parsing(path: Path, what: str, fix: str) -> Iterator[io.BufferedReader]:
    """Open a regular file, or a link's target, for a block that parses it, covered by `readable`."""
    check_regular(path, what, fix)
    with readable(what, path, fix), disk.opened(Path(os.path.realpath(path))) as file:
        yield file


def read_bytes(path: Path, what: str, fix: str, largest_bytes: int = disk.MAX_BYTES) -> bytes:
    """The content of a regular file. Raises InputError for anything else, and above `largest_bytes`."""
    with opened_for_parsing(path, what, fix) as file:
        if os.fstat(file.fileno()).st_size > largest_bytes:
            raise ValueError(f"it is larger than {largest_bytes / 2**20:g} MiB")
        return file.read()


def read_text(path: Path, what: str, fix: str, largest_bytes: int = disk.MAX_BYTES) -> str:
    """The text of a regular file in UTF-8, with or without a byte order mark; line ends stay."""
    with readable(what, path, fix):
        return read_bytes(path, what, fix, largest_bytes).decode("utf-8-sig")


def read_json(path: Path, what: str, fix: str, largest_bytes: int = disk.MAX_BYTES) -> Any:
    """The content of a JSON file. Raises InputError for numbers such as 1e999 and NaN, too."""
    with readable(what, path, fix):
        return parse_json(read_text(path, what, fix, largest_bytes))


def parse_json(content: str) -> Any:
    """The content of a JSON text. Raises ValueError, also for a key that occurs twice, and RecursionError."""
    return json.loads(content, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_each_key_once)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    by_key = dict(pairs)
    if len(by_key) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has the key {excerpt(max(names, key=names.count))} twice")
    return by_key


def read_toml(path: Path, what: str, fix: str) -> dict[str, Any]:
    """The content of a TOML file. Its `inf` and `nan` are refused: no setting takes them."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # the package that became Python's own module; `new` runs without any

    with readable(what, path, fix):
        return tomllib.loads(read_text(path, what, fix, MAX_SETTINGS_BYTES), parse_float=_finite)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{excerpt(digits)} is no finite number")
    return value


def data_digest(path: Path) -> str:
    """The SHA-256, in hexadecimal, of a file or of all files below a folder, also behind links: of their
    names, sizes and contents. Above MAX_BYTES in all, the times of modification replace the contents; below,
    times do not count, as a checkout changes them. Raises InputError if a file cannot be read."""
    with readable("the data", path, "let this user read all of it"):
        inside = sorted(strict_walk(path, follow_links=True))
        files = [entry for entry in inside if entry.is_file()] if path.is_dir() else [path]
        # Of two links to one folder, only the first has files.
        targets = [os.path.realpath(entry) for entry in inside if entry.is_symlink() and entry.is_dir()]
        stamped = [(file.relative_to(path), file.stat(), file) for file in files]
        is_small = sum(status.st_size for _, status, _ in stamped) <= disk.MAX_BYTES
        stamps = [
            f"{name} {status.st_size} {file_digest(file) if is_small else status.st_mtime_ns}"
            for name, status, file in stamped
        ]
    return hashlib.sha256("\n".join(stamps + targets).encode(errors="surrogateescape")).hexdigest()


def refuse_unwritable_folder(option: str, folder: Path, named: Path | None = None) -> None:
    """Raise InputError if a folder cannot be made or written. `named` is the option's path: a file in it."""
    if (fault := disk.obstacle(folder)) is not None:
        raise _unwritable(option, named or folder, f"nothing can be written: {fault[0]} {fault[1]}")


def refuse_unwritable_file(option: str, path: Path) -> None:
    """Raise InputError if the file cannot be written. A pipe or a terminal is written to as it is."""
    real = Path(os.path.realpath(path))
    if real.is_dir() or (real.exists() and not os.access(real, os.W_OK)):
        raise _unwritable(option, path, "it is not a file that can be written")
    if not real.exists() or (real.is_file() and not disk.stands_for_another(path)):
        refuse_unwritable_folder(option, real.parent, path)


def _unwritable(option: str, path: Path, problem: str) -> InputError:
    return InputError(problem, where=f"{option} {path}", fix="give a place that this user may write to")


def modules_in(package: str, path: Sequence[str]) -> Iterator[tuple[ModuleType, str]]:
    """The modules and packages in a package, but for those with an underscore before their names, each with
    its file. `path` is the package's own. Raises InputError that names the file and line of an error."""
    for info in pkgutil.iter_modules(path):
        if not info.name.startswith("_"):
            folder = Path(path[0], info.name)
            source = folder / "__init__.py" if info.ispkg else folder.with_suffix(".py")
            try:
                yield importlib.import_module(f"{package}.{info.name}"), str(source)
            except (Exception, SystemExit) as error:
                raise import_error(error, source, [source, *folder.rglob("*.py")]) from error


def check_fields(value: NetworkModel | Metric | Format, hints: Mapping[str, Any], where: str) -> None:
    """Raise InputError that names the first field whose value does not have the type that `hints` gives."""
    kind = type(value).__name__
    for name, hint in hints.items():
        try:
            msgspec.convert(getattr(value, name), hint)
        except msgspec.ValidationError as error:
            owner = f"{kind} {excerpt(str(value.name))}"
            what = f"{name} of {owner} is not what a {kind} has there: {excerpt(str(error), 300)}"
            fix = f"see {name} in tritonproof/spec.py, and mind the comma of a tuple of one: (VALUE,)"
            raise InputError(what, where=where, fix=fix) from error


def import_error(error: BaseException, source: Path, own: Iterable[Path], option: str = "") -> InputError:
    """The error if importing the file `source` raises `error`. It names first the `option`, such as "--models
    FILE, ", then the line that failed: the innermost in the files `own` of the same model."""
    if isinstance(error, SyntaxError) and error.filename:
        location = f"{error.filename}:{error.lineno}"
    else:
        names = {str(file) for file in own}
        inside = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in names]
        location = f"{inside[-1].filename}:{inside[-1].lineno}" if inside else str(source)
    # TracebackException gives a text even if str() of the file's own error fails.
    message = str(traceback.TracebackException.from_exception(error))
    what = f"the file cannot be imported: {type(error).__name__}: {excerpt(' '.join(message.split()), 500)}"
    fix = "correct that line; import a package that is not installed here inside a function, or install it"
    return InputError(what, where=f"{option}{location}", fix=fix)
