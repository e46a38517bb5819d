"""`python -m reports merge`: the records of several machines or CI jobs in one folder."""

import argparse
import sys
from pathlib import Path

from reports.commands import Commands, path, shared
from reports.record import files
from reports.record.foreign import path_text


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    join = commands.add_parser(
        "merge",
        parents=[shared("--anonymous")],
        help="join the records of several machines or CI jobs into one folder",
        description="Write the records of several folders, and the files that belong to them, into a new folder. Parts of "
        "one case become one record. Nothing is written where the records of one target are of different machines, where "
        "a case has two builds, or where two records have different figures of the same thing: each such contradiction is "
        "named.",
    )
    join.add_argument(
        "records", type=path, nargs="+", metavar="A", help="folders of records, or single record files"
    )
    join.add_argument(
        "--output",
        type=path,
        required=True,
        metavar="DIR",
        help="the folder to write, which has to be new or empty",
    )
    join.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from reports.merge import merge

    found = merge(options.records, options.output, anonymous=options.anonymous)
    for left in found.left_out:
        print(f"left out, since it {_why_left(left)}: {path_text(left)}", file=sys.stderr)
    print(f"{options.output}: wrote {found.records} record{'s' * (found.records != 1)}")
    if found.joined:
        print(f"joined from several: {', '.join(found.joined)}")
    return 0


def _why_left(path: Path) -> str:
    if path.name.endswith(".server.log"):
        return "is a log of no record, of an earlier one of its case, or may name the machine"
    if files.is_record(path):
        return "lies deeper than records are read from (TARGET/CASE.json)"
    return "belongs to no record"
