"""`python -m reports compare`: what changed between the records of two runs, or more."""

import argparse
import sys

from reports.commands import Commands, UsageError, path, selection


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    changes = commands.add_parser(
        "compare",
        parents=[selection()],
        help="show what changed between the records of two runs, or more",
        description="Print what changed from A to B, and to each further one: in setup, in accuracy (paired by "
        "sample) and in speed (the ratio with its interval). Exits with 0 whatever changed. Needs numpy, scipy and, "
        "for a terminal, rich.",
        epilog="NVIDIA's published figures beside the records: python -m reports published",
    )
    changes.add_argument(
        "records",
        type=path,
        nargs="*",
        metavar="A B",
        help="folders of records, or single files of them; A is the base",
    )
    changes.add_argument(
        "--format",
        choices=("markdown", "terminal"),
        default="terminal" if sys.stdout.isatty() else "markdown",
        help="default: terminal where standard output is one, else markdown",
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
