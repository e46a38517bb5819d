"""Whole runs of the suite, as its users start them."""

from dataclasses import dataclass
from pathlib import Path

from tests.helpers import ROOT, pytest_command, run_pytest
from tritonproof.record import Record, record_files

PAGE = ROOT / "docs" / "model-in-python.md"
TRACE = "cpu-resnet50-micro-ts-trace-fp32"
"""A case that converts quickly; its load is not measured, as PyTorch's threads wait for busy cores."""
GIVEN = "cpu-classifier-onnx-fp32"
"""The case of a user's ONNX file, converted by a copy: its run takes a third of one with PyTorch."""
BIOPSY = "cpu-biopsy-onnx-fp32"
"""The case of the run `first`: a user's own model, converted from PyTorch."""
FAST = ("--point-budget-s", "0.5", "--batches", "1,8", "--concurrencies", "4")


@dataclass(frozen=True)
class Run:
    status: int
    text: str
    """Its output, errors included."""
    results: Path
    """The folder of its records."""

    def record(self, case_id: str) -> Record:
        return record_files.read(self.results / case_id.partition("-")[0] / f"{case_id}.json")


def command(*arguments: str, **folders: Path | None) -> list[str]:
    """The command line of a run with these options."""
    return pytest_command(*_words(*arguments, **folders))


def _words(*arguments: str, repos: Path | None = None, results: Path | None = None) -> list[str]:
    """The arguments of a run with these options; without folders it uses the checkout's own."""
    options = [] if repos is None else ["--model-repos", str(repos)]
    options += [] if results is None else ["--results", str(results)]
    return ["benchmarks", *options, *arguments]


def suite(*arguments: str, repos: Path | None = None, results: Path | None = None) -> Run:
    """Run the suite of this checkout to its end."""
    done = run_pytest(*_words(*arguments, repos=repos, results=results))
    return Run(done.returncode, done.stdout + done.stderr, results or ROOT / "reports" / "results")
