"""`python -m reports html`: all records as one HTML page."""

import argparse
import sys
from pathlib import Path

from reports.commands import Commands, chosen, path, shared
from reports.record import writing
from reports.record.arguments import status_of_unreadable
from reports.record.files import RecordError
from reports.words.shown import name_of


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    page = commands.add_parser(
        "html",
        parents=[shared("--results", "-k", "--anonymous")],
        help="write all records as one HTML page",
        description="Write one HTML page that needs no network and no other file. It shows which configuration to deploy and "
        "all cases, which can be filtered and sorted, and for each case its tables, plots, configuration and machine, its "
        "scores after each stage with the worst samples, and NVIDIA's published figures. Needs pandas, matplotlib, jinja2 "
        "and markdown-it-py.",
    )
    page.add_argument(
        "--output",
        type=path,
        default=Path("report.html"),
        metavar="FILE",
        help="the file to write (default: %(default)s)",
    )
    page.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from reports.page.case_section import check_files
    from reports.page.html import page

    records, status = chosen(options)
    damaged = {}
    for record in records:
        try:
            check_files(record, options.results)
        except RecordError as error:
            damaged[name_of(record)] = str(error)
    if len(damaged) == len(records):
        raise RecordError("\n".join(damaged.values()))
    records = [record for record in records if name_of(record) not in damaged]
    status = max(status, status_of_unreadable(damaged.values()))
    text = page(records, options.results)
    writing.write_given(options.output, text.encode())
    # A page that goes where this is printed would end with it.
    place = sys.stderr if writing.is_standard_output(options.output) else sys.stdout
    print(f"{options.output}: wrote {len(text.encode()) / 1e6:.1f} MB", file=place)
    return status
