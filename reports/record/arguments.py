"""The command lines of the suite: what each of them says and ends with where it was given what it cannot use.

It needs the standard library alone.
"""

import argparse
import sys
from typing import NoReturn

from reports.record.foreign import one_line

INPUT = 4
"""The exit status for bad input: an argument, a file or a folder that cannot be used. pytest's runs have the same."""
SPEED, LEAK, ACCURACY = 10, 11, 12
"""The exit statuses for what is shown to be too slow, to leak and to be wrong. A run of the benchmarks ends with that of a leak
for whatever else fails too."""


class Parser(argparse.ArgumentParser):
    """The parser of a command; a wrong argument ends it with INPUT, and one line that a terminal only shows."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(INPUT, f"{self.prog}: error: {one_line(message)}\n")
