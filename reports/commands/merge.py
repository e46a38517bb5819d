"""`python -m reports merge`: the records of several machines or CI jobs in one folder."""

import argparse
import sys
from pathlib import Path

from reports.commands import Commands


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    join = commands.add_parser(
        "merge",
        help="join the records of several machines or CI jobs into one folder",
        description="Write the records of several folders, with what stands beside them, into a new one. Load points of "
        "one case become one record where machine, build and setup are the same. Two machine stamps of one target, or "
        "different figures of one point, are conflicts: they are named, and nothing is written.",
    )
    join.add_argument(
        "records", type=Path, nargs="+", metavar="A", help="folders of records, or single files"
    )
    join.add_argument("--output", type=Path, required=True, metavar="DIR", help="a new or an empty folder")
    join.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from reports.merge import folders
    from reports.record import sources

    found = folders.plan(sources.read(options.records))
    is_new = folders.write(found, options.output)
    for path in found.left_out:
        print(f"left out, since it belongs to no record: {path}", file=sys.stderr)
    done = "wrote" if is_new else "already holds"
    print(f"{options.output}: {done} {len(found.cases)} record{'s' * (len(found.cases) != 1)}")
    if found.joined:
        print(f"joined from several: {', '.join(found.joined)}")
    return 0
