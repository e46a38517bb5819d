"""What a run leaves behind: its history, its summary on the terminal and for CI, and its exit status."""

import os
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from reports import history
from reports.record import atomic, commands, files, sanitize
from reports.record.commands import with_fix
from reports.record.sanitize import one_line, visible
from reports.run.outcomes import Failure, Outcomes, status_of, status_sentence, worst_first
from reports.tables.against import against_table, upgrade_sentence
from reports.tables.points import budget_table, comparison_table
from reports.tables.rendering import markdown, terminal_text
from reports.tables.soak import soak_table
from reports.tables.summary import machine_blocks, summary
from reports.tables.table import Block, Bullets, Heading, Table
from reports.text import labels
from reports.text.inline import bold, code, joined
from reports.text.publishable import Publishable, publishable

_OUTCOMES = pytest.StashKey[Outcomes]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tritonproof")
    summary = (
        "Write what failed and the tables of this run to a markdown file. Default: in GitHub Actions they "
        "are appended to the file that GITHUB_STEP_SUMMARY names."
    )
    group.addoption("--summary", metavar="FILE", help=summary)
    history = (
        "The folder of the history, which keeps a row for each measurement, of which the reports make a "
        "trend. Default: reports/history, or DIR/history with --results DIR."
    )
    group.addoption("--history", metavar="DIR", help=history)


def pytest_configure(config: pytest.Config) -> None:
    outcomes = config.stash[_OUTCOMES] = Outcomes()
    config.pluginmanager.register(outcomes, "tritonproof-outcomes")
    if not hasattr(config, "workerinput"):
        results, requested = Path(config.option.results).absolute(), config.option.history
        for folder in (results, *results.glob("*/")):
            atomic.remove_leftovers(folder)
        history_folder = history.folder_of(results) if requested is None else Path(requested).absolute()
        config.pluginmanager.register(HistoryKeeper(results, history_folder), "tritonproof-history")


class HistoryKeeper:
    """A pytest plugin that adds the record that a test names in its property `record` to the history as soon
    as the test ends, so that a killed run loses none."""

    def __init__(self, results: Path, folder: Path) -> None:
        self.results, self.folder, self.troubles = results, folder, set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        names = [value for name, value in report.user_properties if name == "record"]
        for name in names if report.when == "teardown" else ():
            try:
                record = publishable(files.read(self.results / str(name)))
                history.append(self.folder, history.rows_of(record))
            except (OSError, files.RecordError) as error:
                self.troubles.add(with_fix(error) if isinstance(error, OSError) else str(error))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for trouble in sorted(self.troubles):
            terminalreporter.write_line(f"the history lacks measurements of this run: {trouble}")
        if self.troubles:
            add_command = commands.tool("reports", f"trend --history {self.folder} --add {self.results}")
            terminalreporter.write_line(f"add them once that is mended: {add_command}")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    outcomes = config.stash[_OUTCOMES]
    records, outcomes.unreadable = written_records(terminalreporter)
    show_summary(terminalreporter, records, outcomes.unreadable)
    outcomes.status = status_of(exitstatus, outcomes)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        root = Path(os.environ.get("GITHUB_WORKSPACE", config.rootpath))
        for failure in worst_first(outcomes.failures):
            terminalreporter.write_line(annotation(failure, config.rootpath, root))
    was_ended = outcomes.status == pytest.ExitCode.INTERRUPTED
    if outcomes.failures or outcomes.passed or outcomes.skipped or was_ended:
        _write_job_summary(config, outcomes, records, terminalreporter)
    if _compares_repositories(config.option):
        terminalreporter.write_line(_upgrade_sentence(outcomes, records))
    for sentence in outcomes.missing:
        terminalreporter.write_line(sentence)
    outcomes.status = status_of(exitstatus, outcomes)
    if sentence := status_sentence(outcomes):
        terminalreporter.write_line(sentence)


def _upgrade_sentence(outcomes: Outcomes, records: Sequence[Publishable]) -> str:
    failed = [failure.name for failure in worst_first(outcomes.failures)]
    if outcomes.status == pytest.ExitCode.INTERRUPTED:
        failed.append("a run that was ended")
    return upgrade_sentence(records, failed, outcomes.skipped.total())


def _write_job_summary(
    config: pytest.Config, outcomes: Outcomes, records: Sequence[Publishable], terminalreporter: Any
) -> None:
    """Write the summary to the file of the option, else append it to the one that GitHub names, if any."""
    further: list[Block] = [*further_tables(config, records)]
    if _compares_repositories(config.option):
        further.insert(0, _upgrade_sentence(outcomes, records))
    content = job_summary(outcomes, records, further)
    try:
        if config.option.summary is not None:
            atomic.write_given(Path(config.option.summary), content.encode())
        elif by_github := os.environ.get("GITHUB_STEP_SUMMARY"):
            path = Path(by_github)
            room = _LARGEST_BYTES - (path.stat().st_size if path.exists() else 0)
            with path.open("ab") as file:
                file.write(cut(content, room).encode())
    except OSError as error:
        sentence = f"the summary cannot be written: {with_fix(error)}"
        if config.option.summary is None:
            terminalreporter.write_line(sentence)
        else:
            outcomes.missing.append(sentence)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around everything else at the end
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    if path := getattr(session.config.option, "benchmark_json", None):
        atomic.make_folder(Path(path).parent)  # pytest-benchmark does not make it
    yield
    if not hasattr(session.config, "workerinput"):
        outcomes = session.config.stash[_OUTCOMES]
        session.exitstatus = outcomes.status = status_of(session.exitstatus, outcomes)


# --- the records of the run --------------------------------------------------------------------------------


def _record_paths(terminalreporter: Any) -> list[Path]:
    """The files of the records from all workers, in the order of their names."""
    results = Path(terminalreporter.config.option.results).absolute()
    reports = (report for group in terminalreporter.stats.values() for report in group)
    properties = (pair for report in reports for pair in getattr(report, "user_properties", ()))
    return sorted({results / value for name, value in properties if name == "record"})


def written_records(terminalreporter: Any) -> tuple[list[Publishable], list[str]]:
    """The records that the run wrote, and a sentence for each that has since been deleted or damaged."""
    records: list[Publishable] = []
    problems: list[str] = []
    for path in _record_paths(terminalreporter):
        try:
            records.append(publishable(files.read(path)))
        except files.RecordError as error:
            problems.append(visible(str(error)))
    return records, problems


def further_tables(config: Any, records: Sequence[Publishable]) -> list[Table]:
    """The tables beside the summary that the run's options ask for; earlier runs may have recorded more."""
    option = config.option
    optional = (
        (option.against is not None or option.against_triton is not None, comparison_table),
        (_compares_repositories(option), against_table),
        (option.thresholds is not None, budget_table),
        (option.soak is not None, soak_table),
    )
    return [table for is_requested, make in optional if is_requested and (table := make(records))]


def _compares_repositories(option: Any) -> bool:
    return option.repository is not None and (option.against or option.against_triton) is not None


def show_summary(terminalreporter: Any, records: Sequence[Publishable], wrong: Sequence[str]) -> None:
    """Print the summary of the records, on a terminal in its width, and where to find more."""
    if not records and not wrong:
        return
    terminalreporter.section("summary")
    for sentence in wrong:
        terminalreporter.write_line(f"not in the summary: {sentence}")
    if not records:
        return
    blocks: list[Block] = [*summary(records), *further_tables(terminalreporter.config, records)]
    width = shutil.get_terminal_size().columns
    terminalreporter.write_line(terminal_text(blocks, width) if terminalreporter.isatty else markdown(blocks))
    folders = sorted({commands.as_typed(path.parent.parent) for path in _record_paths(terminalreporter)})
    tables = commands.tool("reports", f"tables --results {folders[0]}")
    terminalreporter.write_line("")
    terminalreporter.write_line(f"records: {', '.join(folders)}; all tables: {tables}")


# --- what continuous integration gets ----------------------------------------------------------------------

_LARGEST_BYTES = 1024 * 1024
"""GitHub refuses a larger summary of one step, and then shows none of it."""


def cut(content: str, largest_bytes: int) -> str:
    """The text, or the first lines that fit and a last one that says so."""
    note = b"\nCut here: the rest does not fit into a job summary. It is in the log.\n"
    encoded, room = content.encode(), largest_bytes - len(note)
    if len(encoded) <= largest_bytes:
        return content
    return (encoded[: encoded.rfind(b"\n", 0, room) + 1] + note).decode() if room >= 0 else ""


def job_summary(outcomes: Outcomes, records: Sequence[Publishable], further: Sequence[Block] = ()) -> str:
    """The run as markdown: how it ended, what failed and why, its tables, and what was skipped."""
    failed, skipped = len(outcomes.failures), outcomes.skipped.total()
    counts = {"failed": failed, "passed": outcomes.passed, "skipped": skipped}
    title = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    blocks: list[Block] = [
        Heading(f"tritonproof: {title or 'no test has ended'}", 2),
        labels.sentence(status_sentence(outcomes)),
        Bullets([_line(failure) for failure in worst_first(outcomes.failures)]),
        *(summary(records) if records else []),
        *further,
        *(machine_blocks(records) if records else []),
        Bullets([f"Not in the tables: {problem}" for problem in outcomes.unreadable]),
        Bullets([f"{count} skipped: {reason}" for reason, count in outcomes.skipped.most_common()]),
    ]
    return markdown(blocks) + "\n"


def _line(failure: Failure) -> str:
    lines = "; ".join(line.strip() for line in failure.sentence.splitlines() if line.strip())
    return joined([bold(failure.kind), code(failure.name), lines], ": ")


def annotation(failure: Failure, rootpath: Path, workspace: Path) -> str:
    """GitHub's workflow command for an error, with the test's place if that is in the repository and not in
    the suite of an action."""
    properties = {"title": f"{failure.kind}: {failure.name}"}
    if failure.file is not None and (path := rootpath / failure.file).is_relative_to(workspace):
        properties = {"file": str(path.relative_to(workspace)), "line": str(failure.line)} | properties
    escaped = {key: _escape(one_line(value)) for key, value in properties.items()}
    listed = [f"{key}={value.replace(':', '%3A').replace(',', '%2C')}" for key, value in escaped.items()]
    return f"::error {','.join(listed)}::{_escape(failure.sentence)}"


def _escape(value: str) -> str:
    """The text as GitHub's runner reads it back; it shows some thousand characters of an annotation."""
    return sanitize.cut(visible(value), 4000).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
