"""Every command that reads records, every output that shows them, and a record with unmistakable speeds."""

import base64
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from fixtures import SETTINGS, outcomes
from fixtures.outcomes import Outcomes
from fixtures.terminal import further_tables, show_summary
from tests import sample_records
from tests.conftest import Reports
from tritonproof.record import Record, Soak, record_files
from tritonproof.record.fields import Ratio
from tritonproof.record.speed import CertifiedPercentile, LatencyBudget
from tritonproof.reports import readme

Output = Callable[[Path, Reports], str]
"""Gives the text in which one output shows the records of a folder."""

PER_S, MS = 123456.7, 98765.4
"""A throughput and a latency that occur nowhere else."""
TRACE = re.compile(r"123[ ,]?45[67]|1\.23[45]?e|98[ ,]?765|9\.88e")
"""Both, in every way to write them."""


PRINTING: Mapping[str, tuple[str, ...]] = {
    "tables.md": ("tables",),
    "published.md": ("published",),
    "published.csv": ("published", "--format", "csv"),
    "points.csv": ("csv",),
    "bencher.json": ("export", "--format", "bencher"),
    "bigger.json": ("export", "--format", "customBiggerIsBetter"),
    "smaller.json": ("export", "--format", "customSmallerIsBetter"),
}
"""The commands that print what they show of the records of a folder, by a name of a file for it."""
READING: Mapping[str, tuple[str, ...]] = {
    **{name: (*words, "--results", "{results}") for name, words in PRINTING.items()},
    "html": ("html", "--results", "{results}", "--output", "{out}/page.html"),
    "plots": ("plots", "--results", "{results}", "--output", "{out}/plots"),
    "readme": ("readme", "{out}/page.md", "--results", "{results}"),
    "compare": ("compare", "{results}", "{results}"),
    "merge": ("merge", "{results}", "--output", "{out}/merged"),
    "trend": ("trend", "--add", "{results}", "--history", "{out}/history"),
}
"""Every command that reads records."""


def words_of(command: str, results: Path, out: Path) -> list[str]:
    """The words of one of READING, which writes into the folder `out`."""
    (out / "page.md").write_text("<!-- tritonproof:summary -->\n<!-- /tritonproof:summary -->\n")
    return [word.format(results=results, out=out) for word in READING[command]]


def planted(**changes: object) -> Record:
    """A case whose only speeds are PER_S and MS."""
    latencies = {name: sample_records.estimate(MS) for name in ("avg", "p50", "p90", "p95", "p99")}
    ratio = Ratio(PER_S, PER_S, PER_S)
    compared = sample_records.comparison(ratio=ratio)
    speeds = {"latency_ms": latencies, "components_ms": {}, "comparison": compared}
    limits = {
        "latency_budget": LatencyBudget("p99", 1.0, "agreed", "failed"),
        "certified": {"p99": CertifiedPercentile(MS, MS, 1500, 0)},
    }
    points = [
        sample_records.measured(scenario, size, PER_S, **speeds, **limits)
        for scenario, size in (("offline", 1), ("offline", 8), ("online", 16), ("online", 32))
    ]
    speed = sample_records.estimate(PER_S)
    cost = sample_records.efficiency(served_per_s=speed, in_process_per_s=speed, ratio=ratio)
    search = sample_records.search(result=points[0], lead=ratio, accuracy=sample_records.failed_accuracy())
    soak = Soak(points[2].point, PER_S, 1000, 119, (), 0, (), ratio, PER_S)
    fields = {"points": tuple(points), "efficiency": (cost,), "search": search, "soak": soak}
    return sample_records.record(**({"price_per_hour": 3.6} | fields | changes))


def printed(*arguments: str) -> Output:
    def output(results: Path, reports: Reports) -> str:
        options = [argument.replace("RESULTS", str(results)) for argument in arguments]
        result = reports(*options, *([] if "RESULTS" in "".join(arguments) else ["--results", results]))
        return result.out + result.err

    return output


def page(results: Path, reports: Reports) -> str:
    """The page, with its pictures decoded."""
    reports("html", "--results", results, "--output", results / "page.html")
    text = (results / "page.html").read_text()
    encoded = re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", text)
    without = re.sub(r"base64,[\w+/=]+", "", text)
    return without + "".join(base64.b64decode(picture).decode() for picture in encoded)


def pictures(results: Path, reports: Reports) -> str:
    reports("plots", "--results", results, "--output", results / "plots", "--theme", "light")
    return "".join(file.read_text() for file in (results / "plots").glob("*.svg"))


def marked_file(results: Path, reports: Reports) -> str:
    """A file with every kind of region, and its pictures."""
    case = str(planted().case)
    names = [name if kind.of == "several" else f"{name} {case}" for name, kind in readme.KINDS.items()]
    file = results / "README.md"
    file.write_text("".join(f"<!-- tritonproof:{n} -->\n<!-- /tritonproof:{n} -->\n" for n in names))
    reports("readme", file, "--results", results)
    drawn = "".join(picture.read_text() for picture in results.rglob("*.svg"))
    return file.read_text() + drawn


class Reporter:
    """Stands in for pytest's terminal reporter, in a log or on a terminal."""

    def __init__(self, results: Path, *records: str, isatty: bool = False) -> None:
        self.isatty = isatty
        names = records or (str(record_files.record_path(planted().case, Path())),)
        reports = [SimpleNamespace(user_properties=[("record", name)]) for name in names]
        settings = SimpleNamespace(results=results, given={"thresholds", "soak"}, baseline="another build")
        self.stats, self.config = {"passed": reports}, SimpleNamespace(stash={SETTINGS: settings})
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(title)

    def write_line(self, line: str) -> None:
        self.lines.append(line)

    def summary(self, columns: str = "") -> str:
        """The summary of the records, in a log or on a terminal so many columns wide."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", columns)
            show_summary(self, *outcomes.written_records(self))
        return "\n".join(self.lines)


def terminal(columns: str | None) -> Output:
    """The summary in a log, or on a terminal so many columns wide."""
    return lambda results, _reports: Reporter(results, isatty=columns is not None).summary(columns or "")


def job(results: Path, reports: Reports) -> str:
    reporter = Reporter(results)
    records, _ = outcomes.written_records(reporter)
    further = further_tables(reporter.config, records)
    return outcomes.job_summary(Outcomes(passed=1), records, further)


OUTPUTS: dict[str, Output] = {
    **{name: printed(*words) for name, words in PRINTING.items()},
    **{f"tables as {form}": printed("tables", "--format", form) for form in ("html", "csv", "terminal")},
    "compare": printed("compare", "RESULTS/a40", "RESULTS/../other", "--format", "markdown"),
    "compare the other way": printed("compare", "RESULTS/../other", "RESULTS/a40", "--format", "markdown"),
    "page": page,
    "pictures": pictures,
    "marked file": marked_file,
    "terminal summary": terminal(None),
    "summary on a narrow terminal": terminal("80"),
    "job summary": job,
}


SAYING_WHY = ("tables.md", "page", "marked file", "terminal summary", "job summary")
"""Outputs of sentences, which say why a speed or a ratio is missing."""
ALL_SAYING_WHY = (*SAYING_WHY, "points.csv", "published.md", "published.csv", "compare", "bencher.json")
"""The outputs that say why a speed is missing; not all of them say why a ratio is."""
