"""The command line of the reports: `tritonproof report` or `python -m reports`, then a command.

A command is a function, whose docstring is its help, which returns the exit status and imports what no other
command needs, and a parser of its options in `_parser`.
"""

import argparse
import contextlib
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

from reports import export, history, plots, readme, sources
from reports.plots import Theme
from reports.record import commands, disk, files
from reports.record.commands import INPUT, Parser, UsageError, count, path, status_of_unreadable, with_fix
from reports.record.disk import strict_glob
from reports.record.files import RecordError
from reports.record.sanitize import cut, path_text, quoted, visible
from reports.tables.case import case_section
from reports.tables.rendering import RENDERINGS, csv_text, print_as
from reports.tables.summary import machine_blocks, summary
from reports.tables.table import Block, Heading
from reports.text.publishable import Publishable, name_of, publishable_records, read_all

_LONGEST_ERROR = 20_000
"""Characters: a line for each of a hundred damaged records."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0; 1 if `readme --check` found a difference; 4 for what cannot
    be read, written or done as asked; 6 if some records could not be read and the others were shown; 10 or 12
    if `compare` or `trend` failed by --fail-on."""
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
        return status
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        reason = with_fix(error)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        package = {"markdown_it": "markdown-it-py"}.get(module, module)
        reason = f"this needs {package}: {sys.executable} -m pip install {package}"
    except (UsageError, RecordError) as error:
        reason = str(error)
    # Names and values in it may hold control characters.
    print(f"error: {cut(visible(reason), _LONGEST_ERROR)}", file=sys.stderr)
    return INPUT


# --- what the commands do ----------------------------------------------------------------------------------


def _chosen(options: argparse.Namespace) -> tuple[list[Publishable], int]:
    """The records that the options select, and the exit status, which reports unreadable records. Names these
    on standard error. Raises UsageError if there is no record to show."""
    folder_records = files.read_folder(options.results)
    if not folder_records.records:
        folder_records.all()
        raise UsageError(f"{options.results}: no records (TARGET/CASE.json). Measure some: {commands.run()}")
    records = publishable_records(folder_records.records, anonymous=options.anonymous)
    status = status_of_unreadable(
        problem for file, problem in folder_records.unreadable.items() if options.k in file.stem
    )
    chosen = [record for record in records if options.k in name_of(record)]
    if not chosen:
        raise sources.no_case(options.results, options.k, map(name_of, records))
    return chosen, status


def _themes(options: argparse.Namespace) -> Sequence[Theme]:
    return plots.THEMES if options.theme == "both" else (options.theme,)


def _tables(options: argparse.Namespace) -> int:
    """Print a summary of all cases, then the tables of each case, grouped by target."""
    records, status = _chosen(options)
    blocks: list[Block] = [Heading("Summary", 1), *summary(records)]
    for target, group in itertools.groupby(records, key=lambda record: record.case.target):
        of_target = list(group)
        blocks += [Heading(target, 2), *machine_blocks(of_target)]
        for record in of_target:
            blocks += [Heading(name_of(record), 3), *case_section(record)]
    print_as(options.format, blocks)
    return status


def _html(options: argparse.Namespace) -> int:
    """Write all records as one HTML page. It needs no network and no other file: which configuration to
    deploy, all cases to filter and sort, and of each case its tables, worst samples, configuration and
    machine."""
    from rich.console import Console
    from rich.progress import track

    from reports.page import page, section_of

    records, status = _chosen(options)
    sections, damaged = [], []
    console = Console(stderr=True)
    for record in track(records, "Cases", console=console, transient=True, disable=not console.is_terminal):
        try:
            sections.append(section_of(record, options.results))
        except RecordError as error:
            damaged.append(str(error))
    if not sections:
        raise RecordError("\n".join(damaged))
    status = max(status, status_of_unreadable(damaged))
    text = page(sections)
    disk.write_user_file(options.output, text.encode())
    print(f"{options.output}: wrote {len(text.encode()) / 1e6:.1f} MB", file=sys.stderr)
    return status


def _plots(options: argparse.Namespace) -> int:
    """Draw the plots of each case and those of all cases side by side. Prints the names of the files."""
    records, status = _chosen(options)
    groups = [(name_of(record), [record]) for record in records] + (
        [("", records)] if len(records) > 1 else []
    )
    for case, group in groups:
        charts = plots.available(group, options.latency_budget_ms)
        if not charts:
            print(f"{case}: nothing to show: {group[0].no_speed or 'no load point has been measured.'}")
        for (name, chart), theme in itertools.product(charts.items(), _themes(options)):
            picture = options.output / readme.picture_name(name, case, theme, ending=options.format)
            disk.replace(picture, plots.draw(chart, theme, options.format))
            print(picture)
    return status


def _csv(options: argparse.Namespace) -> int:
    """Print the load points as CSV. Each is a row, with a column for each quantity, named with its unit."""
    records, status = _chosen(options)
    print(csv_text(export.load_points(records)), end="")
    return status


def _export(options: argparse.Namespace) -> int:
    """Print the records as JSON for a service that tracks benchmarks. It is read by Bencher's adapter `json`,
    or by github-action-benchmark's tools `customBiggerIsBetter` (throughput, scores) and
    `customSmallerIsBetter` (p99 latency, errors). A case that has not passed is exported without its speed
    and named on standard error."""
    records, status = _chosen(options)
    print(json.dumps(export.FORMATS[options.format](records), indent=2))
    _name_left_out(records)
    return status


def _name_left_out(records: Sequence[Publishable]) -> None:
    """Name each case whose speed may not be shown, and why."""
    for record in records:
        if record.hidden:
            print(f"{name_of(record)}: {record.no_speed}", file=sys.stderr)


def _compare(options: argparse.Namespace) -> int:
    """Print what changed from A to B, and from A to every further argument. That is the setup, the accuracy
    sample by sample, and the speed as a ratio with its interval."""
    from reports.compare import compare, comparison_blocks, exit_status

    if len(options.records) < 2:
        raise UsageError(
            "compare: needs two folders or files of records, or more: "
            f"{commands.tool('reports', 'compare A B')}. NVIDIA's published figures are set beside the "
            f"records by: {commands.tool('reports', 'published')}"
        )
    base, *others = sources.read(options.records, options.k)
    comparisons = [compare(base, other, options.allow_slowdown) for other in others]
    print_as(options.format, comparison_blocks(comparisons))
    status = status_of_unreadable(problem for source in (base, *others) for problem in source.unreadable)
    return max(status, *map(exit_status, comparisons)) if options.fail_on else status


def _trend(options: argparse.Namespace) -> int:
    """Show how the figures changed over time, and between which commits. The table has the throughput, p99
    latency, served / in process ratio and accuracy of every case, separately for each machine, with the
    lasting changes (steps) that were found."""
    from reports import trend

    folder = options.history or history.folder_of(options.results)
    if options.output is not None:
        disk.check_folder(options.output)  # before anything is added to the history
    status = _add(folder, options.add)
    rows = _history(folder)
    # All cases together show what the machine did, so steps stay the same whatever cases are chosen.
    all_series = trend.all_series(rows, join_hosts=options.join_hosts)
    chosen = [series for series in all_series if options.k in series.case]
    if not rows:
        raise UsageError(
            f"{folder}: no history (TARGET.jsonl). A run of the benchmarks adds to it, and --add FOLDER what "
            "other machines measured."
        )
    if not chosen:
        raise sources.no_case(folder, options.k, (series.case for series in all_series))
    print(trend.table(chosen))
    for theme in _themes(options) if options.output is not None else ():
        svg_file = options.output / f"trend-{theme}.svg"
        disk.replace(svg_file, plots.rendered(lambda: trend.picture(chosen), theme))
        print(svg_file)
    if not options.fail_on:
        return status
    for step_status, sentence in trend.worse_steps(chosen, options.within, options.known):
        print(f"worse within the latest {options.within} runs: {sentence}", file=sys.stderr)
        status = max(status, step_status)
    return status


def _history(folder: Path) -> list[history.HistoryRow]:
    rows, damaged = history.read(folder)
    for sentence in damaged:
        print(sentence, file=sys.stderr)
    return rows


def _add(folder: Path, additions: Sequence[Path]) -> int:
    """Add measurements to the history in `folder`; returns the exit status for unreadable records."""
    unreadable: list[str] = []
    for source in additions:
        rows = _history(source if strict_glob(source, f"*{history.SUFFIX}") else history.folder_of(source))
        if files.record_paths(source) or files.record_paths_in(source) or not rows:
            (read,) = sources.read([source])
            rows += [row for stored in read.records.values() for row in history.rows_of(stored.record)]
            unreadable += read.unreadable
        print(f"{source}: added {history.append(folder, rows)} measurements to {folder}", file=sys.stderr)
    return status_of_unreadable(unreadable)


def _merge(options: argparse.Namespace) -> int:
    """Join the records of several machines or CI jobs in a new folder, with the files that belong to them.
    Parts of one case become one record. Nothing is written where they contradict each other: a target on
    different machines, a case with two builds, or different figures of the same thing."""
    from reports.merge import merge

    result = merge(options.records, options.output, anonymous=options.anonymous)
    for unused in result.left_out:
        print(f"left out, as no record that was merged needs it: {path_text(unused)}", file=sys.stderr)
    print(f"{options.output}: wrote {result.records} record{'s' * (result.records != 1)}")
    if result.joined:
        print(f"joined from several: {', '.join(result.joined)}")
    return 0


def _published(options: argparse.Namespace) -> int:
    """Compare the records with the figures that NVIDIA published. These are of the same model, format,
    accelerator, precision and load points, on a case's own GPU if there are any, else on every GPU. Settings
    that differ are named."""
    from reports.published import match_published, published_blocks

    records, status = _chosen(options)
    print_as(options.format, published_blocks([match_published(record) for record in records]))
    if options.format in ("csv", "json"):  # these hold tables alone
        _name_left_out(records)
    return status


def _readme(options: argparse.Namespace) -> int:
    """Write tables and plots between the markers of a markdown file. Nothing else in
    the file changes."""
    file: Path = options.file
    folder = readme.link_to(options.plots, file) if options.plots else None
    try:
        text = readme.text_of(file)
        records = read_all(options.results, anonymous=not options.hosts)
        synced, names, pictures = readme.sync(text, records, folder)
    except readme.ReadmeError as error:
        raise UsageError(f"{file}: {error}") from error
    beside = Path(os.path.realpath(file)).parent
    stale = [picture for picture in pictures if not picture.is_in_step(beside)]
    differing = [*names, *(os.path.relpath(beside / picture.path) for picture in stale)]
    if not differing:
        print(f"{file}: in step with the records")
        return 0
    if options.check:
        print(f"{file}: differs from the records in {', '.join(differing)}\n")
        if names:
            print(f"{visible(readme.difference(text, synced))}\n")
        plots_option = ["--plots", str(options.plots)] if options.plots else []
        command = shlex.join(["readme", str(file), "--results", str(options.results), *plots_option])
        print(f"Write it: {commands.tool('reports', command)}")
        return 1
    for picture in stale:
        picture.write(beside)
    if names:
        disk.write_user_file(file, synced.encode())
    print(f"{file}: wrote {', '.join(differing)}")
    return 0


# --- their options -----------------------------------------------------------------------------------------


def _percent(text: str) -> float:
    """A fraction from 0 to below 1, given in percent."""
    return _number(text.strip().removesuffix("%"), 0, 100, "a percentage from 0 to below 100") / 100


def _milliseconds(text: str) -> float:
    return _number(text, sys.float_info.min, 1e9, "a number of milliseconds above 0")


def _number(text: str, least: float, below: float, description: str) -> float:
    """A number from `least` to less than `below`; `description` says this in words."""
    with contextlib.suppress(ValueError):
        if least <= (value := float(text)) < below:
            return value
    raise argparse.ArgumentTypeError(f"{quoted(text)} is not {description}")


_SHARED: Mapping[str, Mapping[str, Any]] = {
    "--results": {
        "type": path,
        "default": Path("reports/results"),
        "metavar": "DIR",
        "help": "the folder of the records (default: %(default)s)",
    },
    "--history": {
        "type": path,
        "metavar": "DIR",
        "help": "the folder of the history (default: reports/history, or DIR/history with --results DIR)",
    },
    "-k": {"default": "", "metavar": "SUBSTRING", "help": "use only the cases whose name contains SUBSTRING"},
    "--anonymous": {"action": "store_true", "help": "leave out the names of hosts and the UUIDs of GPUs"},
    "--theme": {
        "choices": (*plots.THEMES, "both"),
        "default": "both",
        "help": "for pages with a light or a dark background (default: %(default)s)",
    },
    "--format": {
        "choices": (*RENDERINGS, "terminal"),
        "default": "terminal" if sys.stdout.isatty() else "markdown",
        "help": "the form of the output; csv and json hold the tables alone, with their figures as numbers "
        "(default: terminal if standard output is one, else markdown)",
    },
}
"""The options that several commands have, as `add_argument` takes them."""


def _parser() -> Parser:
    parser = Parser(
        prog=commands.tool("reports"),
        description="Turn the records of measured cases into tables, plots and pages.",
        epilog=f"Records come from the benchmarks: {commands.run()}",
    )
    subparsers = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")

    def add(run: Callable[[argparse.Namespace], int], shared: str, **texts: Any) -> Callable[..., Any]:
        """Add a command with its function's name and docstring, whose first sentence is its line in the list
        of commands. Returns the function that adds options of its own."""
        name, about = run.__name__.removeprefix("_"), inspect.getdoc(run) or ""
        first_sentence = " ".join(about.split()).partition(". ")[0].removesuffix(".")
        summary_line = first_sentence[:1].lower() + first_sentence[1:]
        command = subparsers.add_parser(name, help=summary_line, description=about, **texts)
        for flag in shared.split():
            command.add_argument(flag, **_SHARED[flag])
        command.set_defaults(run=run)
        return command.add_argument

    add(_tables, "--results -k --anonymous --format")

    option = add(_html, "--results -k --anonymous")
    note = "the file to write (default: %(default)s)"
    option("--output", type=path, default=Path("report.html"), metavar="FILE", help=note)

    option = add(_plots, "--results -k --anonymous --theme")
    note = "the folder for the pictures (default: %(default)s)"
    option("--output", type=path, default=Path(readme.PLOTS), metavar="DIR", help=note)
    option("--format", choices=("svg", "png"), default="svg", help="the kind of file (default: %(default)s)")
    note = "draw a line at this latency (default: the budget of the case's search, if it had one)"
    option("--latency-budget-ms", type=_milliseconds, metavar="MS", help=note)

    add(_csv, "--results -k --anonymous")

    option = add(_export, "--results -k --anonymous")
    note = f"what reads it: {' or '.join(export.FORMATS)}"
    option("--format", required=True, choices=export.FORMATS, metavar="FORMAT", help=note)

    published = commands.tool("reports", "published")
    epilog = f"To compare the records with NVIDIA's published figures: {published}"
    option = add(_compare, "-k --format", epilog=epilog)
    note = "folders of records, or single record files; A is what the others are compared with"
    option("records", type=path, nargs="*", metavar="A B", help=note)
    note = (
        "exit with 10 if a point is shown to be slower than --allow-slowdown allows, with 12 if an accuracy "
        "is shown to be worse or a case no longer passes, and with 4 if nothing can be compared or the "
        "machines differ"
    )
    option("--fail-on", choices=("worse",), help=note)
    note = "how much slower a point may be before it counts as slower (default: 0)"
    option("--allow-slowdown", type=_percent, default=0.0, metavar="PERCENT", help=note)

    option = add(_trend, "--results -k --history --theme")
    note = "first add the measurements of records or histories of other machines or CI jobs, each once"
    option("--add", type=path, nargs="+", default=[], metavar="FOLDER", help=note)
    option("--output", type=path, metavar="DIR", help="also draw the history, as DIR/trend-{light,dark}.svg")
    note = "treat hosts with the same machine stamp as one, for runs that each have a container of their own"
    option("--join-hosts", action="store_true", help=note)
    note = (
        "exit with 10 if a speed has a step for the worse within the latest runs (--within), and with 12 if "
        "an accuracy has one"
    )
    option("--fail-on", choices=("step",), help=note)
    note = (
        "how many of the latest runs of a series --fail-on looks at. A step is found only some runs after "
        "its commit, and only after tens of runs if measurements vary much (default: %(default)s)"
    )
    option("--within", type=count, default=50, metavar="N", help=note)
    note = "--fail-on ignores the steps up to this commit, which have been accepted"
    option("--known", metavar="COMMIT", help=note)

    option = add(_merge, "--anonymous")
    option("records", type=path, nargs="+", metavar="A", help="folders of records, or single record files")
    note = "the folder to write, which has to be new or empty"
    option("--output", type=path, required=True, metavar="DIR", help=note)

    add(_published, "--results -k --anonymous --format")

    epilog = (
        "A region lies between two lines of markers:\n\n<!-- tritonproof:summary -->\n<!-- "
        f"/tritonproof:summary -->\n\nMarkers:\n{readme.overview()}\n\nA plot draws the latency budget with "
        "which its marker ends, such as 10ms, or\nelse the budget of the case's search."
    )
    lines = argparse.RawDescriptionHelpFormatter
    option = add(_readme, "--results", epilog=epilog, formatter_class=lines)
    note = "the markdown file (default: %(default)s)"
    option("file", nargs="?", type=path, default=Path("README.md"), metavar="FILE", help=note)
    note = "write nothing, show what differs, and exit with status 1 if anything does"
    option("--check", action="store_true", help=note)
    note = "the folder for the pictures (default: where the region's picture is, else 'plots' beside FILE)"
    option("--plots", type=path, metavar="DIR", help=note)
    note = "keep the names of hosts and the UUIDs of GPUs, which are otherwise left out"
    option("--hosts", action="store_true", help=note)
    return parser


if __name__ == "__main__":
    sys.exit(main())
