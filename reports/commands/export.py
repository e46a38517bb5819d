"""`python -m reports export`: records in the formats of other tools."""

import argparse
import json
import sys

from reports import export
from reports.commands import Commands, chosen, shared


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    out = commands.add_parser(
        "export",
        parents=[shared("--results", "-k", "--anonymous")],
        help="print the records as JSON for a service that tracks benchmarks",
        description="Print JSON for Bencher's adapter `json`, or for github-action-benchmark's tools "
        "`customBiggerIsBetter` (throughput, scores) and `customSmallerIsBetter` (p99 latency, errors). A "
        "case that has not passed is exported without its speed and named on standard error.",
    )
    out.add_argument(
        "--format",
        required=True,
        choices=export.FORMATS,
        metavar="FORMAT",
        help=f"the service or tool that reads the JSON: {' or '.join(export.FORMATS)}",
    )
    out.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    records, status = chosen(options)
    print(json.dumps(export.FORMATS[options.format](records), indent=2))
    for line in export.left_out(records):
        print(line, file=sys.stderr)
    return status
