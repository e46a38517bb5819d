"""No Triton, load generator or leftover outlives a killed caller under real load."""

import random
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest

from fixtures.host import guard
from tests.conftest import DOUBLING, MakeBuild
from tests.helpers import ENDED_S, Household, command_line, end, start_caller, wait_until

ROOT = Path(__file__).parents[2]
SHM = Path("/dev/shm")

SERVING = """
import os, sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from fixtures.serve import wheels
from fixtures.host.process import guarded
from fixtures.serve.server_spec import Choice
from fixtures.serve.launch import serve
folder = Path({folder!r})
print("start", flush=True)
with serve(Choice("embedded"), folder / "models", folder / "server.log", device="cpu") as server:
    server.client.load_model({model!r})
    command = [{program!r}, "-m", {model!r}, "-u", server.address, "-i", "grpc", "-s", "999"]
    command += ["--shared-memory", "system", "--output-shared-memory-size", "64", "--measurement-interval", "60000"]
    with (folder / "load.log").open("wb") as output, guarded(
        command,
        environment=os.environ | {libraries!r},
        output=output,
        grace_s=2,
        segments=[{inputs!r}, {outputs!r}],
    ):
        while not (Path("/dev/shm") / {outputs!r}).exists():
            time.sleep(0.02)
        time.sleep(0.2)
        print("under load", flush=True)
        time.sleep(600)
"""


class Serving(NamedTuple):
    """A program that serves a model under load until it is killed."""

    source: str
    model: str
    """The prefix of the load generator's segment names."""


@pytest.fixture
def serving(
    household: Household, make_build: MakeBuild, load_generator: tuple[str, dict[str, str]], tmp_path: Path
) -> Serving:
    """The program, with its own model name: perf_analyzer's segment names are machine-wide."""
    name = f"doubling{uuid.uuid4().hex}"
    build = make_build(tmp_path / "models", name, DOUBLING)
    program, libraries = load_generator
    source = SERVING.format(
        root=str(ROOT),
        folder=str(tmp_path),
        program=program,
        libraries=libraries,
        model=str(build.case),
        inputs=rf"{name}_IN_\d+_\d+",
        outputs=f"{name}_OUT",
    )
    return Serving(source, name)


def folders(household: Household) -> set[str]:
    """Names of the servers' temporary folders, which are also the prefixes of their segments' names."""
    return {path.name for path in household.temporary.glob("*/runs/*")}


def segments_of(names: set[str]) -> list[str]:
    """The shared-memory segments whose names have one of these prefixes."""
    return [path.name for path in SHM.iterdir() if path.name.startswith(tuple(names))]


def assert_nothing_left(household: Household, serving: Serving, servers: set[str]) -> None:
    assert household.left(ENDED_S) == []
    assert segments_of(servers | {serving.model}) == []
    assert folders(household) == set()


@pytest.mark.parametrize("how", ["kill", "ctrl-c"])
def test_no_triton_survives_its_caller_under_load(household: Household, serving: Serving, how: str) -> None:
    caller = start_caller(household, serving.source, b"under load")
    running_now = {name[:15] for name in household.names()}
    assert {"tritonserver", "triton_python_b", "perf_analyzer"} <= running_now
    servers = folders(household)
    assert segments_of(servers)
    assert segments_of({serving.model})
    end(caller, how)
    assert_nothing_left(household, serving, servers)


@pytest.mark.parametrize("seed", range(2))
def test_no_triton_survives_a_kill_at_random_moment(
    household: Household, serving: Serving, seed: int
) -> None:
    caller = start_caller(household, serving.source, b"start")
    time.sleep(random.Random(seed).uniform(0.02, 2.5))
    servers = folders(household)
    end(caller, "kill")
    assert_nothing_left(household, serving, servers)


def test_server_and_load_generator_die_with_their_guards(household: Household, serving: Serving) -> None:
    """When even the guards are killed, the kernel ends their children; only a stub may remain."""
    caller = start_caller(household, serving.source, b"under load")
    guards = [program for program in household.processes() if guard.__file__ in command_line(program)]
    assert len(guards) == 2, "of the server and of the load generator"
    for process in guards:
        process.kill()
    end(caller, "kill")
    wait_until(lambda: all("stub" in program for program in household.names()), ENDED_S, household.names)
    for name in segments_of({serving.model}):
        (SHM / name).unlink()  # no guard is left to remove it
