"""`python -m reports readme`: the tables and plots of a markdown file, in step with the records."""

import argparse
import os
import shlex
from pathlib import Path

from reports import readme
from reports.commands import Commands, UsageError, path, shared
from reports.record import writing
from reports.record.foreign import visible
from reports.text.publishable import read_all


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    keep = commands.add_parser(
        "readme",
        parents=[shared("--results")],
        help="update the tables and plots in a markdown file from the records",
        description="Write tables and plots between the markers of a markdown file. Nothing else\nin the file changes.",
        epilog="A region lies between two lines of markers:\n\n"
        "<!-- tritonproof:summary -->\n<!-- /tritonproof:summary -->\n\n"
        f"Markers:\n{readme.overview()}\n\n"
        "A plot draws the latency budget with which its marker ends, such as 10ms, or\nelse the budget of the case's search.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    keep.add_argument(
        "file",
        nargs="?",
        type=path,
        default=Path("README.md"),
        metavar="FILE",
        help="the markdown file (default: %(default)s)",
    )
    keep.add_argument(
        "--check",
        action="store_true",
        help="write nothing, show what differs, and exit with status 1 if anything does",
    )
    keep.add_argument(
        "--plots",
        type=path,
        metavar="DIR",
        help="the folder for the pictures (default: where the region's picture is, else 'plots' beside FILE)",
    )
    keep.add_argument(
        "--hosts",
        action="store_true",
        help="keep the names of hosts and the UUIDs of GPUs, which are otherwise left out",
    )
    keep.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    file: Path = options.file
    folder = readme.link_to(options.plots, file) if options.plots else None
    try:
        text = readme.text_of(file)
        records = read_all(options.results, anonymous=not options.hosts)
        synced, names = readme.sync(text, records, folder), readme.drifted(text, records, folder)
        shown = readme.pictures(synced, records, Path(os.path.realpath(file)).parent)
    except readme.ReadmeError as error:
        raise UsageError(f"{file}: {error}") from error
    stale = [picture for picture in shown if not picture.is_in_step()]
    named = [*names, *(os.path.relpath(picture.path) for picture in stale)]
    if not named:
        print(f"{file}: in step with the records")
        return 0
    if options.check:
        print(f"{file}: differs from the records in {', '.join(named)}\n")
        if names:
            print(f"{visible(readme.difference(text, synced))}\n")
        given = ["--plots", str(options.plots)] if options.plots else []
        command = shlex.join(["readme", str(file), "--results", str(options.results), *given])
        print(f"Write it: python -m reports {command}")
        return 1
    for picture in stale:
        picture.write()
    if names:
        writing.write_given(file, synced.encode())
    print(f"{file}: wrote {', '.join(named)}")
    return 0
