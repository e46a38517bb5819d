"""`python -m reports trend`: how each case's figures went from run to run, and where they changed for good."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports import history, plots
from reports.commands import Commands, UsageError, count, path, shared, themes_of
from reports.record import files, writing
from reports.record.arguments import ACCURACY, LEAK, SPEED, status_of_unreadable
from reports.record.folders import matching
from reports.record.foreign import quoted
from reports.words import sources

if TYPE_CHECKING:  # it needs ruptures, which other commands do without
    from reports.trend import Series


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    trend = commands.add_parser(
        "trend",
        parents=[shared("--results", "-k", "--history", "--theme")],
        help="show how the figures changed over time, and between which commits",
        description="Print a table of the history: the throughput, p99 latency, served / in process ratio, accuracy and "
        "growth in soaks of every case, separately for each machine, with the lasting changes (steps) that were found. With "
        "--output they are also drawn. Needs ruptures, pandas and matplotlib.",
    )
    trend.add_argument(
        "--add",
        type=path,
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="first add the measurements of records or histories of other machines or CI jobs; a measurement that "
        "is already there is not added again",
    )
    trend.add_argument(
        "--output",
        type=path,
        metavar="DIR",
        help="also draw the history into this folder, as trend-light.svg and trend-dark.svg",
    )
    trend.add_argument(
        "--join-hosts",
        action="store_true",
        help="treat hosts with the same machine stamp as one machine, for runs that each have a container of their own",
    )
    trend.add_argument(
        "--fail-on",
        choices=("step",),
        help="exit with 10 if a speed has a step for the worse within the latest runs (--within), with 11 if what a soak "
        "watched has one, and with 12 if an accuracy has one",
    )
    trend.add_argument(
        "--within",
        type=count,
        default=50,
        metavar="N",
        help="how many of the latest runs of a series --fail-on looks at; older steps are ignored. A step is found only "
        "some runs after its commit, and only after tens of runs if measurements vary much (default: %(default)s)",
    )
    trend.add_argument(
        "--known",
        metavar="COMMIT",
        help="--fail-on ignores the steps up to this commit, which have been accepted",
    )
    trend.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from reports import trend

    folder = options.history or history.folder_of(options.results)
    if options.output is not None:
        writing.check_folder(options.output)  # before the history is added to
    status = _add(folder, options.add)
    rows = _read(folder).rows
    # All cases together tell what the machine did, so that steps are the same whatever is shown of them.
    every = trend.all_series(rows, join_hosts=options.join_hosts)
    found = [one for one in every if options.k in one.case]
    if not rows:
        raise UsageError(
            f"{folder}: no history (TARGET.jsonl). A run of the benchmarks adds to it, and --add FOLDER what other "
            "machines measured."
        )
    if not found:
        names = ", ".join(dict.fromkeys(one.case for one in every))
        raise UsageError(f"{folder}: no case has {options.k!r} in its name. There are: {names}")
    print(trend.table(found))
    for theme in themes_of(options) if options.output is not None else ():
        place = options.output / f"trend-{theme}.svg"
        files.replace(place, plots.rendered(lambda: trend.picture(found), theme))
        print(place)
    return max(status, _status(found, options)) if options.fail_on else status


def _read(folder: Path) -> history.History:
    """The history of a folder; names its damaged lines."""
    found = history.read(folder)
    for sentence in found.damaged:
        print(sentence, file=sys.stderr)
    return found


def _add(folder: Path, given: list[Path]) -> int:
    """Add the measurements of what is given; returns the exit status, which tells of records that cannot be read."""
    unreadable: list[str] = []
    for source in given:
        found = _read(source if matching(source, f"*{history.SUFFIX}") else history.folder_of(source))
        rows = [*found.rows]
        if files.record_paths(source) or files.record_paths_in(source) or not rows:
            (read,) = sources.read([source])
            rows += [row for one in read.records.values() for row in history.rows_of(one.record)]
            unreadable += read.unreadable
        print(f"{source}: added {history.append(folder, rows)} measurements to {folder}", file=sys.stderr)
    return status_of_unreadable(unreadable)


def _status(found: Sequence["Series"], options: argparse.Namespace) -> int:
    """The exit status, once each step that decides it is named."""
    from reports import trend

    after = ""
    if options.known:
        of_commit = [
            row.started for one in found for row in one.rows if (row.commit or "").startswith(options.known)
        ]
        if not of_commit:
            raise UsageError(f"--known {quoted(options.known)}: no run in the history is of this commit")
        after = max(of_commit)
    status = 0
    for one in found:
        for step in one.steps:
            is_recent = step.at >= len(one.rows) - options.within and step.after.started > after
            if step.is_worse and is_recent:
                said = f"{one.case}, {one.at}, {one.followed.name}: {trend.step_text(one, step)}"
                print(f"worse within the latest {options.within} runs: {said}", file=sys.stderr)
                of_figure = {"score": ACCURACY, "error": ACCURACY}.get(one.figure, SPEED)
                status = max(status, LEAK if one.figure.startswith("growth") else of_figure)
    return status
