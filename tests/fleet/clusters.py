"""Local Ray clusters whose nodes announce hardware that does not exist, and runs of the suite on them."""

import contextlib
import dataclasses
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT, junit, records_in
from tests.whole_runs.suite import command

_HANG_S = 90.0
"""Bounds a hang; a run takes a minute, and many on a busy machine."""


@dataclasses.dataclass(eq=False)
class StandIn:
    """A cluster whose nodes sleep in place of measuring."""

    cluster: Any
    """Ray's own cluster for tests."""
    folder: Path
    nodes: dict[str, list[Any]]
    """The nodes that were added, by kind."""

    @property
    def trace(self) -> Path:
        """Where each test leaves a file when it begins on a node."""
        return self.folder / "trace"

    def add(self, *kinds: str) -> None:
        """Add nodes that announce these kinds of GPU; `cpu` announces none."""
        for kind in kinds:
            resources = {} if kind == "cpu" else {f"accelerator_type:{kind}": 1}
            self.nodes.setdefault(kind, []).append(self.cluster.add_node(num_cpus=1, resources=resources))
        self.cluster.wait_for_nodes()

    def kill(self, kind: str) -> None:
        """End a node of a kind as a power cut would."""
        self.cluster.remove_node(self.nodes[kind].pop(0), allow_graceful=False)

    def start(self, *options: str, address: str | None = None) -> "subprocess.Popen[str]":
        """Start a run on the cluster."""
        words = ["-v", "--fleet", address or self.cluster.address, *options]
        words += ["--junit-xml", str(self.folder / "junit.xml")]
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        return subprocess.Popen(
            command(*words, results=self.folder / "results"),
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def begun(self) -> Counter[str]:
        """How often each test has begun on any node."""
        return Counter(path.name.rpartition(".")[0] for path in self.trace.iterdir())

    def wait_begun(self, count: int, part: str = "") -> None:
        """Wait until so many tests have begun whose names have this part."""
        end = time.monotonic() + _HANG_S
        while sum(part in name for name in self.begun()) < count:
            assert time.monotonic() < end, "no test has begun"
            time.sleep(0.1)

    def points(self) -> Counter[str]:
        """The load points on record, by their case and setting."""
        return Counter(
            f"{record.case} {load.scenario} {load.batch} {load.concurrency}"
            for record in records_in(self.folder / "results")
            for load in record.loads
        )

    def outcomes(self) -> dict[str, str]:
        """The outcome of each test: passed, skipped, failure or error."""
        return {name: test.outcome for name, test in junit(self.folder / "junit.xml").items()}

    def collected(self, *options: str) -> list[str]:
        """The names of the tests that a run collects."""
        run = self.start("--collect-only", "-q", "-q", *options)
        text, _ = run.communicate(timeout=_HANG_S)
        return re.findall(r"^benchmarks/.*::(.*)$", text.replace(" ", ""), re.MULTILINE)


def ended(run: "subprocess.Popen[str]") -> tuple[int, str]:
    """The exit status of a run that has ended, and its output."""
    text, _ = run.communicate(timeout=_HANG_S)
    return run.returncode, text


@contextlib.contextmanager
def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> Iterator[StandIn]:
    """A cluster whose head directs and runs nothing; `variables` are those of the nodes."""
    (folder / "trace").mkdir()
    env = {"STAND_IN_TRACE": str(folder / "trace"), "TRITONPROOF_FLEET_PYTHON": sys.executable}
    env |= {"TRITONPROOF_FLEET_CACHE": str(folder / "cache"), "PYTEST_ADDOPTS": "-p tests.fleet.stand_in"}
    # Ray uses the loopback address, so that only this machine can reach the test's ports.
    env |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    for name, value in (env | variables).items():
        monkeypatch.setenv(name, value)
    cluster_utils = pytest.importorskip(
        "ray.cluster_utils", reason="Ray is in an environment of its own: tox run -e fleet --notest"
    )
    cluster = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    try:
        yield StandIn(cluster, folder, {})
    finally:
        cluster.shutdown()
