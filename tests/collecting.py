"""Collects the benchmarks in this process, as a command line would."""

from dataclasses import dataclass, field

import pytest

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
