"""`python -m reports plots`: records drawn into picture files."""

import argparse
import itertools
from pathlib import Path

from reports import plots
from reports.commands import Commands, chosen, path, shared, themes_of
from reports.marked import pictures, regions
from reports.record import files
from reports.record.foreign import quoted
from reports.words.shown import name_of


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    drawn = commands.add_parser(
        "plots",
        parents=[shared("--results", "-k", "--anonymous", "--theme")],
        help="draw the records as picture files",
        description="Draw the plots of each case and those that show all cases side by side, and print the names of the "
        "files. Needs matplotlib.",
    )
    drawn.add_argument(
        "--output",
        type=path,
        default=Path(regions.PLOTS),
        metavar="DIR",
        help="the folder for the pictures (default: %(default)s)",
    )
    drawn.add_argument(
        "--format",
        choices=("svg", "png"),
        default="svg",
        help="the format of the pictures (default: %(default)s)",
    )
    drawn.add_argument(
        "--latency-budget-ms",
        type=_positive,
        metavar="MS",
        help="draw a line at this latency (default: the budget of the case's search, if it had one)",
    )
    drawn.set_defaults(run=_run)


def _positive(text: str) -> float:
    """A finite number above zero."""
    try:
        value = float(text[:40])
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a number of milliseconds above 0")
    return value


def _run(options: argparse.Namespace) -> int:
    records, status = chosen(options)
    groups = [(name_of(one), [one]) for one in records] + ([("", records)] if len(records) > 1 else [])
    for case, group in groups:
        names = plots.available(group)
        if not names:
            print(f"{case}: nothing to show: {group[0].no_speed or 'no load point has been measured.'}")
        for name, theme in itertools.product(names, themes_of(options)):
            path = options.output / pictures.file_name(pictures.stem(name, case), theme, options.format)
            chart = plots.chart(name, group, options.latency_budget_ms)
            files.replace(path, plots.draw(chart, theme, options.format))
            print(path)
    return status
