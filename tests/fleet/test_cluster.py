"""An unavailable fleet is refused at once; the hardware of a cluster's nodes, and the cases they can run."""

import socket
import sys
from typing import Any

import pytest

from tests.helpers import Collect
from tritonproof.base.errors import InputError, SetupError
from tritonproof.fleet import cluster
from tritonproof.fleet.cluster import Node, kinds_text, nodes_for, nodes_from, targets_of, why_no_node
from tritonproof.host.targets import CPU, OTHER_GPU, TARGETS
from tritonproof.spec import Target

TARGET = {target.name: target for target in TARGETS}


def node(name: str, *accelerators: str, gpus: float = 0) -> Node:
    """A node that announces these kinds of accelerator."""
    return Node(name, f"host-{name}", 8, gpus, accelerators)


@pytest.mark.parametrize(
    ("names", "target"),
    [(["A100", "A100-80G"], TARGET["a100"]), (["L40S"], TARGET["l40s"]), (["A10G"], OTHER_GPU), ([], CPU)],
)
def test_node_target_follows_gpu_name_from_ray(names: list[str], target: Target) -> None:
    assert node("1", *names).target == target


def test_dead_and_head_nodes_get_no_work() -> None:
    def as_ray_says(name: str, cpus: float, **changes: Any) -> dict[str, Any]:
        resources = {"CPU": cpus, "memory": 1e9, "accelerator_type:T4": 1.0, f"node:10.0.0.{name}": 1.0}
        return {"NodeID": name, "Alive": True, "NodeManagerHostname": "h", "Resources": resources} | changes

    nodes = nodes_from([as_ray_says("1", 4.0), as_ray_says("2", 4.0, Alive=False), as_ray_says("3", 0.0)])

    assert nodes == [Node("1", "h", 4.0, 0.0, ("T4",))]


A100, MANY, NO_GPU = node("1", "A100", gpus=1), node("2", "A100", "A100-80G", gpus=4), node("3")


@pytest.mark.parametrize(
    ("target", "gpus", "nodes", "fit"),
    [
        (CPU, 1, [A100, NO_GPU], [NO_GPU]),
        (CPU, 1, [A100], [A100]),
        (TARGET["a100"], 1, [A100, MANY, NO_GPU], [A100, MANY]),
        (TARGET["a100"], 2, [A100, MANY], [MANY]),
        (TARGET["t4"], 1, [A100, NO_GPU], []),
    ],
)
def test_cases_run_on_nodes_with_their_hardware(
    target: Target, gpus: int, nodes: list[Node], fit: list[Node]
) -> None:
    assert nodes_for(target, nodes, gpus) == fit


def test_test_without_matching_node_names_available_hardware() -> None:
    nodes = [A100, MANY, NO_GPU]
    assert kinds_text(nodes) == "2 x A100, 1 x CPU"
    assert kinds_text(nodes) in why_no_node(TARGET["t4"], nodes)
    assert targets_of(nodes) == (TARGET["a100"], CPU)


@pytest.mark.parametrize(
    "address", ["nonsense", "ray://host", "host:", ":1", "a b:c", f"{'x' * 64}:6379", "nobody listens"]
)
def test_bad_or_unreachable_address_is_refused(address: str) -> None:
    if address == "nobody listens":
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(InputError, check=lambda error: error.where.startswith("--fleet ")):
        cluster.check_reachable(address)


def test_missing_ray_names_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SetupError, check=lambda error: "tox run -e fleet" in error.fix):
        cluster.ray_module()


ONLY_HERE = ("--against HEAD", "--against-triton embedded", "--benchmark-json x", "--model-repos x", "-n 2")


@pytest.mark.parametrize("given", ONLY_HERE)
def test_single_machine_option_is_refused(given: str, collect: Collect) -> None:
    """A fleet that ignored it would seem to compare, and to find nothing."""
    if given == "-n 2":
        pytest.importorskip("xdist", reason="pytest-xdist, which the environment of a fleet lacks")
    collected = collect("--fleet", "local", "--target", "cpu", *given.split())
    assert collected.status == pytest.ExitCode.USAGE_ERROR
    assert f"where: --fleet {given.split()[0]}" in collected.text
