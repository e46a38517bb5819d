"""`python -m reports tables`: print the tables of all records."""

import argparse
import itertools

from reports.commands import Commands, chosen, shared
from reports.tables.case import case_section
from reports.tables.rendering import print_as
from reports.tables.summary import machine_blocks, summary
from reports.tables.table import Block, Heading
from reports.text.publishable import name_of


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    show = commands.add_parser(
        "tables",
        parents=[shared("--results", "-k", "--anonymous")],
        help="print the tables of all records as markdown",
        description="Print a summary of all cases, then the tables of each case, grouped by target.",
    )
    show.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    records, status = chosen(options)
    blocks: list[Block] = [Heading("Summary", 1), *summary(records)]
    for target, group in itertools.groupby(records, key=lambda r: r.case.target):
        of_target = list(group)
        blocks += [Heading(target, 2), *machine_blocks(of_target)]
        for one in of_target:
            blocks += [Heading(name_of(one), 3), *case_section(one)]
    print_as("markdown", blocks)
    return status
