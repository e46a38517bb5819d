"""The command lines of the suite: what each of them says and ends with where it was given what it cannot use.

It needs the standard library alone.
"""

import argparse
import sys
from collections.abc import Iterable
from typing import NoReturn

from reports.record.foreign import cut, one_line, visible

_LONGEST_SENTENCE = 2_000
"""Characters of what is said of one record."""
INPUT = 4
"""The exit status for bad input: an argument, a file or a folder that cannot be used. pytest's runs have the same."""
UNREADABLE = 6
"""The exit status for records that cannot be read, of which the others were shown; what is shown to be wrong comes first."""
SPEED, LEAK, ACCURACY = 10, 11, 12
"""The exit statuses for what is shown to be too slow, to leak and to be wrong. A run of the benchmarks ends with that of a leak
for whatever else fails too."""


def status_of_unreadable(sentences: Iterable[str]) -> int:
    """Name every record that could not be read beside those that are shown; returns the exit status."""
    named = [cut(visible(sentence), _LONGEST_SENTENCE) for sentence in sentences]
    for sentence in named:
        print(f"left out: {sentence}", file=sys.stderr)
    return UNREADABLE if named else 0


class Parser(argparse.ArgumentParser):
    """The parser of a command; a wrong argument ends it with INPUT, and one line that a terminal only shows."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(INPUT, f"{self.prog}: error: {one_line(message)}\n")
