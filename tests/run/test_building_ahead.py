"""The next cases are converted by another process, which is told what decides a build and ends with the run."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from fixtures.host import machine
from fixtures.run.building_ahead import cases_to_build
from tests.collecting import WITHOUT
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PAIR = ("-k", "cpu-resnet50-micro and ts and fp32")
SCRIPT, TRACE = "cpu-resnet50-micro-ts-script-fp32", "cpu-resnet50-micro-ts-trace-fp32"


@dataclass
class Looked:
    """What a run would build ahead, and the cases of its tests in their order."""

    ahead: list[str] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        session.config.option.collectonly = False  # as in a run
        self.ahead = [str(case) for case in cases_to_build(session)]
        session.config.option.collectonly = True
        cases = [item.callspec.params.get("case") for item in session.items if hasattr(item, "callspec")]
        self.cases = list(dict.fromkeys(map(str, cases)))


def look(repos: Path, *arguments: str) -> Looked:
    looked = Looked()
    places = ("--model-repos", str(repos), "--results", str(repos / "results"))
    pytest.main(["benchmarks", "--collect-only", "-q", *WITHOUT, *places, *arguments], plugins=[looked])
    return looked


@pytest.fixture(autouse=True)
def large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 2)
    monkeypatch.setattr(machine, "memory_gib", lambda: 16)


@pytest.mark.parametrize("stages", ["", "and conversion", "and offline", "and efficiency"])
def test_all_cases_but_the_first_are_built_ahead_in_the_order_of_the_tests(
    stages: str, tmp_path: Path
) -> None:
    found = look(tmp_path, "-k", f"cpu and (resnet50-micro or fastpitch-micro) {stages}")
    assert len(found.ahead) > 2
    assert found.ahead == found.cases[1:]


@pytest.mark.parametrize(
    "arguments",
    [
        ("-k", "cpu-resnet50-micro-onnx-fp32"),
        (*PAIR, "--convert-only"),
        ("--self-check",),
        ("--target", "a100", "-k", "resnet50"),
    ],
    ids=["one case", "what builds ahead itself", "self-check", "a GPU's cases"],
)
def test_a_run_without_a_next_case_of_a_cpu_builds_nothing_ahead(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    assert not look(tmp_path, *arguments).ahead


def test_a_worker_of_several_and_a_machine_of_one_core_build_nothing_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert look(tmp_path, *PAIR).ahead == [TRACE]
    assert not look(tmp_path, *PAIR, "--tx", "popen").ahead
    monkeypatch.setattr(machine, "cores", lambda: 1)
    assert not look(tmp_path, *PAIR).ahead


TESTS = """\
import os
import time
from pathlib import Path

import pytest

from fixtures.host import locks

STARTED = Path(os.environ["TRITONPROOF_STARTED"])
DEADLINE = time.monotonic() + 300  # bounds a hang


def wait_for(what):
    while not what():
        assert time.monotonic() < DEADLINE
        time.sleep(0.02)


def size_of_what_it_does():
    return STARTED.with_suffix(".done").stat().st_size


@pytest.fixture(scope="session")
def build(case):
    \"\"\"Nothing is converted here.\"\"\"


@pytest.mark.stage("conversion")
def test_first(case, build):
    with locks.hold_machine(exclusive=False):
        wait_for(STARTED.exists)
        before = size_of_what_it_does()
        wait_for(lambda: size_of_what_it_does() > before)
    before = size_of_what_it_does()
    time.sleep(0.3)
    assert size_of_what_it_does() == before, "it works where this process may be measuring"
    wait_for(lambda: "TRITONPROOF_STAYS" not in os.environ)
"""
AHEAD = """\
import sys

from fixtures.host import machine
from fixtures.run import building_ahead

PROGRAM = '''
import os, pathlib, subprocess, sys, time
below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
started = pathlib.Path(os.environ["TRITONPROOF_STARTED"])
started.with_suffix(".new").write_text(f"{os.getpid()} {below.pid}")
with started.with_suffix(".done").open("w") as done:
    started.with_suffix(".new").rename(started)
    while True:
        print(file=done, flush=True)
        time.sleep(0.01)
'''
machine.cores, machine.memory_gib = lambda: 2, lambda: 16
building_ahead.command_for = lambda *_: [sys.executable, "-c", PROGRAM]
"""


@pytest.mark.parametrize(
    "how", [None, signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name if how else "end"
)
def test_nothing_of_it_outlives_the_run(how: signal.Signals | None, tmp_path: Path) -> None:
    (tmp_path / "test_of_builds.py").write_text(TESTS)
    (tmp_path / "never_ready.py").write_text(AHEAD)
    started, log = tmp_path / "started", tmp_path / "log"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TRITONPROOF_STARTED": str(started)}
    environment |= {} if how is None else {"TRITONPROOF_STAYS": "1"}
    with log.open("w") as output:
        run = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", str(tmp_path / "test_of_builds.py"), *WITHOUT, *PAIR),
                *("-p", "conftest", "-p", "never_ready", "--model-repos", str(tmp_path / "repos")),
            ],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    wait_until(lambda: started.exists() or run.poll() is not None, 300, log.read_text)
    assert started.exists(), log.read_text()
    ahead = [psutil.Process(int(pid)) for pid in started.read_text().split() if psutil.pid_exists(int(pid))]
    if how is not None:
        assert len(ahead) == 2
        run.send_signal(how)

    status = run.wait(timeout=300)

    _, alive = psutil.wait_procs(ahead, timeout=60)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
    assert (status == 0) is (how is None), log.read_text()
