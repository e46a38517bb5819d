"""pytest's option --triton-prove DIR, which adds the tests of a Triton model repository to those of any other
suite. All selected ones run at once in a separate process, whose outcomes they report. Without the option
this imports nothing and adds no test."""

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
    note = (
        "Add the tests of every model of this Triton model repository, or with the word remote of every "
        "model that the server of --triton-server has loaded. Repeatable."
    )
    group.addoption("--triton-prove", metavar="DIR", action="append", default=[], help=note)
    note = "The server for --triton-prove: embedded, local, docker, HOST:PORT or grpcs://HOST:PORT."
    group.addoption("--triton-server", metavar="SERVER", help=note)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run in several workers of pytest-xdist, each of which would run all tests of a repository."""
    config.addinivalue_line("markers", "speed: measures the speed of what Triton serves")
    if config.getoption("--triton-prove") and config.getoption("dist", "no") not in ("no", "loadfile"):
        raise pytest.UsageError("--triton-prove with -n would run it in each worker: add --dist loadfile")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add the tests of each repository before pytest applies -k, which then selects among them too."""
    config = session.config
    for folder in config.getoption("--triton-prove"):
        repository = Repository.from_parent(session, name=folder, nodeid=f"tritonproof[{folder}]")
        report = config.hook.pytest_make_collect_report(collector=repository)
        config.hook.pytest_collectreport(report=report)
        items.extend(report.result)


class Repository(pytest.Collector):
    """The collector of the tests of one model repository, whose folder is its name."""

    def collect(self) -> Iterator["ProofItem"]:
        listing = ("--collect-only", "-qq", "--no-header")
        listed = self._run(*listing)
        ids = [line for line in listed.stdout.splitlines() if line.startswith("benchmarks/")]
        if not ids:
            raise self.CollectError(f"no tests\n{(listed.stderr or listed.stdout).strip()}")
        is_marked = bool(self.config.option.markexpr)
        speed = self._run(*listing, "-m", "speed").stdout.splitlines() if is_marked else ()
        for name in ids:
            item = ProofItem.from_parent(self, name=name.partition("::")[2], test=name)
            if name in speed:
                item.add_marker("speed")
            yield item

    @functools.cached_property
    def outcomes(self) -> dict[str, ElementTree.Element]:
        """Run the selected tests; the elements of their JUnit file by test id, none if there is no file."""
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
        # -P keeps modules in the current folder from hiding Python's own; it is new in Python 3.11.
        safe_path = ["-P"] if sys.version_info >= (3, 11) else []
        command = [sys.executable, *safe_path, "-m", "tritonproof", "prove", self.name, *triton, *options]
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        return subprocess.run(command, capture_output=capture, text=True, check=False, env=environment)


class ProofItem(pytest.Item):
    """A test of a model, which reports the outcome that it had in the separate process."""

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
