"""pytest's option --triton-prove DIR: the tests of a Triton model repository beside those of any other suite.
All selected tests of the suite run once, in a process of its own, and take their outcomes from there. Without
the option nothing is imported and no test is added."""

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tritonproof.base.paths import SUITE


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tritonproof", "Proving what NVIDIA Triton serves")
    group.addoption(
        "--triton-prove",
        metavar="DIR",
        action="append",
        default=[],
        help="Add the tests of every model of this Triton model repository, or with the word remote of every "
        "model that the server of --triton-server has loaded. Repeatable.",
    )
    group.addoption(
        "--triton-server",
        metavar="SERVER",
        help="The server for --triton-prove: embedded, local, docker, HOST:PORT or grpcs://HOST:PORT.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to have several workers of pytest-xdist run the suite, each all of it."""
    config.addinivalue_line("markers", "speed: measures the speed of what Triton serves")
    if config.getoption("--triton-prove") and config.getoption("dist", "no") not in ("no", "loadfile"):
        raise pytest.UsageError("--triton-prove with -n would run it in each worker: add --dist loadfile")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add the tests of each repository before -k selects, so that it selects among them too."""
    config = session.config
    for folder in config.getoption("--triton-prove"):
        repository = Repository.from_parent(session, name=folder, nodeid=f"tritonproof[{folder}]")
        report = config.hook.pytest_make_collect_report(collector=repository)
        config.hook.pytest_collectreport(report=report)
        items.extend(report.result)


class Repository(pytest.Collector):
    """The tests of the model repository of its name, and their outcomes once they have run."""

    def collect(self) -> Iterator["ProofItem"]:
        listing = ("--collect-only", "-qq", "--no-header")
        done = self._run(*listing)
        ids = [line for line in done.stdout.splitlines() if line.startswith("benchmarks/")]
        if not ids:
            raise self.CollectError(f"no tests\n{(done.stderr or done.stdout).strip()}")
        is_marked = bool(self.config.option.markexpr)
        speed = self._run(*listing, "-m", "speed").stdout.splitlines() if is_marked else ()
        for name in ids:
            item = ProofItem.from_parent(self, name=name.partition("::")[2], test=name)
            if name in speed:
                item.add_marker("speed")
            yield item

    @functools.cached_property
    def outcomes(self) -> dict[str, ElementTree.Element]:
        """The selected tests' elements in the run's JUnit file, by the tests' ids; empty without the file."""
        items = self.session.items
        selected = [item.test for item in items if item.parent is self]  # type: ignore[attr-defined]
        with tempfile.TemporaryDirectory(prefix="tritonproof-") as folder:
            file = Path(folder) / "junit.xml"
            self._run(*selected, f"--junit-xml={file}", capture=False)
            elements = ElementTree.parse(file).iter("testcase") if file.is_file() else ()
            return {f"{element.get('file')}::{element.get('name')}": element for element in elements}

    def _run(self, *options: str, capture: bool = True) -> subprocess.CompletedProcess[str]:
        server = self.config.getoption("--triton-server")
        triton = ["--triton", server] if server else []
        # Packages of the current folder may have Python's names; before 3.11 there is no such option.
        safe_path = ["-P"] if sys.version_info >= (3, 11) else []
        command = [sys.executable, *safe_path, "-m", "tritonproof", "prove", self.name, *triton, *options]
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        return subprocess.run(command, capture_output=capture, text=True, check=False, env=environment)


class ProofItem(pytest.Item):
    """A test of a model, with its outcome in the suite's own process."""

    def __init__(self, test: str, **names: object) -> None:
        super().__init__(**names)  # type: ignore[arg-type]
        self.test = test

    def runtest(self) -> None:
        outcome = self.parent.outcomes.get(self.test)  # type: ignore[union-attr]
        if outcome is None:
            pytest.fail("the run ended before this test: its output says why", pytrace=False)
        for kind in ("failure", "error"):
            if (failure := outcome.find(kind)) is not None:
                pytest.fail(failure.text or failure.get("message") or kind, pytrace=False)
        if (skipped := outcome.find("skipped")) is not None:
            pytest.skip(skipped.get("message") or "skipped")

    def reportinfo(self) -> tuple[Path, None, str]:
        return SUITE / self.test.partition("::")[0], None, self.name
