"""The command line of the reports: `python -m reports`, then tables, html, plots, csv, export, compare, merge, published, readme
or doctor."""

import argparse
import io
import itertools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from reports import export, files, markers, pictures, plots, readme, record, tables
from reports.verdict import why_no_speed

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
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        print(f"error: this needs {package}: pip install {package}, or tox run -e report", file=sys.stderr)
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

    drawn = commands.add_parser(
        "plots",
        parents=[results, selection],
        help="draw the records into picture files",
        description="Draw all that each case, and all cases side by side, have to show, and print the files' names. "
        "Needs matplotlib.",
    )
    drawn.add_argument(
        "--output", type=Path, default=Path(readme.PLOTS), metavar="DIR", help="default: %(default)s"
    )
    drawn.add_argument("--format", choices=("svg", "png"), default="svg", help="default: %(default)s")
    drawn.add_argument(
        "--theme", choices=(*plots.THEMES, "both"), default="both", help="default: %(default)s"
    )
    drawn.add_argument(
        "--latency-budget-ms",
        type=_positive,
        metavar="MS",
        help="draw this budget; by default that of the case's search",
    )
    drawn.set_defaults(run=_plots)

    plain = commands.add_parser(
        "csv",
        parents=[results, selection],
        help="print every load point as a row of CSV",
        description="Print one row per load point, one column per quantity with its unit. Needs pandas.",
    )
    plain.set_defaults(run=_csv)

    out = commands.add_parser(
        "export",
        parents=[results, selection],
        help="print the records as JSON for a service that keeps benchmarks",
        description="Print JSON as Bencher's adapter `json` reads it, or github-action-benchmark's tools "
        "`customBiggerIsBetter` (throughput, scores) and `customSmallerIsBetter` (p99 latency, errors). Cases that "
        "have not passed are exported without their speed, and named on standard error.",
    )
    out.add_argument("--format", required=True, choices=export.FORMATS, help="whose JSON")
    out.set_defaults(run=_export)

    changes = commands.add_parser(
        "compare",
        parents=[selection],
        help="show what changed between the records of two runs, or more",
        description="Print what changed from A to B, and to each further one: in setup, in accuracy (paired by "
        "sample) and in speed (the ratio with its interval). Exits with 0 whatever changed. Needs numpy, scipy and, "
        "for a terminal, rich.",
        epilog="NVIDIA's published figures beside the records: python -m reports published",
    )
    changes.add_argument(
        "records",
        type=Path,
        nargs="*",
        metavar="A B",
        help="folders of records, or single files of them; A is the base",
    )
    changes.add_argument(
        "--format",
        choices=("markdown", "terminal"),
        default="terminal" if sys.stdout.isatty() else "markdown",
        help="default: terminal where standard output is one, else markdown",
    )
    changes.set_defaults(run=_compare)

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
    join.set_defaults(run=_merge)

    beside = commands.add_parser(
        "published",
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
    beside.set_defaults(run=_published)

    page = commands.add_parser(
        "html",
        parents=[results, selection],
        help="write all records as one HTML page",
        description="Write one HTML page that needs no network and no other file: a summary to filter and sort, then "
        "per case its tables, plots, configuration, machine, ledger with the worst samples, and the published figures. "
        "Needs pandas, matplotlib, jinja2 and markdown-it-py.",
    )
    page.add_argument(
        "--output", type=Path, default=Path("report.html"), metavar="FILE", help="default: %(default)s"
    )
    page.set_defaults(run=_html)

    keep = commands.add_parser(
        "readme",
        parents=[results],
        help="keep the tables and plots of a markdown file in step with the records",
        description="Write tables and plots between the markers of a markdown file. Nothing else in it changes.",
        epilog="A region lies between two lines of markers:\n\n"
        "<!-- tritonproof:summary -->\n<!-- /tritonproof:summary -->\n\n"
        f"Markers:\n{markers.overview()}\n\n"
        "A plot draws the latency budget that its marker ends with, such as 10ms; else that of the case's search.",
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
    keep.add_argument(
        "--plots",
        type=Path,
        metavar="DIR",
        help="folder of the pictures; default: where a region's picture lies, else 'plots' beside FILE",
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


def _export(options: argparse.Namespace) -> int:
    chosen = _chosen(options)
    print(json.dumps(export.FORMATS[options.format](chosen), indent=2))
    for line in export.left_out(chosen):
        print(line, file=sys.stderr)
    return 0


def _compare(options: argparse.Namespace) -> int:
    from reports import sources
    from reports.compare import compare
    from reports.compare_document import document

    if len(options.records) < 2:
        raise UsageError(
            "compare: needs two folders or files of records, or more: python -m reports compare A B. NVIDIA's published "
            "figures are set beside the records by: python -m reports published"
        )
    base, *others = sources.read(options.records, options.k)
    text = document([compare(base, other) for other in others])
    if options.format == "terminal":
        from reports.terminal import show

        show(text)
    else:
        print(text)
    return 0


def _merge(options: argparse.Namespace) -> int:
    from reports import merge, sources

    found = merge.plan(sources.read(options.records))
    is_new = merge.write(found, options.output)
    for path in found.left_out:
        print(f"left out, since it belongs to no record: {path}", file=sys.stderr)
    done = "wrote" if is_new else "already holds"
    print(f"{options.output}: {done} {len(found.cases)} record{'s' * (len(found.cases) != 1)}")
    if found.joined:
        print(f"joined from several: {', '.join(found.joined)}")
    return 0


def _published(options: argparse.Namespace) -> int:
    from reports.published.document import document, remarks
    from reports.published.joined import joined
    from reports.published.matching import match

    matches = match(_chosen(options), options.other_formats)
    if not options.csv:
        print(document(matches))
        return 0
    print(joined(matches).to_csv(index=False), end="")
    for line in remarks(matches):
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


def _html(options: argparse.Namespace) -> int:
    from reports.html import page

    text = page(_chosen(options), options.results)
    files.replace(options.output.resolve(), text.encode())
    print(f"{options.output}: wrote {len(text.encode()) / 1e6:.1f} MB")
    return 0


def _plots(options: argparse.Namespace) -> int:
    chosen = _chosen(options)
    themes = plots.THEMES if options.theme == "both" else (options.theme,)
    groups = [(record.case_id(one.case), [one]) for one in chosen] + (
        [("", chosen)] if len(chosen) > 1 else []
    )
    for case, group in groups:
        names = plots.available(group)
        if not names:
            print(f"{case}: nothing to show: {why_no_speed(group[0]) or 'no load point has been measured.'}")
        for name, theme in itertools.product(names, themes):
            path = options.output / pictures.file_name(pictures.stem(name, case), theme, options.format)
            draw = plots.png if options.format == "png" else plots.svg
            content = draw(name, group, theme, options.latency_budget_ms)
            files.replace(path, content if isinstance(content, bytes) else content.encode())
            print(path)
    return 0


def _readme(options: argparse.Namespace) -> int:
    file: Path = options.file
    folder = pictures.link_to(options.plots, file) if options.plots else None
    try:
        text = file.read_bytes().decode()
        records = files.read_all(options.results)
        synced, names = readme.sync(text, records, folder), readme.drifted(text, records, folder)
        shown = readme.pictures(synced, records, file.resolve().parent)
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except readme.ReadmeError as error:
        raise UsageError(f"{file}: {error}") from error
    stale = [picture for picture in shown if not pictures.is_in_step(picture)]
    named = [*names, *(os.path.relpath(picture.path) for picture in stale)]
    if not named:
        print(f"{file}: in step with the records")
        return 0
    if options.check:
        print(f"{file}: differs from the records in {', '.join(named)}\n")
        print(f"{readme.difference(text, synced)}\n" if names else "", end="\n" if names else "")
        given = ["--plots", str(options.plots)] if options.plots else []
        command = shlex.join(["readme", str(file), "--results", str(options.results), *given])
        print(f"Write it: python -m reports {command}")
        return 1
    for picture in stale:
        pictures.write(picture)
    if names:
        files.replace(file.resolve(), synced.encode())
    print(f"{file}: wrote {', '.join(named)}")
    return 0


def _positive(text: str) -> float:
    """A finite number above zero."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of milliseconds above 0")
    return value


def _doctor(options: argparse.Namespace) -> int:
    # A program of its own: the reports import nothing of what measures.
    given = [] if options.triton is None else ["--triton", options.triton]
    command = [sys.executable, "-m", "fixtures.doctor", *given]
    return subprocess.run(command, cwd=Path(__file__).parent.parent, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
