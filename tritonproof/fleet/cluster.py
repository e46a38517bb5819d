"""The Ray cluster of a run: its nodes, their hardware, and which of them can run a target's cases."""

import contextlib
import logging
import os
import secrets
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tritonproof.base.errors import InputError, SetupError
from tritonproof.base.paths import IS_INSTALLED, SUITE
from tritonproof.fleet import environment
from tritonproof.host.process import guarded
from tritonproof.host.targets import CPU, EVERY_TARGET, OTHER_GPU, recognise
from tritonproof.spec import Target

_ACCELERATOR = "accelerator_type:"
"""The beginning of the names of Ray's resources by which a node announces its kind of GPU."""
_ANSWER_S = 5.0
"""Seconds for a cluster's port to accept a connection; Ray itself would try for minutes."""


@dataclass(frozen=True)
class Node:
    """A machine of the cluster; one host may have several, with different ids."""

    id: str
    host: str
    cpus: float
    """The CPUs that the node offers to tasks; 0 for a node that only directs the others."""
    gpus: float
    accelerators: tuple[str, ...]
    """The names by which the node announces its kind of GPU, such as A100 and A100-80G."""

    @property
    def target(self) -> Target:
        named = [recognise(f"NVIDIA {name}") for name in self.accelerators]
        return next((target for target in named if target is not OTHER_GPU), OTHER_GPU if named else CPU)

    def __str__(self) -> str:
        return f"{self.host} ({', '.join(self.accelerators) or 'CPU'}, {self.id[:6]})"


def nodes_from(answers: Iterable[Mapping[str, Any]]) -> list[Node]:
    """The live nodes that offer CPUs, from the result of `ray.nodes()`."""
    nodes = []
    for entry in answers:
        resources = entry["Resources"]
        names = (name.removeprefix(_ACCELERATOR) for name in resources if name.startswith(_ACCELERATOR))
        if entry["Alive"] and (cpus := resources.get("CPU", 0.0)) > 0:
            host, gpus = entry["NodeManagerHostname"], resources.get("GPU", 0.0)
            nodes.append(Node(entry["NodeID"], host, cpus, gpus, tuple(sorted(names))))
    return nodes


def targets_of(nodes: Sequence[Node]) -> tuple[Target, ...]:
    """The nodes' targets, each once, in the suite's order."""
    present_targets = {node.target for node in nodes}
    return tuple(target for target in EVERY_TARGET if target in present_targets)


def nodes_for(target: Target, nodes: Sequence[Node], gpus: int = 1) -> list[Node]:
    """The nodes that can run cases of a target: for the CPU those without a GPU, or all if every node has
    one; for a GPU those that have `gpus` of them, the number that serves a case, or announce no number."""
    if target == CPU:
        return [node for node in nodes if node.target == CPU] or list(nodes)
    return [node for node in nodes if node.target == target and (node.gpus == 0 or node.gpus >= gpus)]


def kinds_text(nodes: Sequence[Node]) -> str:
    """`2 x A100, 1 x CPU`: the kinds of nodes, as Ray names them."""
    counts = Counter(min(node.accelerators, key=len, default="CPU") for node in nodes)
    return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items())) or "no node with a CPU"


def why_no_node(target: Target, nodes: Sequence[Node], gpus: int = 1) -> str:
    """The reason for skipping a test that no node of the fleet can run."""
    wanted = "1 x CPU" if target == CPU else f"{gpus} x {target.label.removeprefix('another ')}"
    return f"no node of the fleet has {wanted}; it has: {kinds_text(nodes)}"


def ray_module() -> ModuleType:
    """Import Ray. Raises SetupError if it is missing, or without a checkout, which nodes need."""
    if IS_INSTALLED:
        what = "a fleet needs a checkout of tritonproof, from which each node makes its environment"
        raise SetupError(what, where="--fleet", fix="clone its repository and follow its docs/fleet.md")
    try:
        import ray
    except ImportError:
        fix = (
            ".venv/bin/tox run -e fleet -- --fleet ... has it in an environment of its own, as Ray and the "
            "benchmarks need different versions of protobuf"
        )
        what = "a fleet needs Ray, which is not installed here"
        raise SetupError(what, where="--fleet", fix=fix) from None
    return ray


@contextlib.contextmanager
def connect(address: str) -> Iterator[ModuleType]:
    """Join the cluster at `address` for a block, which gets the package ray; the cluster's tasks import the
    modules of this checkout. An address is `local`, which starts a cluster of this machine alone and ends it;
    `auto`, for the cluster that this machine belongs to; HOST:PORT; or ray://HOST:PORT from a machine that is
    none of its nodes. Raises SetupError without Ray, and InputError if no cluster answers."""
    if address == "local":
        # Before Ray is imported: its cluster listens on loopback alone, requires this run's token, and sends
        # Ray's makers no statistics. The first variable makes Ray use the loopback address, as on macOS;
        # Ray's option for a node's address replaces 127.0.0.1 with the machine's own.
        os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray = ray_module()
    check_reachable(address)
    handler = signal.getsignal(signal.SIGTERM)
    code = environment.pack(SUITE, code_alone=True)
    # For Ray's files, removed however this process ends; short, as socket paths have at most 107 characters.
    folder, idle = Path(tempfile.mkdtemp(prefix="tp-ray-")), ["sleep", "infinity"]
    with (
        Path(os.devnull).open("wb") as null,
        guarded(idle, environment={"PATH": os.defpath}, output=null, grace_s=1, remove=folder),
    ):
        options: dict[str, Any] = {
            "address": address,
            "runtime_env": {"worker_process_setup_hook": environment.code_importer(code)},
            "namespace": "tritonproof",
            "log_to_driver": False,
            "logging_level": logging.ERROR,
        }
        if address == "local":
            options |= {"include_dashboard": False, "_temp_dir": str(folder)}
            options |= {"_system_config": {"worker_niceness": 0}}  # Ray's own 15 would be in every figure
        try:
            try:
                ray.init(**options)
            except (ConnectionError, RuntimeError, ValueError, OSError, AssertionError) as error:
                what = f"the Ray cluster cannot be joined: {' '.join(str(error).split())[:500]}"
                fix = (
                    "start one with `ray start --head`, make this machine a node of it with `ray start "
                    "--address=HOST:PORT`, or use ray://HOST:10001, with the same versions of Python and Ray"
                )
                raise InputError(what, where=f"--fleet {address[:200]}", fix=fix) from error
            signal.signal(signal.SIGTERM, handler)  # Ray's own could exit at any point
            yield ray
        finally:
            ray.shutdown()


def check_reachable(address: str) -> None:
    """Raise InputError if an address is invalid, or nothing listens there."""
    if address in ("local", "auto"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host or "no host", int(port)), timeout=_ANSWER_S).close()
    except (OSError, OverflowError, ValueError) as error:
        raise InputError(
            f"no Ray cluster answers: {error}",
            where=f"--fleet {address[:200]}",
            fix="write local, auto, HOST:PORT as `ray start --head --port=6379` prints it, or "
            "ray://HOST:PORT, and check the firewall",
        ) from None
