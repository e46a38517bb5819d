"""The command lines of the suite: their parser, their exit statuses, and what they say of what cannot be
used."""

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
"""The exit status for bad input: an argument, a file or a folder that cannot be used. pytest's runs have the
same."""
UNREADABLE = 6
"""The exit status for records that cannot be read, of which the others were shown; what is shown to be wrong
comes first."""
SPEED, LEAK, ACCURACY = 10, 11, 12
"""The exit statuses for what is shown to be too slow, to leak and to be wrong."""


def status_of_unreadable(sentences: Iterable[str]) -> int:
    """Name every record that could not be read beside those that are shown; returns the exit status."""
    status = 0
    for sentence in sentences:
        print(f"left out: {cut(visible(sentence))}", file=sys.stderr)
        status = UNREADABLE
    return status


class Parser(argparse.ArgumentParser):
    """The parser of a command; a wrong argument ends it with INPUT, and one line that a terminal only
    shows."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(INPUT, f"{self.prog}: error: {one_line(message)}\n")


class UsageError(Exception):
    """What was asked for cannot be done; the message says why and what to do."""


def path(text: str) -> Path:
    """The value of an option that names a file or a folder, with `~` for a user's own."""
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
"""What to do where the system has refused something."""


def with_fix(error: OSError) -> str:
    """The file, what the system says of it, and what to do; a sentence of this suite's own has that
    already."""
    where = path_text(error.filename or "standard output", 300)
    said = error.strerror or str(error)
    fix = _FIXES.get(error.errno) if error.errno and said == os.strerror(error.errno) else None
    return visible(f"{where}: {said}{f'. {fix}.' if fix else ''}")
