"""`python -m reports published`: records beside the figures NVIDIA published."""

import argparse
import sys

from reports.commands import Commands, chosen, names_left_out, results, selection


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    beside = commands.add_parser(
        "published",
        parents=[results(), selection(), names_left_out()],
        help="set records beside the figures NVIDIA published",
        description="Print each case beside the published figures of the same model, format, accelerator, "
        "precision and load points, with the ratios of throughput and latency: on its own GPU where they were "
        "published for it, else on each that they were published for. Settings that differ are named. "
        "Needs pandas.",
    )
    beside.add_argument(
        "--other-formats",
        action="store_true",
        help="set a case whose format, accelerator and precision were not published beside those that were",
    )
    beside.add_argument(
        "--csv",
        action="store_true",
        help="print one row of CSV per measured point and published row; the rest goes to standard error",
    )
    beside.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from reports.export.cells import csv_text
    from reports.published.beside import document, remarks
    from reports.published.joined import joined
    from reports.published.matching import match

    matches = match(chosen(options), options.other_formats)
    if not options.csv:
        print(document(matches))
        return 0
    print(csv_text(joined(matches)), end="")
    for line in remarks(matches):
        print(line, file=sys.stderr)
    return 0
