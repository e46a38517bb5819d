"""`python -m reports tables`: print the tables of all records."""

import argparse
import itertools

from reports import tables
from reports.commands import Commands, chosen, shared
from reports.words.shown import name_of


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
    print(f"# Summary\n\n{tables.summary_table(records)}")
    for target, group in itertools.groupby(records, key=lambda r: r.case.target):
        of_target = list(group)
        print(f"\n## {target}\n\n{tables.machine_sentence(of_target)}")
        for one in of_target:
            print(f"\n### {name_of(one)}\n\n{tables.case_section(one)}")
    return status
