"""`python -m reports merge`: the records of several machines or CI jobs in one folder."""

import argparse
import sys

from reports.commands import Commands, names_left_out, path
from reports.record.foreign import one_line


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    join = commands.add_parser(
        "merge",
        parents=[names_left_out()],
        help="join the records of several machines or CI jobs into one folder",
        description="Write the records of several folders, with what stands beside them, into a new one. Each measurement "
        "is there once, whatever the order of the folders and however often one is given; of two of one point on one "
        "machine the later stands. Two machines of one kind that measured the same case stay apart, as records CASE@MACHINE. "
        "Two machine stamps of one target, or another build, are conflicts: they are named, and nothing is written.",
    )
    join.add_argument(
        "records", type=path, nargs="+", metavar="A", help="folders of records, or single files"
    )
    join.add_argument("--output", type=path, required=True, metavar="DIR", help="a new or an empty folder")
    join.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from reports.merge import folders

    found = folders.merge(options.records, options.output, anonymous=options.anonymous)
    for left in found.left_out:
        why = (
            "may name the machine" if options.anonymous and not left.is_absolute() else "belongs to no record"
        )
        print(f"left out, since it {why}: {one_line(str(left))}", file=sys.stderr)
    for sentence in found.earlier:
        print(sentence, file=sys.stderr)
    done = "wrote" if found.is_new else "already holds"
    print(f"{options.output}: {done} {found.records} record{'s' * (found.records != 1)}")
    if found.joined:
        print(f"joined from several: {', '.join(found.joined)}")
    if found.apart:
        print(f"measured by several machines, each of which has a record: {', '.join(found.apart)}")
    return 0
