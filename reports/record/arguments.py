"""What the suite's command lines share: the parser, exit statuses, and errors on what cannot be used."""

import argparse
import errno
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from reports.record.sanitize import cut, is_printable, one_line, path_text, quoted, visible

INPUT = 4
"""Exit status: an argument, a file or a folder cannot be used. A pytest run has the same."""
UNREADABLE = 6
"""Exit status: some records cannot be read, and the others were shown. The statuses below come first."""
SPEED, LEAK, ACCURACY = 10, 11, 12
"""Exit statuses: something is shown to be too slow, to leak, or to be wrong."""


def status_of_unreadable(sentences: Iterable[str]) -> int:
    """Name every record that could not be read; returns the exit status."""
    status = 0
    for sentence in sentences:
        print(f"left out: {cut(visible(sentence))}", file=sys.stderr)
        status = UNREADABLE
    return status


class Parser(argparse.ArgumentParser):
    """The parser of a command; a wrong argument ends it with INPUT and one line, safe on a terminal."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(INPUT, f"{self.prog}: error: {one_line(message)}\n")


class UsageError(Exception):
    """A demand that cannot be met; the message says why and what to do."""


def path(text: str) -> Path:
    """The path in an option; `~` is a user's home."""
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty path, or no valid one")
    if not is_printable(text):
        raise argparse.ArgumentTypeError(
            f"{quoted(text)} holds control characters, or bytes that are no UTF-8: rename what it names"
        )
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # there is no such user
        raise argparse.ArgumentTypeError(
            f"{quoted(text)}: there is no such user, or none with a folder: write the path out, from / on"
        ) from error


def count(text: str) -> int:
    """A whole number from 1, of up to nine digits."""
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text[:100], re.ASCII):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a whole number from 1 to 999,999,999")
    return int(text)


_REFUSED = "Name a place that this user may read and write"
_FIXES = {
    errno.EACCES: _REFUSED,
    errno.EISDIR: "Name a file",
    errno.ENAMETOOLONG: "Give a shorter name",
    errno.ENOENT: "Check the path",
    errno.ENOSPC: "Make room, or name another place",
    errno.ENOTDIR: "Name a place below a folder",
    errno.EPERM: _REFUSED,
    errno.EROFS: _REFUSED,
}
"""Fixes for errors of the system."""


def with_fix(error: OSError) -> str:
    """The file, the system's error, and the fix, which an error of this suite contains already."""
    where = path_text(error.filename or "standard output", 300)
    said = error.strerror or str(error)
    fix = _FIXES.get(error.errno) if error.errno and said == os.strerror(error.errno) else None
    return visible(f"{where}: {said}{f'. {fix}.' if fix else ''}")
