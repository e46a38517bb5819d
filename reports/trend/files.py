"""The history on disk: a file of rows for each target, to which whole lines are added and nothing else is done."""

import errno
import fcntl
import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.record import untrusted, writing
from reports.record.files import RecordError, listed
from reports.trend.rows import Key, Row, decode_lines, encode, key

SUFFIX = ".jsonl"
_ROOT = Path(__file__).parents[2]
_DEFAULT_RESULTS = _ROOT / "reports" / "results"
_BLOCK_BYTES = 2**18
"""How much is read at once: some hundred lines, and as many are read slowly for one that is damaged."""
_NAMED_LINES = 20
"""Lines that are no rows and are named each; a file of another kind has any number of them."""
_LEFT_OUT = (
    "left out: no whole row of a history, as a kill or a full disk leaves it. All other lines were read."
)
_RUN = re.compile(rb'^\{"run": ?("(?:[^"\\]|\\.)*")', re.MULTILINE)
"""The id of the run at the beginning of a line, where `encode` puts it."""


@dataclass(frozen=True)
class History:
    """What the files of a folder hold."""

    rows: Sequence[Row]
    damaged: Sequence[str]
    """A sentence for each line that is no row, and was left out."""


def folder_of(results: Path) -> Path:
    """Where the history of the records in a folder lies: `reports/history` for the checkout's own, for others in the
    folder, so that a scratch run never adds to the checkout's."""
    if os.path.realpath(results) == os.path.realpath(_DEFAULT_RESULTS):
        return results.parent / "history"
    return results / "history"


def append(folder: Path, rows: Iterable[Row]) -> int:
    """Add the rows that are not there yet; returns how many that were.

    Processes that add at once wait for each other, and a row is in a file whole or not at all. Raises OSError where the
    folder cannot be written, and then nothing was added to the target's file.
    """
    by_target: dict[str, dict[Key, Row]] = {}
    for row in rows:
        by_target.setdefault(row.target, {}).setdefault(key(row), row)
    return sum(
        _append(folder / f"{target}{SUFFIX}", [*found.values()]) for target, found in by_target.items()
    )


def read(folder: Path) -> History:
    """All rows of a folder in the order they were added, each once; none where there is no such folder.

    Raises RecordError where a file cannot be read or named, and where something else than a folder has its name.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise RecordError(f"{folder}: not a folder. Give the one of the history, or leave --history out.")
    rows: list[Row] = []
    damaged: list[str] = []
    for path in listed(folder, f"*{SUFFIX}"):
        rows.extend(_rows(path, _content(path), damaged))
    if len({*map(key, rows)}) < len(rows):  # files were joined by hand
        once: dict[Key, Row] = {}
        for row in rows:
            once.setdefault(key(row), row)
        rows = [*once.values()]
    return History(rows, damaged)


def parsed(path: Path, content: bytes) -> History:
    """All rows of a file's content; `path` is what the file is called where a line is damaged."""
    damaged: list[str] = []
    return History([*_rows(path, content, damaged)], damaged)


def _rows(path: Path, content: bytes, damaged: list[str]) -> Iterator[Row]:
    """The rows of a file, by blocks of lines: one by one only those beside a line that is no row. `damaged` then has a
    sentence of each such line, or of the first ones and of how many more there are."""
    start, not_rows = 0, list[int]()
    while start < len(content):
        end = content.find(b"\n", start + _BLOCK_BYTES) + 1 or len(content)
        block = content[start:end]
        found = decode_lines(block)
        if found is None:
            first = 1 + content.count(b"\n", 0, start)
            found = _line_by_line(block, first, not_rows)
        yield from found
        start = end
    damaged += [f"{path}, line {number}: {_LEFT_OUT}" for number in not_rows[:_NAMED_LINES]]
    if more := not_rows[_NAMED_LINES:]:
        damaged.append(f"{path}, {len(more):,} more lines, the last of them {more[-1]}: {_LEFT_OUT}")


def _line_by_line(block: bytes, first: int, not_rows: list[int]) -> Sequence[Row]:
    found: list[Row] = []
    for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
        rows = decode_lines(line)
        if rows:
            found += rows
        else:
            not_rows.append(number)
    return found


def _append(path: Path, rows: Sequence[Row]) -> int:
    writing.make_folder(path.parent)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if not path.is_symlink():
            raise
        said = "it is a symbolic link, through which no history is written. Put the file itself there"
        raise OSError(errno.ELOOP, said, str(path)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file, which a history is kept in", str(path))
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with open(descriptor, "rb", closefd=False) as file:
            present = file.read()
        known = _keys(present, {row.run for row in rows})
        fresh = [row for row in rows if key(row) not in known]
        # A line that a kill cut off stays a line of its own, and is told of when it is read.
        start = b"\n" if present and not present.endswith(b"\n") else b""
        if fresh:
            _write(descriptor, path, start + b"".join(map(encode, fresh)), len(present))
        return len(fresh)
    finally:
        os.close(descriptor)


def _write(descriptor: int, path: Path, content: bytes, size: int) -> None:
    """Write all, or take away what was written."""
    try:
        if os.write(descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _keys(content: bytes, runs: Collection[str]) -> set[Key]:
    """The keys of the rows of these runs. The others' lines are not parsed: after each test of a run a year of history
    is looked through."""
    wanted = {json.dumps(run).encode() for run in runs}
    lines = []
    for match in _RUN.finditer(content):
        if match[1] in wanted:
            end = content.find(b"\n", match.start())
            lines.append(content[match.start() : end if end >= 0 else len(content)])
    return {key(row) for row in parsed(Path(), b"\n".join(lines)).rows}


def _content(path: Path) -> bytes:
    try:
        with untrusted.opened(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            content = file.read(untrusted.LARGEST_BYTES + 1)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > untrusted.LARGEST_BYTES:
        limit = untrusted.LARGEST_BYTES // 2**20
        raise RecordError(f"{path}: larger than {limit} MiB. Move its first lines into another folder.")
    return content
