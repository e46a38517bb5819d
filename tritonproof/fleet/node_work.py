"""What a node does: a task of Ray runs this suite for a group of tests, and a pytest plugin of that run
writes the reports of each test into a file as the test ends.

Each line of the file is JSON: a test `finished`, with its `reports`, or why this node's runs `stopped`.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from tritonproof.base.errors import ProofError
from tritonproof.base.paths import SUITE
from tritonproof.fleet import environment
from tritonproof.host import run_origin
from tritonproof.host.process import guarded, how_ended, wait
from tritonproof.host.scratch import scratch_folder

_POLL_S = 1.0
"""Seconds between two messages to the controller, whose answers say whether the run is still wanted."""
_GRACE_S = 60.0
"""Seconds for an ended run to clean up: the server of a large model takes that long to leave."""


@dataclass(frozen=True)
class NodeOrder:
    """The work of a node."""

    group: str
    """The hardware and the model."""
    tests: Sequence[str]
    device: str
    """`cpu` or `cuda`, which decides the packages."""
    options: Sequence[str]
    """The suite's options, as a command line has them."""
    variables: Mapping[str, str]
    """Variables of the environment, beside the node's own."""
    files: Mapping[str, bytes]
    """The controller's records of the group's cases, by path below the results; the node extends these."""


@dataclass(frozen=True)
class NodeReport:
    """A node's news of a group since its last message."""

    group: str
    """The group of the node's order."""
    events: Sequence[Mapping[str, Any]]
    """What the pytest plugin of this module writes."""
    log: Sequence[str] = ()
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    """The files that changed below the results since the last message, by path; None for removed ones."""


class Mailbox:
    """An actor of Ray beside the controller, in which nodes leave their messages."""

    def __init__(self) -> None:
        self._messages: list[NodeReport] = []
        self._is_open = True

    def post(self, message: NodeReport) -> bool:
        """Accept a message; False tells its sender to end, as the run is over."""
        if self._is_open:
            self._messages.append(message)
        return self._is_open

    def collect(self) -> list[NodeReport]:
        """The messages since the last call."""
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> None:
        """End the run: each node learns it when it next posts a message."""
        self._is_open = False


def run_variables() -> dict[str, str]:
    """The variables that make every node's run part of this one, and name the commit of its files."""
    run = run_origin.own_run()
    commit, is_clean = run_origin.commit_of(SUITE)
    variables = {run_origin.RUN_VARIABLE: run.id, run_origin.STARTED_VARIABLE: run.started}
    if commit is not None:
        variables[run_origin.COMMIT_VARIABLE] = commit + ("" if is_clean else run_origin.DIRTY)
    return variables


def run_tests(order: NodeOrder, packed: bytes, mailbox: Any) -> str:
    """Run the tests of an order on this node, in a checkout of its own; returns why the run ended. `packed`
    is the checkout, and `mailbox` Ray's handle of the actor `Mailbox`."""
    import ray

    def post(*news: Any) -> bool:
        return bool(ray.get(mailbox.post.remote(NodeReport(order.group, *news))))

    def say(text: str) -> None:
        post([{"preparing": text}])

    # Ray gives its workers the niceness 15, unless RAY_worker_niceness=0 was set at `ray start`. If this user
    # may not lower it again, every figure carries the mark `niced`.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    variables = environment.node_variables() | dict(order.variables)
    variables |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        if not post([{"began": len(order.tests)}]):
            return "it was told to end"
        with scratch_folder("fleet") as folder:  # the next run removes it if this process is killed
            root, results = folder / "checkout", folder / "results"
            environment.unpack(packed, root)
            python = environment.python_for(order.device, root, variables, say)
            for name, content in order.files.items():
                (results / name).parent.mkdir(parents=True, exist_ok=True)
                (results / name).write_bytes(content)
            sent = _versions(results)
            command = [str(python), "-m", "pytest", *order.tests, "-p", __name__]
            command += ["--fleet-report", str(folder / "events"), "--results", str(results)]
            command += ["--history", str(folder / "history")]  # the controller adds the records to its own
            command += ["--model-repos", str(environment.cache_folder(variables) / "model_repos")]
            command += ["-p", "no:cacheprovider", *order.options]
            (folder / "events").touch()
            with (
                (folder / "log").open("wb") as log,
                guarded(command, environment=variables, output=log, grace_s=_GRACE_S, folder=root) as process,
            ):
                return _follow(process, folder, sent, post)
    except (OSError, ProofError) as error:
        post([{"stopped": str(error)}])
        return str(error)


def _follow(process: "subprocess.Popen[bytes]", folder: Path, earlier: Mapping[str, Any], post: Any) -> str:
    """Post what the run writes beyond the `earlier` results until it ends or is unwanted; returns why."""
    results = folder / "results"
    with (folder / "events").open("rb") as events, (folder / "log").open("rb") as log:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                wait(process, _POLL_S)
            has_ended = process.poll() is not None
            lines = [line.decode(errors="replace").rstrip() for line in _new_lines(log)]
            new_events = [json.loads(line) for line in _new_lines(events)]
            files: dict[str, bytes | None] = {}
            if any("finished" in event for event in new_events):
                later = _versions(results)
                files = dict.fromkeys(earlier.keys() - later.keys())
                for name in later:
                    if later[name] != earlier.get(name):
                        with contextlib.suppress(FileNotFoundError):
                            files[name] = (results / name).read_bytes()
                earlier = later
            if not post(new_events, [line for line in lines if line], files):
                return "it was told to end"
            if has_ended:
                return f"its run {how_ended(process.returncode)}"


def _new_lines(file: IO[bytes]) -> list[bytes]:
    """The whole lines that were added to a file since the last call."""
    start, content = file.tell(), file.read()
    end = content.rfind(b"\n") + 1
    file.seek(start + end)
    return content[:end].splitlines()


def _versions(results: Path) -> dict[str, tuple[int, int, int]]:
    """The version of each file below the results, by path, without hidden files, which are half-written."""
    versions: dict[str, tuple[int, int, int]] = {}
    for path in results.rglob("*"):
        name = path.relative_to(results)
        # The next test runs meanwhile, and may remove a file.
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            if path.is_file() and not any(part.startswith(".") for part in name.parts):
                versions[str(name)] = (status.st_ino, status.st_mtime_ns, status.st_size)
    return versions


class _Reporter:
    def __init__(self, config: pytest.Config, file: IO[str]) -> None:
        self._config, self._file = config, file
        self._reports: list[Any] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        self._reports.append(hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write({"finished": nodeid, "reports": self._reports})
        self._reports = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.shouldfail:
            self._write({"stopped": str(session.shouldfail)})

    def _write(self, event: dict[str, Any]) -> None:
        # A plugin's property may be no plain value: its text is written, as in JUnit's XML.
        self._file.write(json.dumps(event, default=str) + "\n")
        self._file.flush()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fleet-report", metavar="FILE", help=argparse.SUPPRESS)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Ray blocks SIGINT in its workers. Programs started here would inherit that, and some are ended by
    # SIGINT.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    file = open(config.option.fleet_report, "a")  # noqa: PTH123, SIM115 - closed by pytest's cleanup
    config.add_cleanup(file.close)
    config.pluginmanager.register(_Reporter(config, file), "tritonproof-fleet-reporter")
