"""The commands of `python -m reports`, a file each with `add`, and what several of them share."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from reports.plots import THEMES, Theme
from reports.record import files
from reports.record.arguments import Parser, status_of_unreadable
from reports.record.foreign import is_printable, quoted
from reports.words import shown
from reports.words.shown import Shown

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What a command is added to."""
RESULTS = Path("reports/results")


def path(text: str) -> Path:
    """The value of an option that names a file or a folder, with `~` for a user's own."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty, or no name of a file or folder")
    if not is_printable(text):
        raise argparse.ArgumentTypeError(
            f"{quoted(text)} holds control characters, or bytes that are no UTF-8: rename what it names"
        )
    if text == "-":
        raise argparse.ArgumentTypeError(
            "- names nothing here: write ./- for a file, /dev/stdout for the output"
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


class UsageError(Exception):
    """What was asked for cannot be done; the message says why and what to do."""


_SHARED: Mapping[str, Mapping[str, Any]] = {
    "--results": {
        "type": path,
        "default": RESULTS,
        "metavar": "DIR",
        "help": "the folder of the records (default: %(default)s)",
    },
    "--history": {
        "type": path,
        "metavar": "DIR",
        "help": "the folder of the history (default: reports/history, or DIR/history with --results DIR)",
    },
    "-k": {
        "default": "",
        "metavar": "SUBSTRING",
        "help": "use only the cases whose name contains SUBSTRING",
    },
    "--anonymous": {
        "action": "store_true",
        "help": "leave out the names of hosts and the UUIDs of GPUs",
    },
    "--theme": {
        "choices": (*THEMES, "both"),
        "default": "both",
        "help": "for pages with a light or a dark background (default: %(default)s)",
    },
}
"""The options that several commands have, as `add_argument` takes them."""


def shared(*names: str) -> Parser:
    """A parent parser with some of the shared options."""
    parser = Parser(add_help=False)
    for name in names:
        parser.add_argument(name, **_SHARED[name])
    return parser


def themes_of(options: argparse.Namespace) -> Sequence[Theme]:
    """The themes that `--theme` asks for."""
    return THEMES if options.theme == "both" else (options.theme,)


def chosen(options: argparse.Namespace) -> tuple[list[Shown], int]:
    """The records that the options select, as a reader may see them, and the exit status of a command that shows them: it tells
    of records that cannot be read, which are named. Raises UsageError if there is none to show."""
    every = files.read_folder(options.results)
    if not every.records:
        every.all()
        raise UsageError(
            f"{options.results}: no records (TARGET/CASE.json). Measure some: .venv/bin/tox run -e benchmarks"
        )
    records = shown.of_files(every.records, anonymous=options.anonymous)
    status = status_of_unreadable(why for path, why in every.unreadable.items() if options.k in path.stem)
    found = [r for r in records if options.k in shown.name_of(r)]
    if not found:
        names = ", ".join(map(shown.name_of, records))
        raise UsageError(f"{options.results}: no case has {options.k!r} in its name. There are: {names}")
    return found, status
