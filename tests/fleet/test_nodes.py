"""Nodes of a cluster: which hardware each is, and what a task asks for to have one of them alone."""

from typing import Any

import pytest

from fixtures.fleet.nodes import Node, fitting, kinds_text, nodes_from, request_for, targets_of, why_no_node
from fixtures.host.targets import CPU, OTHER_GPU, TARGETS
from fixtures.spec import Target

TARGET = {target.name: target for target in TARGETS}


def node(name: str, *accelerators: str, cpus: float = 8, gpus: float = 0) -> Node:
    """A node that announces these kinds of accelerator."""
    return Node(name, f"host-{name}", cpus, gpus, accelerators)


@pytest.mark.parametrize(
    ("names", "target"),
    [
        (["A30"], TARGET["a30"]),
        (["A40"], TARGET["a40"]),
        (["A100"], TARGET["a100"]),
        (["A100", "A100-80G"], TARGET["a100"]),
        (["V100"], TARGET["v100"]),
        (["T4"], TARGET["t4"]),
        (["L40S"], TARGET["l40s"]),
        (["B200"], TARGET["b200"]),
        (["GB200"], OTHER_GPU),
        (["A10G"], OTHER_GPU),
        (["AMD-Instinct-MI210"], CPU),
        ([], CPU),
    ],
)
def test_a_node_is_the_target_of_the_gpu_that_ray_names(names: list[str], target: Target) -> None:
    assert node("1", *names).target == target


def test_dead_nodes_and_those_that_only_direct_take_nothing() -> None:
    def as_ray_says(name: str, cpus: float, **changes: Any) -> dict[str, Any]:
        resources = {"CPU": cpus, "memory": 1e9, "accelerator_type:T4": 1.0, f"node:10.0.0.{name}": 1.0}
        return {"NodeID": name, "Alive": True, "NodeManagerHostname": "h", "Resources": resources} | changes

    found = nodes_from([as_ray_says("1", 4.0), as_ray_says("2", 4.0, Alive=False), as_ray_says("3", 0.0)])

    assert [one.id for one in found] == ["1"]
    assert found[0].accelerators == ("T4",)


def test_the_cases_of_a_cpu_run_where_no_gpu_is_if_there_is_such_a_node() -> None:
    nodes = [node("1", "A100"), node("2")]

    assert [one.id for one in fitting(CPU, nodes)] == ["2"]
    assert [one.id for one in fitting(CPU, nodes[:1])] == ["1"]


def test_a_node_with_too_few_gpus_is_not_asked() -> None:
    nodes = [node("1", "A100", gpus=1), node("2", "A100", gpus=4)]

    assert [one.id for one in fitting(TARGET["a100"], nodes, gpus=2)] == ["2"]


def test_a_task_takes_all_of_a_node_so_that_no_other_is_on_it() -> None:
    asked = request_for([node("1", "A100", cpus=16, gpus=2), node("2", "A100", cpus=16, gpus=2)])

    assert (asked["num_cpus"], asked["num_gpus"]) == (16, 2)
    assert asked["resources"] == {"accelerator_type:A100": 1}


def test_every_node_of_a_kind_may_be_given_a_task_whatever_else_it_is_called() -> None:
    of_two_sizes = [node("1", "A100", "A100-40G", cpus=8), node("2", "A100", "A100-80G", cpus=16)]
    of_two_names = [node("1", "A100-40G"), node("2", "A100-80G")]
    of_no_name = [node("1"), node("2")]

    assert request_for(of_two_sizes)["resources"] == {"accelerator_type:A100": 1}
    assert request_for(of_two_sizes)["num_cpus"] == 8
    for nodes in (of_two_names, of_no_name):
        assert request_for(nodes)["label_selector"] == {"ray.io/node-id": "in(1,2)"}


def test_a_node_that_has_failed_is_not_asked_again_while_there_is_another() -> None:
    gpus, cpus = [node("1", "T4"), node("2", "T4")], [node("1"), node("2")]

    assert request_for(gpus, {"1"})["label_selector"] == {"ray.io/node-id": "!in(1)"}
    assert request_for(gpus, {"1"})["resources"] == {"accelerator_type:T4": 1}
    assert request_for(cpus, {"1"})["label_selector"] == {"ray.io/node-id": "in(2)"}
    assert request_for(gpus, {"1", "2"}) == request_for(gpus)


def test_what_is_missing_is_said_with_what_there_is() -> None:
    nodes = [node("1", "A100"), node("2", "A100", "A100-80G"), node("3")]

    assert (
        why_no_node(TARGET["t4"], nodes) == "no node of the fleet has an NVIDIA T4; it has: 2 x A100, 1 x CPU"
    )
    assert "2 x NVIDIA A100" in why_no_node(TARGET["a100"], nodes, gpus=2)
    assert kinds_text([]) == "no node with a CPU"
    assert targets_of(nodes) == (TARGET["a100"], CPU)


# --- against Ray itself ----------------------------------------------------------------------------------------


def test_every_target_has_the_name_that_ray_gives_its_gpu() -> None:
    gpus = pytest.importorskip(
        "ray._private.accelerators.nvidia_gpu", reason="Ray: tox run -e fleet --notest"
    )
    named = gpus.NvidiaGPUAcceleratorManager._gpu_name_to_accelerator_type
    drivers = {
        "a30": "NVIDIA A30",
        "a40": "NVIDIA A40",
        "a100": "NVIDIA A100-SXM4-80GB",
        "v100": "Tesla V100-SXM2-16GB",
        "t4": "Tesla T4",
        "l4": "NVIDIA L4",
        "l40s": "NVIDIA L40S",
        "h100": "NVIDIA H100 80GB HBM3",
        "h200": "NVIDIA H200",
        "b200": "NVIDIA B200",
    }

    assert set(drivers) == set(TARGET) - {"cpu"}
    for name, driver in drivers.items():
        assert node("1", named(driver)).target == TARGET[name], driver


def test_no_name_of_ray_for_another_vendor_is_an_nvidia_gpu() -> None:
    accelerators = pytest.importorskip("ray.util.accelerators", reason="Ray: tox run -e fleet --notest")
    names = {
        name: value for name, value in vars(accelerators).items() if isinstance(value, str) and name.isupper()
    }

    assert any(name.startswith("NVIDIA_") for name in names)
    for constant, value in names.items():
        assert (node("1", value).target != CPU) == constant.startswith("NVIDIA_"), constant


def test_ray_takes_the_options_that_a_task_asks_with() -> None:
    ray = pytest.importorskip("ray", reason="Ray: tox run -e fleet --notest")

    for nodes in ([node("0" * 56), node("f" * 56)], [node("1", "A100", gpus=1)]):
        ray.remote(node).options(**request_for(nodes), max_retries=-1)
        ray.remote(node).options(**request_for(nodes, {nodes[0].id}), max_retries=-1)
