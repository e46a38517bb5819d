"""What `python -m reports trend` does with the history: adds to it, shares it, shows it and fails on steps for the worse."""

import argparse
import contextlib
import gc
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports import plots, sources
from reports.plots.theme import Theme
from reports.record import files as records
from reports.record import writing
from reports.record.arguments import ACCURACY, LEAK, SPEED, UsageError, status_of_unreadable
from reports.record.foreign import quoted

if TYPE_CHECKING:  # they need numpy, which other commands do without
    from reports.trend.rows import Row
    from reports.trend.series import Series


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python from looking for garbage meanwhile: among the rows of a long history there is none, and looking took as
    long as reading them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@uncollected()
def run(options: argparse.Namespace, themes: Sequence[Theme]) -> int:
    """Run the command; returns its exit status."""
    from reports.trend import files, series, words

    folder = options.history or files.folder_of(options.results)
    if options.output is not None:
        writing.check_folder(options.output)  # before the history is added to
    status = _add(folder, options.add)
    if options.share:
        _share(folder, options.share)
    found_rows = files.read(folder)
    for sentence in found_rows.damaged:
        print(sentence, file=sys.stderr)
    # All cases together tell what the machine did, so that steps are the same whatever is shown of them.
    every = series.all_series(_latest(found_rows.rows, options.last), join_hosts=options.join_hosts)
    found = [one for one in every if options.k in one.case]
    if not found:
        raise UsageError(_nothing(folder, options.k, [one.case for one in every]))
    print(words.document(found))
    if options.output is not None:
        _draw(found, options.output, themes)
    return max(status, _status(found, options)) if options.fail_on else status


def _nothing(folder: Path, substring: str, cases: Sequence[str]) -> str:
    """Why there is nothing to show."""
    if not cases:
        return (
            f"{folder}: no history (TARGET.jsonl). A run of the benchmarks adds to it, and --add FOLDER what other "
            "machines measured."
        )
    names = ", ".join(dict.fromkeys(cases))
    return f"{folder}: no case has {substring!r} in its name. There are: {names}"


def _add(folder: Path, given: list[Path]) -> int:
    """Add the measurements of what is given; returns the exit status, which tells of records that cannot be read."""
    from reports.record.folders import matching
    from reports.trend import files
    from reports.trend.rows import rows_of, without_origin

    unreadable: list[str] = []
    for source in given:
        found = files.read(source if matching(source, f"*{files.SUFFIX}") else files.folder_of(source))
        for sentence in found.damaged:
            print(sentence, file=sys.stderr)
        stored = []
        if records.record_paths(source) or records.record_paths_in(source) or not found.rows:
            (read,) = sources.read([source])
            stored = [one.record for one in read.records.values()]
            unreadable += read.unreadable
        added = files.append(folder, [*found.rows, *(row for one in stored for row in rows_of(one))])
        print(f"{source}: added {added} measurements to {folder}", file=sys.stderr)
        if silent := sum(map(without_origin, stored)):
            print(
                f"{source}: {silent} measurements are of an earlier version, which did not record their run: left out",
                file=sys.stderr,
            )
    return status_of_unreadable(unreadable)


def _share(folder: Path, branch: str) -> None:
    from reports.trend import sharing

    given, taken = sharing.share(folder, branch, Path.cwd())
    print(
        f"branch {branch}: added {given} measurements to it, and {taken} of it to {folder}", file=sys.stderr
    )


def _latest(rows: Sequence["Row"], runs: int | None) -> Sequence["Row"]:
    """The rows of the latest so many runs."""
    if runs is None:
        return rows
    order = sorted({(row.started, row.run) for row in rows})[-runs:]
    kept = {run for _, run in order}
    return [row for row in rows if row.run in kept]


def _draw(found: Sequence["Series"], folder: Path, themes: Sequence[Theme]) -> None:
    from reports.plots import trend

    for (name, chart), theme in itertools.product(trend.charts(found), themes):
        path = folder / f"{name}-{theme}.svg"
        records.replace(path, plots.chart_svg(chart, theme).encode())
        print(path)


def _status(found: Sequence["Series"], options: argparse.Namespace) -> int:
    """The exit status, once each step that decides it is named."""
    from reports.trend import series, words

    after = ""
    if options.known:
        of_commit = [
            row.started for one in found for row in one.rows if (row.commit or "").startswith(options.known)
        ]
        if not of_commit:
            raise UsageError(f"--known {quoted(options.known)}: no run in the history is of this commit")
        after = max(of_commit)
    worse = [(one, step) for one, step in series.recent(found, options.within) if step.after.started > after]
    for one, step in worse:
        print(
            f"worse within the latest {options.within} commits: {one.case}, {one.at}, {one.kind.name}: "
            f"{words.step_text(one, step)}",
            file=sys.stderr,
        )
    statuses = {"accuracy": ACCURACY, "growth by request": LEAK, "growth by loading": LEAK}
    return max((statuses.get(one.kind.name, SPEED) for one, _ in worse), default=0)
