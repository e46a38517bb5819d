"""`python -m reports compare`: what changed between the records of two runs, or more."""

import argparse
import math
import sys
from typing import TYPE_CHECKING

from reports.commands import Commands, UsageError, path, shared
from reports.record.arguments import ACCURACY, LEAK, SPEED, status_of_unreadable

if TYPE_CHECKING:  # it needs numpy and scipy
    from reports.compare.changes import Changes


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    changes = commands.add_parser(
        "compare",
        parents=[shared("-k")],
        help="show what changed between the records of two or more runs",
        description="Print what changed from A to B, and from A to every further argument: the setup, the accuracy "
        "(compared sample by sample), the speed (as a ratio with its interval) and the growth in soaks. The exit status is 0 "
        "whatever changed, unless --fail-on is given. Needs numpy, scipy and, for output to a terminal, rich.",
        epilog="To set NVIDIA's published figures beside the records: python -m reports published",
    )
    changes.add_argument(
        "records",
        type=path,
        nargs="*",
        metavar="A B",
        help="folders of records, or single record files; A is what the others are compared with",
    )
    changes.add_argument(
        "--format",
        choices=("markdown", "terminal", "html", "csv", "json"),
        default="terminal" if sys.stdout.isatty() else "markdown",
        help="the form of the output (default: terminal if standard output is one, else markdown)",
    )
    changes.add_argument(
        "--fail-on",
        choices=("worse",),
        help="exit with 10 if a point is shown to be slower than --allow-slowdown allows, with 11 if a soak found a leak "
        "that the earlier one did not, or a larger one, with 12 if an accuracy is shown to be worse or a case no "
        "longer passes, and with 4 if nothing can be compared or the machines differ",
    )
    changes.add_argument(
        "--allow-slowdown",
        type=_percent,
        default=0.0,
        metavar="PERCENT",
        help="how much slower a point may be before it counts as slower (default: 0)",
    )
    changes.set_defaults(run=_run)


def _percent(text: str) -> float:
    """A percentage from 0 on and below 100, as a fraction."""
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError("it is no percentage from 0 to below 100")
    return value / 100


def _run(options: argparse.Namespace) -> int:
    from reports import sources
    from reports.compare.changes import compare
    from reports.compare.document import document
    from reports.tables.rendering import print_as

    if len(options.records) < 2:
        raise UsageError(
            "compare: needs two folders or files of records, or more: python -m reports compare A B. NVIDIA's published "
            "figures are set beside the records by: python -m reports published"
        )
    base, *others = sources.read(options.records, options.k)
    found = [compare(base, other, options.allow_slowdown) for other in others]
    text = document(found)
    print_as(options.format, text)
    unreadable = status_of_unreadable(why for source in (base, *others) for why in source.unreadable)
    return max(unreadable, *map(_status, found)) if options.fail_on else unreadable


_MAY_DIFFER = ("machine.gpu_driver", "machine.gpu_uuids")
"""What one changes of a machine to see the effect of."""


def _status(changes: "Changes") -> int:
    """The exit status by what changed. Raises UsageError where the records allow no verdict: what compares nothing would
    look like what found nothing worse."""
    names = f"{changes.before.name} and {changes.after.name}"
    setup = {one.name for case in changes.cases for one in case.setup} - {*_MAY_DIFFER}
    if any(name.startswith("machine.") for name in setup):
        raise UsageError(f"compare: {names} are of different machines, whose speeds say nothing of a change")
    points = [point for case in changes.cases for point in case.points if point.ratio is not None]
    pairs = [score.pairs for case in changes.cases for score in case.scores if score.pairs is not None]
    fails_now = any(one.after.record.no_speed and not one.before.record.no_speed for one in changes.cases)
    if fails_now or any(one.verdict == "failed" for one in pairs):
        return ACCURACY
    grown = [one for case in changes.cases for one in case.growth]
    if not points and not pairs and not grown:
        raise UsageError(
            f"compare: {names} have no load point and no sample in common that could be compared, nor soaks"
        )
    if any(case.leaks_more for case in changes.cases):
        return LEAK
    return SPEED if any(point.verdict == "failed" for point in points) else 0
