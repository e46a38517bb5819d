"""`python -m reports compare`: what changed between the records of two runs, or more."""

import argparse
import sys

from reports.commands import Commands, UsageError, path, selection


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    changes = commands.add_parser(
        "compare",
        parents=[selection()],
        help="show what changed between the records of two or more runs",
        description="Print what changed from A to B, and from A to every further argument: the setup, the accuracy "
        "(compared sample by sample) and the speed (as a ratio with its interval). The exit status is 0 "
        "whatever changed. Needs numpy, scipy and, for output to a terminal, rich.",
        epilog="To set NVIDIA's published figures beside the records: python -m reports published",
    )
    changes.add_argument(
        "records",
        type=path,
        nargs="*",
        metavar="A B",
        help="folders of records, or single record files; A is what the others are compared with",
    )
    changes.add_argument(
        "--format",
        choices=("markdown", "terminal"),
        default="terminal" if sys.stdout.isatty() else "markdown",
        help="the form of the output (default: terminal if standard output is one, else markdown)",
    )
    changes.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from reports.compare.changes import document
    from reports.compare.records import compare
    from reports.record import sources

    if len(options.records) < 2:
        raise UsageError(
            "compare: needs two folders or files of records, or more: python -m reports compare A B. NVIDIA's published "
            "figures are set beside the records by: python -m reports published"
        )
    base, *others = sources.read(options.records, options.k)
    text = document([compare(base, other) for other in others])
    if options.format == "terminal":
        from reports.words.terminal import show

        show(text)
    else:
        print(text)
    return 0
