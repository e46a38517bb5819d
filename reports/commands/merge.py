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
        description="Write the records of several folders, and the files that belong to them, into a new folder. Each "
        "measurement is kept once, whatever the order of the folders and however often a folder is given. If "
        "one machine measured a load point twice, the later measurement is kept. If two machines of one kind "
        "measured the same case, both records are kept, as CASE@MACHINE. It is a conflict if the records of one "
        "target come from machines with different stamps (hardware, driver, system, versions), or a case has two "
        "builds: every conflict is named, and nothing is written.",
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
    from reports.merge import folders

    found = folders.merge(options.records, options.output, anonymous=options.anonymous)
    for left in found.left_out:
        print(f"left out, since it {_why_left(left, options.anonymous)}: {path_text(left)}", file=sys.stderr)
    for sentence in found.earlier:
        print(sentence, file=sys.stderr)
    done = "wrote" if found.is_new else "already holds"
    print(f"{options.output}: {done} {found.records} record{'s' * (found.records != 1)}")
    if found.joined:
        print(f"joined from several: {', '.join(found.joined)}")
    if found.apart:
        print(f"measured by several machines, each of which has a record: {', '.join(found.apart)}")
    return 0


def _why_left(path: Path, anonymous: bool) -> str:
    if anonymous and not path.is_absolute():
        return "may name the machine"
    if files.is_record(path):
        return "lies deeper than records are read from (TARGET/CASE.json)"
    return "belongs to no record"
