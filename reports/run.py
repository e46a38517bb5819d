"""What a run leaves behind: how its benchmarks ended, its history, its summary on the terminal and for CI,
and its exit status."""

import os
import shutil
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reports import history
from reports.record import commands, disk, files
from reports.record.commands import ACCURACY, INFRASTRUCTURE, INPUT, SPEED, UNREADABLE, with_fix
from reports.record.sanitize import bold, code, cut, join_markdown, one_line, visible
from reports.tables.against import upgrade_sentence
from reports.tables.case import TABLES_OF_OPTIONS
from reports.tables.rendering import markdown, terminal_text
from reports.tables.summary import machine_blocks, summary
from reports.tables.table import Block, Bullets, Heading, Table
from reports.text import phrases
from reports.text.phrases import counted
from reports.text.publishable import Publishable, publishable

ExitCode = pytest.ExitCode
STATUS = {"input": INPUT, "speed": SPEED, "infrastructure": INFRASTRUCTURE, "accuracy": ACCURACY}
"""The status of a run whose tests failed, by the kind of failure. Of several kinds the highest counts: a
failure that the next run may not have (speed), or another model's unusable samples (input), never hide that
of the model itself (accuracy)."""


@dataclass(frozen=True)
class Failure:
    """A benchmark that failed, and its error."""

    kind: str
    """accuracy, speed, infrastructure or input: the property `failure` of the test."""
    name: str
    sentence: str
    """What was wrong, as the terminal shows it."""
    file: str | None
    """The test's file, relative to pytest's root; None if the worker ended with the test."""
    line: int | None
    """The line of the test in its file, counted from 1; None without a file."""


@dataclass(eq=False)
class Outcomes:
    """A plugin of pytest that collects the outcomes of the benchmarks."""

    failures: list[Failure] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """How many tests were skipped for each reason."""
    passed: int = 0
    others_failed: bool = False
    """Whether a test failed that is no benchmark."""
    missing: list[str] = field(default_factory=list)
    """A sentence for each requested file that could not be written."""
    unreadable: Sequence[str] = ()
    """A sentence for each unreadable record, which the tables lack."""
    own: int = ExitCode.OK
    """pytest's own exit status, once the run has ended."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if Path(report.nodeid.partition("::")[0]).parent.name != "benchmarks":
            self.others_failed |= report.failed
        elif report.failed:
            crash, (file, line, _) = getattr(report.longrepr, "reprcrash", None), report.location
            kinds = (str(value) for name, value in report.user_properties if name == "failure")
            failure = Failure(
                kind=next(kinds, "infrastructure"),
                name=report.nodeid.partition("::")[2],
                sentence=crash.message if crash is not None else str(report.longrepr),
                file=None if line is None else file,
                line=None if line is None else line + 1,
            )
            self.failures.append(failure)
        elif report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1
        elif report.when == "call" and report.passed:
            self.passed += 1

    @property
    def worst_first(self) -> list[Failure]:
        return sorted(self.failures, key=lambda failure: STATUS[failure.kind], reverse=True)

    @property
    def status(self) -> int:
        """The run's exit status: pytest's own, whose 1 (tests failed) becomes that of the kind of failure. A
        run whose tests were all skipped has proven nothing: its status is 5, as if it had selected no test. A
        missing file that the user requested counts like a broken machine."""
        own, kinds = self.own, {failure.kind for failure in self.failures}
        if "input" in kinds and own == ExitCode.INTERRUPTED:
            own = ExitCode.TESTS_FAILED
        if self.missing and own in (ExitCode.OK, ExitCode.TESTS_FAILED):
            kinds.add("infrastructure")
            own = ExitCode.TESTS_FAILED
        if own == ExitCode.TESTS_FAILED and kinds and not self.others_failed:
            return max(STATUS[kind] for kind in kinds)
        if own == ExitCode.OK and self.unreadable:
            return UNREADABLE
        if own == ExitCode.OK and self.skipped and not self.passed:
            return ExitCode.NO_TESTS_COLLECTED
        return own

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
        self.own = exitstatus
        records, self.unreadable = written_records(terminalreporter)
        show_summary(terminalreporter, records, self.unreadable)
        if trouble := add_to_history(records, config.option.results, config.option.history):
            terminalreporter.write_line(trouble)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            root = Path(os.environ.get("GITHUB_WORKSPACE", config.rootpath))
            for failure in self.worst_first:
                terminalreporter.write_line(annotation(failure, config.rootpath, root))
        was_ended, upgrade = self.status == ExitCode.INTERRUPTED, ""
        if config.option.compares_repositories:
            failed = [failure.name for failure in self.worst_first]
            failed += ["a run that was ended"] if was_ended else []
            upgrade = upgrade_sentence(records, failed, self.skipped.total())
        if self.failures or self.passed or self.skipped or was_ended:
            content = job_summary(self, records, [upgrade, *further_tables(config, records)])
            if trouble := _write_job_summary(config.option.summary, content):
                if config.option.summary is None:
                    terminalreporter.write_line(trouble)
                else:
                    self.missing.append(trouble)
        for sentence in filter(None, (upgrade, *self.missing, status_sentence(self))):
            terminalreporter.write_line(sentence)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # around everything else at the end
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        if path := getattr(session.config.option, "benchmark_json", None):
            disk.make_folder(Path(path).parent)  # pytest-benchmark does not make it
        yield
        self.own = session.exitstatus
        session.exitstatus = self.status


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's workers report to the process that knows all
        config.pluginmanager.register(Outcomes(), "tritonproof-outcomes")


def status_sentence(outcomes: Outcomes) -> str:
    """`exit status 12, accuracy: 2 failed for accuracy, 1 for speed`; empty for a status of pytest's own."""
    kinds = {status: kind for kind, status in STATUS.items()}
    status, detail = int(outcomes.status), ""
    if status in kinds and (outcomes.failures or outcomes.missing):
        counts = Counter(failure.kind for failure in outcomes.worst_first)
        parts = [f"{count} failed for {kind}" for kind, count in counts.items()]
        if outcomes.missing:
            parts.append(f"{counted(len(outcomes.missing), 'file')} could not be written")
        detail = f", {kinds[status]}: {', '.join(parts)}"
    elif status == UNREADABLE:
        detail = f", records: {len(outcomes.unreadable)} of this run cannot be read"
    elif status == ExitCode.INTERRUPTED:
        detail = ": interrupted, so only the results above are proven"
    elif status == ExitCode.NO_TESTS_COLLECTED and outcomes.skipped:
        detail = f": nothing was proven, all of {outcomes.skipped.total()} tests were skipped"
    return f"exit status {status}{detail}" if detail else ""


# --- the records of the run --------------------------------------------------------------------------------


def written_records(terminalreporter: Any) -> tuple[list[Publishable], list[str]]:
    """The records that the run wrote, and a sentence for each that has since been deleted or damaged."""
    reports = (report for group in terminalreporter.stats.values() for report in group)
    properties = (pair for report in reports for pair in getattr(report, "user_properties", ()))
    records: list[Publishable] = []
    problems: list[str] = []
    for written in sorted({value for name, value in properties if name == "record"}):
        try:
            path = terminalreporter.config.option.results.absolute() / written
            records.append(publishable(files.read(path)))
        except files.RecordError as error:
            problems.append(visible(str(error)))
    return records, problems


def add_to_history(records: Sequence[Publishable], results: Path, folder: Path | None) -> str:
    """Add the measurements of the records to the history, by default that of the results. Returns a sentence
    if that is not possible."""
    folder = folder or history.folder_of(results)
    rows = [row for record in records for row in history.rows_of(record)]
    try:
        if rows:
            history.append(folder, rows)
    except OSError as error:
        command = commands.tool("reports", f"trend --history {folder} --add {results}")
        return f"the history lacks this run, which {command} adds later: {with_fix(error)}"
    return ""


def further_tables(config: Any, records: Sequence[Publishable]) -> list[Table]:
    """The tables beside the summary that the run's options ask for; earlier runs may have recorded more."""
    given = [tables for name, tables in TABLES_OF_OPTIONS.items() if getattr(config.option, name) is not None]
    return [table for tables in given for make in tables if (table := make(records))]


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
    results = commands.as_typed(terminalreporter.config.option.results.absolute())
    tables = commands.tool("reports", f"tables --results {results}")
    terminalreporter.write_line("")
    terminalreporter.write_line(f"records: {results}; all tables: {tables}")


# --- what continuous integration gets ----------------------------------------------------------------------


def _write_job_summary(requested: Path | None, content: str) -> str:
    """Write the summary to the requested file, else append it to the one that GitHub names, if any. Returns a
    sentence if that is not possible."""
    try:
        if requested is not None:
            disk.write_user_file(requested, content.encode())
        elif by_github := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(by_github).open("ab") as file:
                file.write(fit_summary(content).encode())
    except OSError as error:
        return f"the summary cannot be written: {with_fix(error)}"
    return ""


def fit_summary(content: str, largest_bytes: int = 2**20) -> str:
    """The text, or the first lines that fit and a last one that says so. GitHub refuses a larger summary of
    one step, and then shows none of it."""
    note = b"\nCut here: the rest does not fit into a job summary. It is in the log.\n"
    encoded = content.encode()
    if len(encoded) <= largest_bytes:
        return content
    return (encoded[: encoded.rfind(b"\n", 0, largest_bytes - len(note)) + 1] + note).decode()


def job_summary(outcomes: Outcomes, records: Sequence[Publishable], further: Sequence[Block] = ()) -> str:
    """The run as markdown: how it ended, what failed and why, its tables, and what was skipped."""
    failed, skipped = len(outcomes.failures), outcomes.skipped.total()
    counts = {"failed": failed, "passed": outcomes.passed, "skipped": skipped}
    title = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    lines = []
    for failure in outcomes.worst_first:
        sentence = "; ".join(line.strip() for line in failure.sentence.splitlines() if line.strip())
        lines.append(join_markdown([bold(failure.kind), code(failure.name), sentence], ": "))
    blocks: list[Block] = [
        Heading(f"tritonproof: {title or 'no test has ended'}", 2),
        phrases.sentence(status_sentence(outcomes)),
        Bullets(lines),
        *(summary(records) if records else []),
        *further,
        *(machine_blocks(records) if records else []),
        Bullets([f"Not in the tables: {problem}" for problem in outcomes.unreadable]),
        Bullets([f"{count} skipped: {reason}" for reason, count in outcomes.skipped.most_common()]),
    ]
    return markdown(blocks) + "\n"


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
    return cut(visible(value), 4000).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
