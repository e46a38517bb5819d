"""Runs on real local Ray clusters whose nodes sleep, and announce hardware that does not exist."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.sleeping_node import DIES_IN, FAILS_IN, SLEEP_S, STOPS_IN
from tests.helpers import ROOT, junit, records_in, wait_until
from tests.whole_runs.suite import command

pytestmark = pytest.mark.campaign

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

    def add(self, *kinds: str) -> None:
        """Add nodes that announce these kinds of GPU; `cpu` announces none."""
        for kind in kinds:
            resources = {} if kind == "cpu" else {f"accelerator_type:{kind}": 1}
            self.nodes.setdefault(kind, []).append(self.cluster.add_node(num_cpus=1, resources=resources))
        self.cluster.wait_for_nodes()

    def kill(self, kind: str) -> None:
        """End a node of a kind as a power cut would."""
        self.cluster.remove_node(self.nodes[kind].pop(0), allow_graceful=False)

    def start(self, *options: str) -> "subprocess.Popen[str]":
        """Start a run on the cluster."""
        words = ["-v", "--fleet", self.cluster.address, *options]
        words += ["--junit-xml", str(self.folder / "junit.xml")]
        return subprocess.Popen(
            command(*words, results=self.folder / "results"),
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def begun(self) -> list[str]:
        """The names of the tests that have begun on any node, a repeated one twice."""
        return sorted(path.name.rpartition(".")[0] for path in (self.folder / "trace").iterdir())

    def wait_begun(self, count: int, part: str = "") -> None:
        """Wait until so many tests have begun whose names have this part."""
        wait_until(lambda: sum(part in name for name in self.begun()) >= count, _HANG_S)

    def passed(self, *, otherwise: bool = False) -> set[str]:
        """The tests that passed, or those that failed or erred."""
        outcomes = {name: test.outcome for name, test in junit(self.folder / "junit.xml").items()}
        return {name for name, outcome in outcomes.items() if (outcome != "passed") == otherwise}

    def running(self) -> list[str]:
        """The command lines of the runs on its nodes."""
        mine = f"STAND_IN_TRACE={self.folder / 'trace'}".encode()
        commands = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if mine in (path / "environ").read_bytes() and "--fleet-report" in words:
                    commands.append(words)
        return commands


def ended(run: "subprocess.Popen[str]") -> tuple[int, str]:
    """The exit status of a run that has ended, and its output."""
    text, _ = run.communicate(timeout=_HANG_S)
    return run.returncode, text


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A cluster whose head runs nothing. Tests take half a second on nodes, with variables of their start."""
    (tmp_path / "trace").mkdir()
    env = {"STAND_IN_TRACE": str(tmp_path / "trace"), "PYTEST_ADDOPTS": "-p tests.fleet.sleeping_node"}
    env |= {"TRITONPROOF_FLEET_PYTHON": sys.executable, "TRITONPROOF_FLEET_CACHE": str(tmp_path / "cache")}
    # Ray uses the loopback address, so that only this machine can reach the test's ports.
    env |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    for name, value in (env | {SLEEP_S: "0.5"}).items():
        monkeypatch.setenv(name, value)
    cluster_utils = pytest.importorskip(
        "ray.cluster_utils", reason="Ray is in an environment of its own: tox run -e fleet --notest"
    )
    head = {"num_cpus": 0, "include_dashboard": False}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    yield StandIn(cluster, tmp_path, {})
    cluster.shutdown()


POINTS = ("--batches", "1,8", "--concurrencies", "4,8")
MICRO = ("-k", "resnet50-micro-onnx-fp32", *POINTS)
MODELS = ("bert", "fastpitch", "resnet50")
THREE_MODELS = ("-k", "(resnet50-micro or bert-dist4l-micro or fastpitch-micro) and onnx-fp32", *POINTS)


def test_each_test_runs_once_and_is_recorded(cluster: StandIn) -> None:
    cluster.add("A100", "T4", "cpu")
    status, text = ended(cluster.start(*MICRO, "--target", "a100,t4,cpu"))
    assert status == 0, text
    assert cluster.begun() == sorted(cluster.passed()) != []
    assert not cluster.passed(otherwise=True)
    points = [point for record in records_in(cluster.folder / "results") for point in record.points]
    assert len(points) == sum("test_o" in name for name in cluster.passed())


def test_rest_of_dead_nodes_group_fails_and_other_groups_go_on(cluster: StandIn) -> None:
    cluster.add("T4", "T4")
    run = cluster.start(*THREE_MODELS, "--target", "t4")
    for model in MODELS[:2]:  # of equally large groups, the first by name
        cluster.wait_begun(2, model)

    cluster.kill("T4")
    status, text = ended(run)

    assert status == 11, text
    (lost,) = {name.split("-")[1] for name in cluster.passed(otherwise=True)}
    assert lost in MODELS[:2]
    assert {name.split("-")[1] for name in cluster.passed()} >= set(MODELS) - {lost}
    assert "Ray lost its task" in text
    assert len(cluster.begun()) == len(set(cluster.begun()))


@pytest.mark.parametrize("dies", [True, False])
def test_waiting_tests_fail_when_last_node_of_their_kind_dies_or_stops(
    dies: bool, cluster: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STOPS_IN, "no test" if dies else "[t4-")
    cluster.add("T4", "cpu")
    run = cluster.start(*THREE_MODELS, "--target", "t4,cpu")
    cluster.wait_begun(1, "t4")

    if dies:
        cluster.kill("T4")
    status, text = ended(run)

    assert status == 11, text
    assert {name.split("-")[0].partition("[")[2] for name in cluster.passed(otherwise=True)} == {"t4"}
    assert {name.split("-")[1] for name in cluster.begun() if "[t4-" in name} == {"bert"}
    assert "its nodes have failed: no node of the fleet has 1 x NVIDIA T4" in text


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_ended_controller_leaves_nothing_on_nodes(cluster: StandIn, sign: signal.Signals) -> None:
    cluster.add("A100", "cpu")
    run = cluster.start(*MICRO, "--target", "a100,cpu")
    cluster.wait_begun(2)
    run.send_signal(sign)
    status, text = ended(run)
    assert status != 0, text
    wait_until(lambda: not cluster.running())


def test_tests_after_one_that_kills_its_run_fail(cluster: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIES_IN, "b008")
    cluster.add("A100")
    status, text = ended(cluster.start(*MICRO, "--target", "a100"))
    assert status == 11, text
    (killer,) = (name for name in cluster.begun() if "b008" in name)
    assert cluster.passed() == set(cluster.begun()) - {killer}
    assert "the last words of a run" in text
    assert "--lf" in text


def test_exitfirst_ends_all_nodes(cluster: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAILS_IN, "a100")
    cluster.add("A100", "cpu")
    status, text = ended(cluster.start(*MICRO, "--target", "a100,cpu", "-x"))
    assert status == 12, text
    assert len(cluster.passed(otherwise=True)) == 1
    assert not cluster.running()
