"""The command line of the reports: `python -m reports tables`, `csv`, `compare`, `readme` and `doctor`."""

import argparse
import io
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from reports import files, readme, record, tables

RESULTS = Path("reports/results")


class UsageError(Exception):
    """What was asked for cannot be done; the message says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 where a check found drift, 2 for an error."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ± or µ still gets its tables
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"error: {error.filename or '-'}: {error.strerror}", file=sys.stderr)
        return 2
    except (UsageError, files.RecordError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reports",
        description="Turn the records of measured cases into tables.",
        epilog="Records come from the benchmarks: tox run -e benchmarks",
    )
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")

    results = argparse.ArgumentParser(add_help=False)
    results.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="folder of the records (default: %(default)s)",
    )

    selection = argparse.ArgumentParser(add_help=False)
    selection.add_argument("-k", default="", metavar="SUBSTRING", help="only cases whose name contains this")

    show = commands.add_parser(
        "tables",
        parents=[results, selection],
        help="print the tables of all records",
        description="Print a summary of all cases, then the tables of each, grouped by target.",
    )
    show.set_defaults(run=_tables)

    plain = commands.add_parser(
        "csv",
        parents=[results, selection],
        help="print every load point as a row of CSV",
        description="Print one row per load point, one column per quantity with its unit. Needs pandas.",
    )
    plain.set_defaults(run=_csv)

    beside = commands.add_parser(
        "compare",
        parents=[results, selection],
        help="set records beside the figures NVIDIA published",
        description="Print each case beside the published figures of the same model, format, accelerator, "
        "precision and load points, with the ratios of throughput and latency: on its own GPU where they were "
        "published for it, else on each that they were published for. Settings that differ are named. "
        "Needs pandas.",
    )
    beside.add_argument(
        "--other-formats",
        action="store_true",
        help="set a case whose format, accelerator and precision were not published beside those that were",
    )
    beside.add_argument(
        "--csv",
        action="store_true",
        help="print one row of CSV per measured point and published row; the rest goes to standard error",
    )
    beside.set_defaults(run=_compare)

    keep = commands.add_parser(
        "readme",
        parents=[results],
        help="keep the tables of a markdown file in step with the records",
        description="Write the tables between the markers of a markdown file. Nothing else in it changes.",
        epilog=f"Markers:\n\n{readme.EXAMPLE.format(case='CASE_ID')}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    keep.add_argument(
        "file", nargs="?", type=Path, default=Path("README.md"), metavar="FILE", help="default: %(default)s"
    )
    keep.add_argument(
        "--check",
        action="store_true",
        help="write nothing; show what differs and exit with status 1 if anything does",
    )
    keep.set_defaults(run=_readme)

    doctor = commands.add_parser(
        "doctor",
        help="say what could go wrong on this machine when cases are measured, each with its cure",
        description="Look at this machine and this Python's packages. Exit status 1 where the benchmarks would stop.",
    )
    doctor.add_argument("--triton", metavar="SERVER", help="the server that is meant, as for the benchmarks")
    doctor.set_defaults(run=_doctor)
    return parser


def _chosen(options: argparse.Namespace) -> list[record.Record]:
    """The records that the options select; raises UsageError if there are none."""
    records = files.read_all(options.results)
    if not records:
        raise UsageError(
            f"{options.results}: no records (TARGET/CASE.json). Measure some: tox run -e benchmarks"
        )
    chosen = [r for r in records if options.k in record.case_id(r.case)]
    if not chosen:
        names = ", ".join(record.case_id(r.case) for r in records)
        raise UsageError(f"{options.results}: no case has {options.k!r} in its name. There are: {names}")
    return chosen


def _csv(options: argparse.Namespace) -> int:
    from reports.frame import load_points

    print(load_points(_chosen(options)).to_csv(index=False), end="")
    return 0


def _compare(options: argparse.Namespace) -> int:
    from reports import compare

    comparisons = compare.compare(_chosen(options), options.other_formats)
    if not options.csv:
        print(compare.document(comparisons))
        return 0
    print(compare.joined(comparisons).to_csv(index=False), end="")
    for line in compare.remarks(comparisons):
        print(line, file=sys.stderr)
    return 0


def _tables(options: argparse.Namespace) -> int:
    chosen = _chosen(options)
    print(f"# Summary\n\n{tables.summary_table(chosen)}")
    for target, group in itertools.groupby(chosen, key=lambda r: r.case.target):
        of_target = list(group)
        print(f"\n## {target}\n\n{tables.machine_sentence(of_target)}")
        for one in of_target:
            print(f"\n### {record.case_id(one.case)}\n\n{tables.case_section(one)}")
    return 0


def _readme(options: argparse.Namespace) -> int:
    file: Path = options.file
    try:
        text = file.read_bytes().decode()
        records = files.read_all(options.results)
        synced, names = readme.sync(text, records), readme.drifted(text, records)
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except readme.ReadmeError as error:
        raise UsageError(f"{file}: {error}") from error
    if not names:
        print(f"{file}: in step with the records")
        return 0
    if options.check:
        print(
            f"{file}: differs from the records in {', '.join(names)}\n\n{readme.difference(text, synced)}\n"
        )
        print(f"Write it: python -m reports readme {file} --results {options.results}")
        return 1
    files.replace(file.resolve(), synced.encode())
    print(f"{file}: wrote {', '.join(names)}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    # A program of its own: the reports import nothing of what measures.
    given = [] if options.triton is None else ["--triton", options.triton]
    command = [sys.executable, "-m", "fixtures.doctor", *given]
    return subprocess.run(command, cwd=Path(__file__).parent.parent, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
