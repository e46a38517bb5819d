"""Runs on real local Ray clusters whose nodes sleep instead of measuring."""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.clusters import StandIn, ended, stand_in

pytestmark = pytest.mark.campaign

POINTS = ("--batches", "1,8", "--concurrencies", "4,8")
MICRO = ("-k", "resnet50-micro-onnx-fp32", *POINTS)
MODELS = "resnet50-micro or bert-dist4l-micro or fastpitch-micro"
THREE_MODELS = ("-k", f"({MODELS}) and onnx-fp32", *POINTS)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A cluster without nodes whose tests take half a second each."""
    with stand_in(tmp_path, monkeypatch, STAND_IN_SLEEP_S="0.5") as ray_cluster:
        yield ray_cluster


def test_each_test_runs_once_and_is_recorded(cluster: StandIn) -> None:
    cluster.add("A100", "T4", "cpu")

    status, text = ended(cluster.start(*MICRO, "--target", "a100,t4,cpu"))

    outcomes = cluster.outcomes()
    assert status == 0, text
    assert outcomes
    assert set(outcomes.values()) == {"passed"}
    assert set(cluster.begun()) == set(outcomes)
    assert set(cluster.begun().values()) == {1}
    assert len(cluster.points()) == sum("test_o" in name for name in outcomes)


def test_rest_of_dead_nodes_group_fails_and_other_groups_go_on(cluster: StandIn) -> None:
    cluster.add("T4", "T4")
    run = cluster.start(*THREE_MODELS, "--target", "t4")
    for model in ("bert-dist4l", "fastpitch"):  # of equally large groups, the first by name
        cluster.wait_begun(2, model)

    cluster.kill("T4")
    status, text = ended(run)

    outcomes = cluster.outcomes()
    assert status == 11, text
    (lost,) = {name.split("-")[1] for name, kind in outcomes.items() if kind != "passed"}
    assert lost in ("bert", "fastpitch")
    assert {name.split("-")[1] for name, kind in outcomes.items() if kind == "passed"} >= {
        "bert",
        "fastpitch",
        "resnet50",
    } - {lost}
    assert "Ray lost its task" in text
    assert set(cluster.begun().values()) == {1}


def test_waiting_tests_fail_when_last_node_of_their_kind_dies(cluster: StandIn) -> None:
    cluster.add("T4", "cpu")
    run = cluster.start(*THREE_MODELS, "--target", "t4,cpu")
    cluster.wait_begun(2, "t4")

    cluster.kill("T4")
    status, text = ended(run)

    failed = {name for name, kind in cluster.outcomes().items() if kind != "passed"}
    assert status == 11, text
    assert failed
    assert all("t4" in name for name in failed)
    assert "its nodes are gone: no node of the fleet has an NVIDIA T4" in text


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_ended_controller_leaves_nothing_on_nodes(cluster: StandIn, sign: signal.Signals) -> None:
    cluster.add("A100", "cpu")
    run = cluster.start(*MICRO, "--target", "a100,cpu")
    cluster.wait_begun(2)

    run.send_signal(sign)
    status, text = ended(run)

    assert status != 0, text
    end = time.monotonic() + 60
    while (left := _runs_of(cluster)) and time.monotonic() < end:
        time.sleep(0.2)
    assert not left


def _runs_of(cluster: StandIn) -> list[str]:
    """The command lines of the runs on nodes that use this cluster's folder."""
    mine = f"STAND_IN_TRACE={cluster.trace}".encode()
    commands = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if mine in (path / "environ").read_bytes() and "--fleet-report" in command:
                commands.append(command)
    return commands


def test_tests_from_one_that_kills_its_run_fail_with_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stand_in(tmp_path, monkeypatch, STAND_IN_DIES_IN="b008") as cluster:
        cluster.add("A100")

        status, text = ended(cluster.start(*MICRO, "--target", "a100"))

        outcomes = cluster.outcomes()
        assert status == 11, text
        passed = {name for name, kind in outcomes.items() if kind == "passed"}
        (killer,) = (name for name in cluster.begun() if "b008" in name)
        assert passed == set(cluster.begun()) - {killer}
        assert "the last words of a run" in text
        assert "--lf" in text


def test_exitfirst_ends_all_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in(tmp_path, monkeypatch, STAND_IN_FAILS_IN="a100", STAND_IN_SLEEP_S="0.5") as cluster:
        cluster.add("A100", "cpu")

        status, text = ended(cluster.start(*MICRO, "--target", "a100,cpu", "-x"))

        assert status == 12, text
        assert len(cluster.outcomes()) < len(cluster.collected(*MICRO, "--target", "a100,cpu"))
        assert not _runs_of(cluster)
