"""`python -m reports csv`: every load point as a row of CSV."""

import argparse

from reports.commands import Commands, chosen, shared


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    plain = commands.add_parser(
        "csv",
        parents=[shared("--results", "-k", "--anonymous")],
        help="print the load points as CSV",
        description="Print one row for each load point, with one column for each quantity and the unit in the column's "
        "name. Needs pandas.",
    )
    plain.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from reports.export import load_points
    from reports.tables.rendering import csv_text

    records, status = chosen(options)
    print(csv_text(load_points(records)), end="")
    return status
