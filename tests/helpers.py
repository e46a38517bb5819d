"""Helpers for tests of the suite itself: processes, command lines of the benchmarks, unreadable files."""

import argparse
import contextlib
import ctypes
import os
import re
import signal
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import psutil
import pytest

from tritonproof.host import machine
from tritonproof.record import Record, record_files
from tritonproof.reports.tables.rendering import markdown
from tritonproof.run.once import once
from tritonproof.safe_io.files import read_toml
from tritonproof.serve.server_spec import TRITON_VARIABLE
from tritonproof.settings.options import add_options
from tritonproof.settings.settings import Settings

ROOT = Path(__file__).parents[1]
Value = TypeVar("Value")
NATIVE_PROGRAM = os.environ.pop(TRITON_VARIABLE, None)
"""A tritonserver with native backends, for the tests that need one. Runs of the suite that other tests start
do not inherit it: those tests choose their own server."""


def project_file() -> dict[str, Any]:
    """The tables of pyproject.toml."""
    return read_toml(ROOT / "pyproject.toml", "pyproject.toml", "")


def environments() -> set[str]:
    """The names of tox's environments, with all their factors."""
    text = (ROOT / "tox.ini").read_text()
    sections = re.findall(r"^\[testenv:([a-z]+)(?:\{(.*)\})?\]$", text, re.MULTILINE)
    return {f"{name}{factors}" for name, ends in sections for factors in ends.split(",")}


# --- processes and servers that tests start


def wait_until(
    is_so: Callable[[], object], limit_s: float = 60.0, said: Callable[[], object] = lambda: ""
) -> None:
    """Wait until `is_so()` holds; on timeout, as after a hang, raises AssertionError with `said()`."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, said() or f"it is not so after {limit_s:g} s"
        time.sleep(0.02)


def command_line(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if it has ended, even during this call."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def program_name(process: psutil.Process) -> str:
    """The name of a process's program; empty once it has ended."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def give_to_another_user(path: Path) -> None:
    """Give a file or folder to another user; skips the test unless root runs it."""
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(path, 12345, 12345)


@dataclass(frozen=True)
class Household:
    """Everything that a test starts: processes have an environment variable, files a common folder."""

    environment: dict[str, str]
    temporary: Path
    callers: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    """Direct children of the test, reaped at its end."""

    def start(
        self, words: Sequence[str], log: Path, *, cwd: Path = ROOT, **variables: str | None
    ) -> "subprocess.Popen[bytes]":
        """Start a program in a session of its own, with its output in the log; a variable of None is unset."""
        environment = self.environment | variables
        with log.open("wb") as output:
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env={name: value for name, value in environment.items() if value is not None},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.callers.append(process)
        return process

    def processes(self) -> list[psutil.Process]:
        """All living processes with the mark, including grandchildren and orphans."""
        mark = ("TRITONPROOF_MARK", self.environment["TRITONPROOF_MARK"])
        living = psutil.process_iter(["environ"])
        return [process for process in living if mark in (process.info["environ"] or {}).items()]

    def names(self) -> list[str]:
        return [program_name(process) for process in self.processes()]

    def left(self, seconds: float) -> list[str]:
        """The command lines of processes that still run after at most `seconds`."""
        deadline = time.monotonic() + seconds
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        return [line for process in self.processes() if (line := " ".join(command_line(process))[:200])]


ENDED_S = 60.0
"""Bounds a hang; processes end within a few tenths of a second, on a busy machine within seconds."""


def end(caller: "subprocess.Popen[bytes]", how: str) -> None:
    """End a caller that leads its own process group."""
    if how == "ctrl-c":
        os.killpg(caller.pid, signal.SIGINT)
    else:
        signals = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "abort": signal.SIGABRT}
        caller.send_signal(signals[how])
    assert caller.wait(ENDED_S) != 0


def git(folder: Path, *arguments: str) -> str:
    """Call git in a folder, with a user name and email; returns its output."""
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def grpc_server(
    answers: Mapping[str, Callable[[Any, Any], Any]], threads: int = 4
) -> Iterator[tuple[str, Any]]:
    """The HOST:PORT of a server of Triton's protocol in this process, and its client. Each of the `answers`,
    by the name of its call, takes a request and gRPC's context, and returns a response or its bytes."""
    import grpc
    from tritonclient.grpc import service_pb2

    from tritonproof.serve.connection import grpc_client

    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            answer,
            getattr(service_pb2, f"{name}Request").FromString,
            lambda response: response if isinstance(response, bytes) else response.SerializeToString(),
        )
        for name, answer in answers.items()
    }
    server = grpc.server(ThreadPoolExecutor(threads))
    service = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", handlers)
    server.add_generic_rpc_handlers([service])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        with contextlib.closing(grpc_client(address)) as client:
            yield address, client
    finally:
        server.stop(0).wait()


# --- collecting and running the benchmarks

WITHOUT = ("-p", "no:cacheprovider", "-p", "no:unraisableexception")
"""The latter plugin collects garbage five times at the end, which takes seconds once tests have imported
PyTorch and TensorFlow; the tests' own pytest does this once."""


@dataclass
class Collected:
    """What a command line selects."""

    status: int = 0
    generated: list[pytest.Item] = field(default_factory=list)
    """All tests before -k and -m filter them."""
    selected: list[pytest.Item] = field(default_factory=list)
    """The tests that would run, in their order."""
    text: str = ""
    """The output, including errors."""
    session: pytest.Session | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """The variables that the tests of the run would see, and the names of their GPUs."""
    gpu_names: tuple[str, ...] = ()

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
        with_cases = [item for item in self.generated if hasattr(item, "callspec")]
        return {item.callspec.params["case"].target.name for item in with_cases}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.generated = list(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.session, self.selected = session, list(session.items)
        self.environment, self.gpu_names = dict(os.environ), machine.gpu_names()


Collect = Callable[..., Collected]
"""`collect("-k", "onnx")`: what a command line of the benchmarks selects."""


def help_text(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    pytest.main(["benchmarks", "--help", *WITHOUT])
    return capsys.readouterr().out


def collect(
    capsys: pytest.CaptureFixture[str], *arguments: str, paths: tuple[str, ...] = ("benchmarks",)
) -> Collected:
    collected = Collected()
    capsys.readouterr()
    words = [*paths, "--collect-only", "-q", *WITHOUT, *arguments]
    collected.status = pytest.main(words, plugins=[collected])
    collected.text = "".join(capsys.readouterr())
    return collected


def pytest_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]


def run_pytest(*arguments: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a separate process, with these additional environment variables."""
    return subprocess.run(
        pytest_command(*arguments),
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=900,  # bounds a hang, on a busy machine too
        check=False,
    )


def write_benchmarks(folder: Path, text: str) -> list[str]:
    """Write a test's own benchmarks, with the suite's plugins, into a folder; returns what runs them there."""
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "test_all.py").write_text(text)
    (folder / "conftest.py").write_text(
        "import runpy\npytest_addoption = "
        f"runpy.run_path({str(ROOT / 'conftest.py')!r})['pytest_addoption']\n"
    )
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "no:cacheprovider"]
    return ["benchmarks", *options, "--results", str(folder / "results")]


def present(value: Value | None) -> Value:
    """A value that may be missing elsewhere; fails the test if it is."""
    assert value is not None, "there is no value"
    return value


def settings(**given: Any) -> Settings:
    """Settings from the texts of options, and defaults for all others; the server is embedded by default."""
    return Settings.of(**{"triton": "embedded", **given})


def parser(kind: type[Settings] = Settings) -> argparse.ArgumentParser:
    """A parser of only these options."""
    own_parser = argparse.ArgumentParser(exit_on_error=False)
    group = SimpleNamespace(addoption=own_parser.add_argument)
    add_options(SimpleNamespace(getgroup=lambda *_names, **_kwargs: group), kind)
    return own_parser


def options(**given: Any) -> argparse.Namespace:
    """These options and the defaults of all others, as texts, as in pytest's configuration."""
    return argparse.Namespace(**{**vars(parser().parse_args([])), **given})


def parsed(words: Sequence[str], kind: Any = Settings) -> Any:
    """The settings of a command line."""
    return kind.of(**vars(parser(kind).parse_args(list(words))))


def preset(owner: object, **values: Any) -> None:
    """Give an object these values of `once`, which it then does not compute."""
    assert all(isinstance(getattr(type(owner), name), once) for name in values)
    vars(owner).update(values)


# --- files

_CAPABILITIES = struct.pack("Ii", 0x20080522, 0)
"""The header of capget and capset for this thread. Source: _LINUX_CAPABILITY_VERSION_3 in linux/capability.h."""
_PASSES_OVER_MODES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH there."""


@contextlib.contextmanager
def closed(path: Path, mode: int = 0) -> Iterator[None]:
    """Within the block a file or folder has this mode, and this thread obeys it even as root.

    Mode 0 forbids everything; on a folder 0o444 forbids entering, 0o111 listing and 0o555 writing.
    `os.access` still counts rights that root could take up again, so code that asks only it is not refused.
    """
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        with _held_to_modes():
            yield
    finally:
        path.chmod(before)


@contextlib.contextmanager
def _held_to_modes() -> Iterator[None]:
    library = ctypes.CDLL(None, use_errno=True)
    # Effective, permitted and inheritable ones, of the lower 32 and of others.
    rights = (ctypes.c_uint32 * 6)()
    assert library.capget(_CAPABILITIES, rights) == 0, os.strerror(ctypes.get_errno())
    before = rights[0]
    try:
        rights[0] = before & ~_PASSES_OVER_MODES
        assert library.capset(_CAPABILITIES, rights) == 0, os.strerror(ctypes.get_errno())
        yield
    finally:
        rights[0] = before
        assert library.capset(_CAPABILITIES, rights) == 0, os.strerror(ctypes.get_errno())


# --- outputs


@dataclass(frozen=True)
class JunitTest:
    outcome: str
    """passed, skipped, failure or error."""
    message: str
    file: str
    properties: dict[str, str]


def junit(path: Path) -> dict[str, JunitTest]:
    """The tests in JUnit's XML, by their names."""
    tests = {}
    for case in ElementTree.parse(path).iter("testcase"):
        ended = next((child for child in case if child.tag in ("skipped", "failure", "error")), None)
        outcome, message = ("passed", "") if ended is None else (ended.tag, str(ended.get("message")))
        pairs = [(str(entry.get("name")), str(entry.get("value"))) for entry in case.iter("property")]
        assert len(pairs) == len(dict(pairs)), "each property has one value"
        tests[str(case.get("name"))] = JunitTest(outcome, message, str(case.get("file")), dict(pairs))
    return tests


def records_in(results: Path) -> list[Record]:
    """Every record below a folder, by name."""
    return [*record_files.read_folder(results).values()]


def as_markdown(made: Any) -> str:
    """A block of the reports, or several, as markdown."""
    return markdown(made if isinstance(made, list) else [made])


def cells(text: str) -> list[list[str]]:
    """The cells of each row of all tables in a text, headings included."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    stripped = [[cell.strip() for cell in row] for row in rows]
    return [row for row in stripped if set("".join(row)) - set("-:")]
