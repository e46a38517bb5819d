"""The suite's findings of each model in one of its runs, and whether they are the verdict that the model
deserves."""

import contextlib
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reports.record import files
from reports.record.files import RecordError
from reports.record.schema import Record

ROOT = Path(__file__).parents[2]
ACCURACY, INPUT, INFRASTRUCTURE = "accuracy", "input", "infrastructure"


@dataclass(frozen=True)
class Expected:
    """The verdict that a model deserves."""

    kind: str = ""
    """The kind of its failures; empty for a model that passes, `skipped` if nothing is proven, `alike` if it
    passes with the remark that all samples got one answer."""
    by: frozenset[str] = frozenset()
    """The tests: at least one of them has to fail; empty if any test may."""
    says: str = ""
    """A part of a failure's first line."""

    def __str__(self) -> str:
        tests = f" in {' or '.join(sorted(self.by))}" if self.by else ""
        return f"{self.kind or 'passes'}{tests}{f', saying {self.says!r}' if self.says else ''}"


PASSES, SKIPPED, ALIKE = Expected(), Expected("skipped"), Expected("alike")


@dataclass
class Found:
    """A run's findings of one model, by the names of the tests without `test_`."""

    passed: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)
    """The reasons."""
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The kind of each failure and the first line of its error."""
    figures: dict[str, str] = field(default_factory=dict)
    """The figures that passing tests printed."""
    record: Record | None = None

    def hold_to(self, expected: Expected) -> None:
        """Raises AssertionError, with the findings, unless they are as expected."""
        kinds = {kind for kind, _sentence in self.failed.values()}
        if expected.kind == "skipped":
            right = bool(self.skipped) and not self.failed and not self.passed
        elif expected.kind in ("", "alike"):
            right = bool(self.passed) and not self.failed
        else:
            right = expected.kind in kinds and (not expected.by or bool(expected.by & self.failed.keys()))
            right &= any(expected.says in sentence for _kind, sentence in self.failed.values())
        if right and expected.kind == "alike":
            gates = [] if self.record is None else [gate.same for gate in self.record.gates]
            right = any(gate is not None and not gate.tells_apart for gate in gates)
        if not right:
            raise AssertionError(f"expected: {expected}; found: {self}")

    def __str__(self) -> str:
        parts = [
            f"test_{test} fails for {kind}: {sentence}" for test, (kind, sentence) in self.failed.items()
        ]
        figures = "; ".join(f"{test}: {text}" for test, text in self.figures.items())
        parts += [f"{len(self.passed)} pass ({figures})"] if self.passed else []
        parts += [f"test_{test} skips: {reason}" for test, reason in self.skipped.items()]
        return "; ".join(parts)


@dataclass(frozen=True)
class Run:
    """A run of the suite that has ended."""

    status: int
    text: str
    models: dict[str, Found]
    """Its findings of each model, by the model's name."""


def selected(request: pytest.FixtureRequest) -> set[str]:
    """The ids of the selected parameters of a module's tests, so that no other model is served."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    return {item.callspec.id for item in items if item.module is request.module and hasattr(item, "callspec")}


def refused(options: Sequence[str]) -> Found:
    """A failure if the suite refuses these options before anything runs."""
    done = _pytest(["--collect-only", "-q", *options])
    if done.returncode == 0:
        return Found()
    kind = INPUT if done.returncode == pytest.ExitCode.USAGE_ERROR else INFRASTRUCTURE
    return Found(failed={"collect": (kind, done.stdout.strip()[-1000:])})


def _pytest(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """A run of the suite, with its errors in its output."""
    command = [sys.executable, "-m", "pytest", "benchmarks", "-p", "no:cacheprovider", *words]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    return subprocess.run(command, cwd=ROOT, stdout=pipe, stderr=both, text=True, check=False)


def run(folder: Path, options: Sequence[str], format_: str = "asis") -> Run:
    """Run the suite as a user does, with its records in a folder, and read its findings of the cases of a
    format."""
    xml = folder / "junit.xml"
    places = ["--results", str(folder / "results"), "--model-repos", str(folder / "built")]
    done = _pytest(["-v", *places, "--junit-xml", str(xml), *options])
    (folder / "output.txt").write_text(done.stdout)
    assert xml.exists(), done.stdout
    return Run(done.returncode, done.stdout, found_in(folder, format_))


def found_in(folder: Path, format_: str) -> dict[str, Found]:
    """The findings of each model of the run whose records are in this folder."""
    findings: dict[str, Found] = {}
    for case in ET.parse(folder / "junit.xml").iter("testcase"):
        name, _, cell = str(case.get("name")).removesuffix("]").partition("[")
        if f"-{format_}" not in cell:
            continue
        model = cell.removeprefix("cpu-").partition(f"-{format_}")[0]
        _note(findings.setdefault(model, Found()), name.removeprefix("test_"), case)
    for model, finding in findings.items():
        with contextlib.suppress(FileNotFoundError, RecordError):
            finding.record = files.read(folder / "results" / "cpu" / f"cpu-{model}-{format_}.json")
    return findings


def _note(finding: Found, test: str, case: ET.Element) -> None:
    properties = {element.get("name"): str(element.get("value")) for element in case.iter("property")}
    failure = next((element for tag in ("failure", "error") for element in case.iter(tag)), None)
    if failure is not None:
        sentence = str(failure.get("message")).partition("\n")[0]
        finding.failed[test] = properties.get("failure", INFRASTRUCTURE), sentence
    elif (skipped := next(case.iter("skipped"), None)) is not None:
        finding.skipped[test] = str(skipped.get("message"))
    else:
        finding.passed.add(test)
        if "figure" in properties:
            finding.figures[test] = properties["figure"]
