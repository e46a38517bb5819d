"""`python -m reports published`: records beside the figures NVIDIA published."""

import argparse
import sys

from reports.commands import Commands, chosen, shared


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    beside = commands.add_parser(
        "published",
        parents=[shared("--results", "-k", "--anonymous")],
        help="compare the records with the figures that NVIDIA published",
        description="Compare each case with the published figures of the same model, format, accelerator, precision and "
        "load points, by the ratios of throughput and latency. A case is compared with its own GPU's "
        "figures if there are any, and otherwise with every GPU's. Settings that differ are named. Needs "
        "pandas.",
    )
    beside.add_argument(
        "--other-formats",
        action="store_true",
        help="also compare cases whose format, accelerator and precision were not published with those that were",
    )
    beside.add_argument(
        "--csv",
        action="store_true",
        help="print one row of CSV for each measured point and published row; everything else goes to standard "
        "error",
    )
    beside.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from reports.published.comparison import document, joined, remarks
    from reports.published.matching import match
    from reports.tables.rendering import csv_text, print_as

    records, status = chosen(options)
    matches = [match(one, options.other_formats) for one in records]
    if not options.csv:
        print_as("markdown", document(matches))
        return status
    print(csv_text(joined(matches)), end="")
    for line in remarks(matches):
        print(line, file=sys.stderr)
    return status
