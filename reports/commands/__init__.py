"""The commands of `python -m reports`, a file each with `add`, and what several of them share."""

import argparse
import contextlib
import gc
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias

from reports.plots import THEMES
from reports.plots.theme import Theme
from reports.record.foreign import cut, quoted, visible
from reports.words import shown
from reports.words.shown import Shown

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What a command is added to."""
RESULTS = Path("reports/results")


INPUT = 4
"""The exit status for bad input: an argument, a file or a folder that cannot be used. pytest's runs have the same."""
SPEED, LEAK, ACCURACY = 10, 11, 12
"""The statuses of a run that failed for speed, for a leak or for accuracy, `reports.run.exit_status.STATUS`: that module needs
pytest, which these reports do without."""


class Parser(argparse.ArgumentParser):
    """The parser of the command line and of each command; a wrong argument ends with INPUT."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(INPUT, f"{self.prog}: error: {cut(visible(message))}\n")


def path(text: str) -> Path:
    """The value of an option that names a file or a folder."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("it is empty, or no name of a file or folder")
    return Path(text)


def count(text: str) -> int:
    """A whole number from 1, of up to nine digits."""
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text[:100], re.ASCII):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a whole number from 1 to 999,999,999")
    return int(text)


class UsageError(Exception):
    """What was asked for cannot be done; the message says why and what to do."""


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python from looking for garbage meanwhile: among the rows of a long history there is none, and looking took as
    long as reading them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def results() -> Parser:
    """The option that says where the records are."""
    parser = Parser(add_help=False)
    parser.add_argument(
        "--results",
        type=path,
        default=RESULTS,
        metavar="DIR",
        help="the folder of the records (default: %(default)s)",
    )
    return parser


def history() -> Parser:
    """The option that says where the history is."""
    parser = Parser(add_help=False)
    parser.add_argument(
        "--history",
        type=path,
        metavar="DIR",
        help="the folder of the history (default: reports/history, or DIR/history with --results DIR)",
    )
    return parser


def selection() -> Parser:
    """The option that says which of them are meant."""
    parser = Parser(add_help=False)
    parser.add_argument(
        "-k", default="", metavar="SUBSTRING", help="use only the cases whose name contains SUBSTRING"
    )
    return parser


def add_theme(parser: argparse.ArgumentParser) -> None:
    """Add the option that says for which pages pictures are drawn."""
    parser.add_argument(
        "--theme",
        choices=(*THEMES, "both"),
        default="both",
        help="for pages with a light or a dark background (default: %(default)s)",
    )


def themes_of(options: argparse.Namespace) -> Sequence[Theme]:
    """What `--theme` asks for."""
    return THEMES if options.theme == "both" else (options.theme,)


def names_left_out() -> Parser:
    """The option for what is published elsewhere."""
    parser = Parser(add_help=False)
    parser.add_argument(
        "--anonymous", action="store_true", help="leave out the names of hosts and the UUIDs of GPUs"
    )
    return parser


def chosen(options: argparse.Namespace) -> list[Shown]:
    """The records that the options select, as a reader may see them; raises UsageError if there are none."""
    records = shown.read_all(options.results, anonymous=options.anonymous)
    if not records:
        raise UsageError(
            f"{options.results}: no records (TARGET/CASE.json). Measure some: tox run -e benchmarks"
        )
    found = [r for r in records if options.k in shown.name_of(r)]
    if not found:
        names = ", ".join(map(shown.name_of, records))
        raise UsageError(f"{options.results}: no case has {options.k!r} in its name. There are: {names}")
    return found
