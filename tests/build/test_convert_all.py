"""Several cases are converted at once in processes of their own, which end with the one that started them."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from fixtures.build import convert_all as module
from fixtures.build.convert_all import Conversion, UserModels, convert_all, worker_count
from fixtures.cases import matrix_of
from fixtures.given.onnx_file import GivenNetwork, model_of
from fixtures.host import machine
from fixtures.host.targets import EVERY_TARGET
from fixtures.spec import Deployment
from tests.given.networks import linear, rows
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
CPU = next(target for target in EVERY_TARGET if target.name == "cpu")


@pytest.mark.parametrize(
    ("jobs", "cores", "gib", "workers"),
    [(1, 8, 64, 1), (5, 2, 64, 2), (5, 8, 64, 5), (5, 8, 13, 3), (5, 8, 1, 1), (0, 8, 64, 1)],
)
def test_as_many_at_once_as_cases_cores_and_memory_allow(
    jobs: int, cores: int, gib: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Memory:
        available = gib * 2**30

    monkeypatch.setattr(machine, "cores", lambda: cores)
    monkeypatch.setattr(module.psutil, "virtual_memory", Memory)
    assert worker_count(jobs) == workers


def test_a_case_that_cannot_be_converted_leaves_the_others_alone(tmp_path: Path) -> None:
    network = GivenNetwork(linear(tmp_path / "one.onnx"), rows(tmp_path / "samples", 64))
    deployment: Deployment = matrix_of(model_of("one", network), CPU).deployment

    def job(case: str, **what: Any) -> Conversion:
        return Conversion(case, "cpu", 1, deployment, False, tmp_path / "repos", **what)

    told: list[int] = []
    jobs = [
        job("cpu-one-onnx-fp32"),
        job("cpu-other-onnx-fp32"),
        job("cpu-one-onnx-int8"),
    ]
    found = convert_all(jobs, UserModels(networks={"one": network}), 2, told.append)

    assert found == {"cpu-one-onnx-fp32", "cpu-one-onnx-int8"}
    assert {path.parent.name for path in (tmp_path / "repos" / "cpu").glob("*/build.json")} == found
    assert told == [1, 2, 3]


def test_where_no_worker_can_begin_nothing_is_converted(tmp_path: Path) -> None:
    missing = UserModels(files=[tmp_path / "not-there.py"])
    job = Conversion("cpu-one-onnx-fp32", "cpu", 1, Deployment(1, 1, (), 0, False, True), False, tmp_path)

    assert convert_all([job, job], missing, 2) == frozenset()


STUCK = """\
import subprocess
from fixtures.build.convert_all import UserModels, convert_all


class Stuck:
    case = "stuck"

    def __reduce__(self):
        return subprocess.call, (["sleep", "600"],)


if __name__ == "__main__":
    convert_all([Stuck(), Stuck()], UserModels(), 2)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_the_workers_and_what_they_started_end_with_their_run(how: signal.Signals, tmp_path: Path) -> None:
    script, log = tmp_path / "stuck.py", tmp_path / "log"
    script.write_text(STUCK)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("w") as output:
        run = subprocess.Popen([sys.executable, str(script)], env=environment, stderr=output)
    below = psutil.Process(run.pid)

    def compilers() -> list[psutil.Process]:
        return [one for one in below.children(recursive=True) if one.name() == "sleep"]

    wait_until(lambda: run.poll() is not None or len(compilers()) == 2, 300, log.read_text)
    started = below.children(recursive=True)
    run.send_signal(how)

    assert run.wait(timeout=60) != 0
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
