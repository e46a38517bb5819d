"""The suite's findings of each model in a run, and whether they are the verdict that it deserves."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.helpers import junit
from tests.whole_runs.suite import suite
from tritonproof.record import Record, record_files
from tritonproof.record.record_files import RecordError

ACCURACY, INFRASTRUCTURE = "accuracy", "infrastructure"


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


PASSES, SKIPPED, ALIKE = Expected(), Expected("skipped"), Expected("alike")


@dataclass
class Found:
    """A run's findings of one model, by the names of the tests without `test_`."""

    passed: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)
    """The reasons."""
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The kind of each failure and the first line of its error."""
    record: Record | None = field(default=None, repr=False)

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
            gates = [] if self.record is None else [gate.answer_comparison for gate in self.record.gates]
            right = any(gate is not None and not gate.tells_apart for gate in gates)
        if not right:
            raise AssertionError(f"expected: {expected}; found: {self}")


@dataclass(frozen=True)
class Run:
    """A run of the suite that has ended."""

    text: str
    models: dict[str, Found]
    """Its findings of each model, by the model's name."""


def selected(request: pytest.FixtureRequest) -> set[str]:
    """The ids of the selected parameters of a module's tests, so that no other model is served."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    return {item.callspec.id for item in items if item.module is request.module and hasattr(item, "callspec")}


def run(folder: Path, options: Sequence[str], format_: str = "asis") -> Run:
    """Run the suite as a user does, and read its findings of the cases of a format from its records."""
    xml = folder / "junit.xml"
    words = ("-v", "--junit-xml", str(xml), *options)
    done = suite(*words, repos=folder / "built", results=folder / "results")
    (folder / "output.txt").write_text(done.text)
    assert xml.exists(), done.text
    return Run(done.text, found_in(folder, format_))


def found_in(folder: Path, format_: str) -> dict[str, Found]:
    """The findings of each model of the run whose records are in this folder."""
    findings: dict[str, Found] = {}
    for full_name, test in junit(folder / "junit.xml").items():
        name, _, cell = full_name.removesuffix("]").partition("[")
        if f"-{format_}" not in cell:
            continue
        model = cell.removeprefix("cpu-").partition(f"-{format_}")[0]
        finding, step = findings.setdefault(model, Found()), name.removeprefix("test_")
        if test.outcome == "passed":
            finding.passed.add(step)
        elif test.outcome == "skipped":
            finding.skipped[step] = test.message
        else:
            kind = test.properties.get("failure", INFRASTRUCTURE)
            finding.failed[step] = kind, test.message.partition("\n")[0]
    for model, finding in findings.items():
        with contextlib.suppress(FileNotFoundError, RecordError):
            finding.record = record_files.read(folder / "results" / "cpu" / f"cpu-{model}-{format_}.json")
    return findings
