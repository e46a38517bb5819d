"""The command line `tritonproof report COMMAND`. A command is a function with its help as docstring: it adds
its arguments to its parser, imports what only it needs, and returns the exit status."""

import argparse
import contextlib
import difflib
import inspect
import io
import itertools
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tritonproof.base import commands, disk, paths
from tritonproof.base.commands import Parser, count_argument, no_case, path_argument
from tritonproof.base.disk import strict_glob
from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt, visible
from tritonproof.record import record_files
from tritonproof.record.quantities import SIZE
from tritonproof.record.record_files import RecordError
from tritonproof.reports import export, history, plots, readme
from tritonproof.reports.phrases import counted, grouped
from tritonproof.reports.plots import Theme
from tritonproof.reports.publishable import Publishable, publishable, publishable_together
from tritonproof.reports.tables.case import case_section
from tritonproof.reports.tables.rendering import RENDERINGS, csv_text, print_as
from tritonproof.reports.tables.summary import machine_blocks, summary
from tritonproof.reports.tables.table import Block, Heading

_Parse = Callable[[], argparse.Namespace]  # parses the line when a command has added its arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status: 0; 1 if `readme --check` found a difference; 4 if an input
    cannot be used or an output not written; 10 or 12 if `compare` or `trend` failed by --fail-on."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    called = parser.parse_args(words[:1])
    if called.command is None:
        parser.print_help()
        return 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ± or µ still gets its tables
    try:
        status: int = called.run(called.parser, lambda: parser.parse_args(words))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        reason = commands.os_error_text(error)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0].replace("markdown_it", "markdown-it-py")
        reason = f"this needs {package}: {sys.executable} -m pip install {package}"
    except (InputError, RecordError) as error:
        reason = str(error)
    print(f"error: {visible(reason)}", file=sys.stderr)
    return commands.EXIT_INPUT


def _percent(text: str) -> float:
    """A fraction from 0 to below 1, given in percent."""
    with contextlib.suppress(ValueError):
        if 0 <= (value := float(text.strip().removesuffix("%"))) < 100:
            return value / 100
    raise argparse.ArgumentTypeError(f"'{excerpt(text)}' is not a percentage from 0 to below 100")


_SHARED: Mapping[str, Mapping[str, Any]] = {
    "--results": {
        "type": path_argument,
        "default": Path("reports/results"),
        "metavar": "DIR",
        "help": "the folder of the records (default: %(default)s)",
    },
    "-k": {"default": "", "metavar": "SUBSTRING", "help": "use only the cases whose name contains SUBSTRING"},
    "--theme": {
        "choices": (*plots.THEMES, "both"),
        "help": "for pages with a light or a dark background (default: both)",
    },
    "--format": {
        "choices": (*RENDERINGS, "terminal"),
        "default": "terminal" if sys.stdout.isatty() else "markdown",
        "help": "the form of the output; csv holds the tables alone, with their figures as numbers "
        "(default: terminal if standard output is one, else markdown)",
    },
}
"""The options that several commands share, each with its arguments for `add_argument`."""


def _add_shared(parser: Parser, flags: str) -> Callable[..., object]:
    """Add these options of _SHARED. Returns the function that adds a command's own."""
    for flag in flags.split():
        parser.add_argument(flag, **_SHARED[flag])
    return parser.add_argument


def _chosen_records(options: argparse.Namespace) -> dict[Path, Publishable]:
    """The selected records by file. Raises RecordError if one is unreadable, InputError if there are none."""
    stored = record_files.read_folder(options.results)
    records = dict(zip(stored, publishable_together(stored.values()), strict=True))
    if not records:
        fix = f"measure some: {commands.benchmarks_command()}"
        raise InputError("there are no records (TARGET/CASE.json)", where=options.results, fix=fix)
    chosen = {path: record for path, record in records.items() if options.k in record.name}
    if not chosen:
        raise no_case(options.results, options.k, [record.name for record in records.values()])
    return chosen


def _themes(options: argparse.Namespace) -> Sequence[Theme]:
    return (options.theme,) if options.theme in plots.THEMES else plots.THEMES


def _tables(parser: Parser, parse: _Parse) -> int:
    """Print a summary of all cases, then the tables of each case, grouped by target."""
    _add_shared(parser, "--results -k --format")
    options = parse()
    records = [*_chosen_records(options).values()]
    blocks: list[Block] = [Heading("Summary", 1), *summary(records)]
    for target, of_target in grouped(records, lambda record: record.case.target).items():
        blocks += [Heading(target, 2), *machine_blocks(of_target)]
        for record in of_target:
            blocks += [Heading(record.name, 3), *case_section(record)]
    print_as(options.format, blocks)
    return 0


def _html(parser: Parser, parse: _Parse) -> int:
    """Write all records as one HTML page. It needs no network and no other file: which configuration to
    deploy, all cases to filter and sort, and the tables, worst samples and machine of each."""
    option = _add_shared(parser, "--results -k")
    note = "the file to write (default: %(default)s)"
    option("--output", type=path_argument, default=Path("report.html"), metavar="FILE", help=note)
    options = parse()
    from tritonproof.reports.page import page, section_of

    content = page([section_of(record, path) for path, record in _chosen_records(options).items()]).encode()
    disk.write_user_file(options.output, content)
    print(f"{options.output}: wrote {SIZE.text(len(content) / 2**20)}", file=sys.stderr)
    return 0


def _plots(parser: Parser, parse: _Parse) -> int:
    """Draw the plots of each case and those of all cases side by side. Prints the names of the files."""
    option = _add_shared(parser, "--results -k --theme")
    note = "the folder for the pictures (default: %(default)s)"
    option("--output", type=path_argument, default=Path(readme.PLOTS), metavar="DIR", help=note)
    option("--format", choices=("svg", "png"), default="svg", help="the kind of file (default: %(default)s)")
    options = parse()
    records = [*_chosen_records(options).values()]
    groups = {record.name: [record] for record in records}
    if len(records) > 1:
        groups[""] = records
    for case, group in groups.items():
        charts, reasons = plots.available(group)
        if not charts:
            print(visible(f"{case or 'all cases'}: nothing to show: {' '.join(reasons)}"))
        for (name, chart), theme in itertools.product(charts.items(), _themes(options)):
            picture = options.output / readme.picture_name(name, case, theme, ending=options.format)
            disk.write_atomically(picture, plots.draw(chart, theme, options.format))
            print(picture)
    return 0


def _csv(parser: Parser, parse: _Parse) -> int:
    """Print the load points as CSV. Each is a row, with a column for each quantity, named with its unit."""
    _add_shared(parser, "--results -k")
    print(csv_text(export.data_frame([*_chosen_records(parse()).values()])), end="")
    return 0


def _export(parser: Parser, parse: _Parse) -> int:
    """Print the records as JSON for a service that tracks benchmarks: for Bencher's adapter `json`, or for
    github-action-benchmark's tools `customBiggerIsBetter` (throughput, scores) and `customSmallerIsBetter`
    (p99 latency, errors). A case that has not passed has no speed, and is named on standard error."""
    option = _add_shared(parser, "--results -k")
    note = f"what reads it: {' or '.join(export.FORMATS)}"
    option("--format", required=True, choices=export.FORMATS, metavar="FORMAT", help=note)
    options = parse()
    records = [*_chosen_records(options).values()]
    print(json.dumps(export.FORMATS[options.format](records), indent=2))
    _name_left_out(records)
    return 0


def _name_left_out(records: Sequence[Publishable]) -> None:
    """Name each case whose speed may not be shown, and why."""
    for record in records:
        if record.why_no_speed:
            print(visible(f"{record.name}: {record.why_no_speed}"), file=sys.stderr)


def _compare(parser: Parser, parse: _Parse) -> int:
    """Print what changed from BEFORE to AFTER: setup, accuracy by sample, speed as a ratio with interval."""
    option = _add_shared(parser, "-k --format")
    option("before", type=path_argument, metavar="BEFORE", help="a folder of records, or the file of one")
    option("after", type=path_argument, metavar="AFTER", help="what is compared with BEFORE")
    note = (
        "exit with 10 if a point is shown to be slower than --allow-slowdown allows, with 12 if an accuracy "
        "is shown to be worse or a case no longer passes, and with 4 if the machines differ, or a case, a "
        "load point whose test failed, or a fallen or missing score cannot be compared"
    )
    option("--fail-on", choices=("worse",), help=note)
    note = "how much slower a point may be before it counts as slower (default: 0)"
    option("--allow-slowdown", type=_percent, default=0.0, metavar="PERCENT", help=note)
    options = parse()
    from tritonproof.reports.compare import compare_records, exit_status, read_record_sets
    from tritonproof.reports.tables.changes import comparison_blocks

    before, after = read_record_sets((options.before, options.after), options.k)
    cases = compare_records(before, after, options.allow_slowdown)
    print_as(options.format, comparison_blocks(before, after, cases))
    return exit_status(cases, f"{options.before} and {options.after}") if options.fail_on else 0


def _trend(parser: Parser, parse: _Parse) -> int:
    """Show how the figures changed over time, and between which commits. The table has the throughput, p99
    latency, served / in process ratio and accuracy of every case, separately for each machine, with the
    lasting changes (level shifts) that were found."""
    option = _add_shared(parser, "--results -k --theme")
    note = "the folder of the history (default: reports/history, or DIR/history with --results DIR)"
    option("--history", type=path_argument, metavar="DIR", help=note)
    note = "first add the measurements of records or histories of other machines or CI jobs, each once"
    option("--add", type=path_argument, nargs="+", default=[], metavar="FOLDER", help=note)
    note = "also draw the history, as DIR/trend-{light,dark}.svg"
    option("--output", type=path_argument, metavar="DIR", help=note)
    note = "treat hosts with the same machine stamp as one, for runs that each have a container of their own"
    option("--join-hosts", action="store_true", help=note)
    note = "exit with 10 if a speed, with 12 if an accuracy has a shift for the worse in the latest runs"
    option("--fail-on", choices=("shift",), help=note)
    note = "in how many of a series' latest runs --fail-on looks for a shift (default: 50)"
    option("--within", type=count_argument, metavar="N", help=note)
    note = "--fail-on ignores the shifts up to this commit, which have been accepted"
    option("--known", metavar="COMMIT", help=note)
    options = parse()
    from tritonproof.reports import trend

    history_folder = options.history or paths.history_folder(options.results)
    if (options.known or options.within) and not options.fail_on:
        raise InputError("--known and --within say which shifts fail", fix="give --fail-on shift too")
    if options.theme and options.output is None:
        raise InputError("--theme is that of the picture, which --output DIR draws", fix="give both")
    if options.output is not None:
        disk.check_folder(options.output)  # before anything is added to the history
    _add_to_history(history_folder, options.add)
    rows = _history_rows(history_folder)
    # All cases together show what the machine did, so shifts stay the same whatever cases are chosen.
    all_series = trend.all_series(rows, join_hosts=options.join_hosts)
    chosen = [series for series in all_series if options.k in series.case]
    if not rows:
        fix = "run the benchmarks, or add what other machines measured: --add FOLDER"
        raise InputError("there is no history (TARGET.jsonl)", where=history_folder, fix=fix)
    if not chosen:
        raise no_case(history_folder, options.k, (series.case for series in all_series))
    print(trend.table(chosen))
    for theme in _themes(options) if options.output is not None else ():
        svg_file = options.output / f"trend-{theme}.svg"
        disk.write_atomically(svg_file, plots.rendered(lambda: trend.picture(chosen), theme))
        print(svg_file)
    within = options.within or 50
    worse = trend.worse_shifts(chosen, within, options.known) if options.fail_on else []
    for _, sentence in worse:
        print(visible(f"worse within the latest {within} runs: {sentence}"), file=sys.stderr)
    return max((status for status, _ in worse), default=0)


def _history_rows(folder: Path) -> list[history.HistoryRow]:
    rows, damaged = history.read(folder)
    for sentence in damaged:
        print(sentence, file=sys.stderr)
    return rows


def _add_to_history(folder: Path, sources: Sequence[Path]) -> None:
    for source in sources:
        has_rows = bool(strict_glob(source, f"*{history.SUFFIX}"))
        rows = _history_rows(source if has_rows else paths.history_folder(source))
        if record_files.record_paths(source) or not rows:
            records = record_files.read_argument(source).values()
            rows += [row for record in records for row in history.rows_of(publishable(record))]
        print(f"{source}: added {history.append(folder, rows)} measurements to {folder}", file=sys.stderr)


def _merge(parser: Parser, parse: _Parse) -> int:
    """Put the records of several machines or CI jobs into a new folder, with the files that belong to them.
    Nothing is written if two are of the same case, or a target's are of different machines."""
    option = parser.add_argument
    note = "folders of records, or single record files"
    option("records", type=path_argument, nargs="+", metavar="RECORDS", help=note)
    note = "the folder to write, which has to be new or empty"
    option("--output", type=path_argument, required=True, metavar="DIR", help=note)
    note = "leave out names of hosts and baselines, UUIDs of GPUs, reasons of failures and the server's logs"
    option("--anonymous", action="store_true", help=note)
    options = parse()
    from tritonproof.reports.merge import merge

    number = merge(options.records, options.output, anonymous=options.anonymous)
    print(f"{options.output}: wrote {counted(number, 'record')}")
    return 0


def _published(parser: Parser, parse: _Parse) -> int:
    """Compare the records with the figures that NVIDIA published of the same model, format, accelerator,
    precision and load points, on a case's own GPU if there are any, else on all; names what differs."""
    _add_shared(parser, "--results -k --format")
    options = parse()
    from tritonproof.reports.tables.nvidia_readmes import nvidia_blocks

    records = [*_chosen_records(options).values()]
    print_as(options.format, nvidia_blocks(records))
    if options.format == "csv":  # it holds tables alone
        _name_left_out(records)
    return 0


def _readme(parser: Parser, parse: _Parse) -> int:
    """Write tables and plots between the markers of a markdown file, without hosts' names and GPUs' ids."""
    parser.epilog = (
        "A region lies between two lines of markers:\n\n<!-- tritonproof:summary -->\n<!-- "
        f"/tritonproof:summary -->\n\nMarkers:\n{readme.overview()}\n\nPictures are written where the "
        "region's picture is, or else to 'plots' beside FILE."
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    option = _add_shared(parser, "--results")
    note = "the markdown file (default: %(default)s)"
    option("file", nargs="?", type=path_argument, default=Path("README.md"), metavar="FILE", help=note)
    note = "write nothing, show what differs, and exit with status 1 if anything does"
    option("--check", action="store_true", help=note)
    options = parse()
    file: Path = options.file
    try:
        text = disk.content(Path(os.path.realpath(file))).decode()
        records = map(record_files.without_names, record_files.read_folder(options.results).values())
        synced, drifted, pictures = readme.sync(text, publishable_together(records))
    except UnicodeDecodeError as error:
        raise InputError(f"the file is not in UTF-8: {error}", where=file) from error
    except InputError as error:
        where = ", ".join(filter(None, [str(file), error.where]))
        raise InputError(error.what, where=where, fix=error.fix) from error
    folder = Path(os.path.realpath(file)).parent
    stale = [picture for picture in pictures if not picture.is_up_to_date(folder)]
    differing = [*drifted, *(os.path.relpath(folder / picture.path) for picture in stale)]
    if not differing:
        print(f"{file}: up to date with the records")
        return 0
    if options.check:
        print(f"{file}: differs from the records in {', '.join(differing)}\n")
        if drifted:
            old, new = text.splitlines(), synced.splitlines()
            lines = difflib.unified_diff(old, new, "file", "records", n=1, lineterm="")
            print(visible("\n".join(lines)), end="\n\n")
        command = shlex.join(["readme", str(file), "--results", str(options.results)])
        print(f"Write it: {commands.tool_command('report', command)}")
        return 1
    for picture in stale:
        picture.write(folder)
    if drifted:
        disk.write_user_file(file, synced.encode())
    print(f"{file}: wrote {', '.join(differing)}")
    return 0


def _parser() -> Parser:
    """The parser that finds the command; the command's own has no arguments yet."""
    parser = Parser(
        prog=commands.tool_command("report"),
        description="Turn the records of measured cases into tables, plots and pages.",
        epilog=f"Records come from the benchmarks: {commands.benchmarks_command()}",
    )
    subparsers = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    for run in (_tables, _html, _plots, _csv, _export, _compare, _trend, _merge, _published, _readme):
        name, about = run.__name__.removeprefix("_"), inspect.getdoc(run) or ""
        first_sentence = " ".join(about.split()).partition(". ")[0].removesuffix(".")
        summary_line = first_sentence[:1].lower() + first_sentence[1:]
        command = subparsers.add_parser(name, help=summary_line, description=about)
        command.set_defaults(run=run, parser=command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
