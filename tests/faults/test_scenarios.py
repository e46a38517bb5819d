"""Faults and bad use, tried on whole runs: each ends in time, says what was wrong, and leaves nothing.

tox run -e campaign -- tests/faults               # all of them
tox run -e campaign -- tests/faults -k measuring  # some of them
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.host import locks
from fixtures.host.segments import is_unused
from tests import own_machine
from tests.faults import (
    at_once,
    classifier,
    given,
    killed,
    midway,
    servers,
    signals,
    surroundings,
)
from tests.faults.place import GONE_S, OWN, Ended, Place, leftovers
from tests.faults.scenario import Scenario
from tests.helpers import Household
from tests.user_models.repositories import code, config, write_model
from tests.whole_runs.suite import ROOT, suite

SCENARIOS = [
    *(signals.SCENARIOS + killed.SCENARIOS + given.SCENARIOS + surroundings.SCENARIOS + midway.SCENARIOS),
    *(at_once.SCENARIOS + servers.SCENARIOS),
]
_MEMORY = Path("/dev/shm")
_TRACE = r"Traceback \(most recent call last\)|INTERNALERROR|^E   [A-Za-z.]*(Error|Exception)\b"
"""What Python prints of an error that nobody has put into words, and pytest."""


@pytest.fixture(scope="session")
def has_own_memory() -> bool:
    """Whether no other process sees the shared memory of this worker's scenarios, nor waits at its lock."""
    return own_machine.enter()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str, has_own_memory: bool) -> Path:
    """What all workers' scenarios share: a model's file, the converted case, and a Triton repository."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared"
    with locks.hold_file(folder.with_suffix(".lock")):
        if not folder.exists():
            folder.mkdir()
            model = Path(shutil.copy(classifier.__file__, folder))
            classifier.write_network(model.with_suffix(".onnx"))
            options = ("--models", str(model), "-k", OWN, "--convert-only")
            done = suite(*options, repos=folder / "builds", results=folder / "results")
            assert done.status == 0, done.text
            _write_repository(folder / "repository")
    return folder


def _write_repository(root: Path) -> None:
    write_model(root, "doubler", code("2 * values"), config())
    slow = code("2 * values").replace("    def execute", "    import time\n\n    def execute")
    slow = slow.replace("return [self.answer", "self.time.sleep(0.2)\n        return [self.answer")
    write_model(root, "slow", slow, config())


@pytest.fixture
def place(tmp_path: Path, household: Household, shared: Path) -> Iterator[Place]:
    """A place for one scenario; processes that it leaves are killed, and its folders removed."""
    # Hundreds of runs read the same files of the checkout: without their bytecode that is a third of a short
    # run.
    household.environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # A tox that runs these tests did not start the runs of theirs, whose own tox is the one to be ended.
    household.environment.pop("TOX_ENV_NAME", None)
    new_place = Place(
        tmp_path / "place", household, shared / "builds", shared / "repository", shared / "classifier.py"
    )
    new_place.folder.mkdir()
    new_place.results.mkdir()
    yield new_place
    shutil.rmtree(new_place.folder, ignore_errors=True)


@pytest.mark.campaign
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_run_survives_fault(scenario: Scenario, place: Place, has_own_memory: bool) -> None:
    if reason := scenario.needs():
        pytest.skip(reason)
    before = {*_MEMORY.iterdir(), *ROOT.iterdir()}

    ended = scenario.act(place)

    after = {*_MEMORY.iterdir(), *ROOT.iterdir()}
    if problem := what_is_wrong(scenario, ended, place) or what_is_left(after - before, has_own_memory):
        pytest.fail(f"{problem}\n{ended.text[-4000:]}", pytrace=False)


def what_is_wrong(scenario: Scenario, ended: Ended, place: Place) -> str:
    """The first thing that must not be; empty where all is as it has to be."""
    if ended.status not in scenario.statuses:
        return f"the exit status is {ended.status}, not {' or '.join(map(str, scenario.statuses))}"
    if scenario.names not in ended.text:
        return f"it does not name {scenario.names!r}"
    if not place.quiet and re.search(_TRACE, ended.text, re.MULTILINE):
        return "there is a traceback"
    if processes := place.household.left(GONE_S):
        return f"processes are left: {processes}"
    if not scenario.may_leave and (files := leftovers(place.household.temporary)):
        return f"left in the temporary folder: {files}"
    return ""


def what_is_left(new: set[Path], has_own_memory: bool) -> str:
    """What is new and left in shared memory and in the checkout; others' comes and goes meanwhile."""
    segments = [path for path in new if path.parent == _MEMORY and path.exists()]
    if not has_own_memory:
        segments = [path for path in segments if path.name.startswith("tritonproof-") and is_unused(path)]
    files = [path for path in new if path.parent == ROOT and not path.name.startswith((".", "__pycache__"))]
    return f"left: {sorted(map(str, segments + files))}" if segments or files else ""
