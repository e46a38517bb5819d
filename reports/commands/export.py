"""`python -m reports export`: records in the formats of other tools."""

import argparse
import json
import sys

from reports.commands import Commands, chosen, names_left_out, results, selection
from reports.export import services


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    out = commands.add_parser(
        "export",
        parents=[results(), selection(), names_left_out()],
        help="print the records as JSON for a service that keeps benchmarks",
        description="Print JSON as Bencher's adapter `json` reads it, or github-action-benchmark's tools "
        "`customBiggerIsBetter` (throughput, scores) and `customSmallerIsBetter` (p99 latency, errors). Cases that "
        "have not passed are exported without their speed, and named on standard error.",
    )
    out.add_argument("--format", required=True, choices=services.FORMATS, help="whose JSON")
    out.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    records = chosen(options)
    print(json.dumps(services.FORMATS[options.format](records), indent=2))
    for line in services.left_out(records):
        print(line, file=sys.stderr)
    return 0
