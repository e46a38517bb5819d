"""Collects the benchmarks in this process, as a command line would."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

WITHOUT = ("-p", "no:cacheprovider", "-p", "no:unraisableexception")
"""At its end the latter has Python look for garbage five times, which takes seconds where tests have imported PyTorch and
TensorFlow before; the tests' own pytest does the same once."""


@dataclass
class Collected:
    """What a command line selects."""

    status: int = 0
    generated: list[pytest.Item] = field(default_factory=list)
    """The tests there are before -k and -m have filtered them."""
    selected: list[pytest.Item] = field(default_factory=list)
    """The tests that would run, in their order."""
    text: str = ""
    """What is printed, errors included."""

    @property
    def names(self) -> list[str]:
        """The names of the tests that would run: `test_accuracy[cpu-resnet50-micro-onnx-fp32]`."""
        return [item.name for item in self.selected]

    def cases(self, test: str) -> set[str]:
        """The parameters of the tests of this name: their cases, and load points."""
        return {name.partition("[")[2].rstrip("]") for name in self.names if name.startswith(f"{test}[")}

    @property
    def targets(self) -> set[str]:
        """The hardware of all cases that were generated."""
        return {
            item.callspec.params["case"].target.name for item in self.generated if hasattr(item, "callspec")
        }

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.generated = list(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.selected = list(session.items)


Collect = Callable[..., Collected]
"""`collect("-k", "onnx")`: what a command line of the benchmarks selects."""


def help_text(capsys: pytest.CaptureFixture[str]) -> str:
    """What pytest says of the benchmarks' options."""
    capsys.readouterr()
    pytest.main(["benchmarks", "--help", *WITHOUT])
    return capsys.readouterr().out


def collect(
    capsys: pytest.CaptureFixture[str], *arguments: str, paths: tuple[str, ...] = ("benchmarks",)
) -> Collected:
    """Collect the benchmarks with these options."""
    collected = Collected()
    capsys.readouterr()
    collected.status = pytest.main(
        [*paths, "--collect-only", "-q", *WITHOUT, *arguments], plugins=[collected]
    )
    collected.text = "".join(capsys.readouterr())
    return collected


def run_pytest(*arguments: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """A run of pytest in a process of its own, with these variables in its environment too."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
