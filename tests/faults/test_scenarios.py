"""Faults and bad use of whole runs: each run ends in time, says what was wrong, and leaves nothing.

tox run -e campaign -- tests/faults               # all of them
tox run -e campaign -- tests/faults -k measuring  # some of them
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.host import guard, locks
from tests import classifier, own_machine
from tests.faults.scenarios import GONE_S, OWN, SCENARIOS, Place, ProgramResult, Scenario, leftovers
from tests.helpers import ROOT, Household
from tests.user_models.repositories import code, config, write_model
from tests.whole_runs.suite import suite

_MEMORY = Path("/dev/shm")
_TRACE = r"Traceback \(most recent call last\)|INTERNALERROR|^E   [A-Za-z.]*(Error|Exception)\b"
"""What Python and pytest print of an unhandled error."""


@pytest.fixture(scope="session")
def has_own_memory() -> bool:
    """Whether this worker's scenarios have their own shared memory and machine lock."""
    return own_machine.enter()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str, has_own_memory: bool) -> Path:
    """The folder that all workers' scenarios share: a model file, the converted case, a Triton repository."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared"
    with locks.hold_path(folder):
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
    """A place for one scenario, whose leftover processes are killed and folders removed."""
    # Hundreds of runs read the same source files: without bytecode that takes a third of a short run.
    household.environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # A run must not take the tox that runs these tests for its own.
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


def what_is_wrong(scenario: Scenario, ended: ProgramResult, place: Place) -> str:
    """The first problem; empty if there is none."""
    if ended.status not in scenario.statuses:
        return f"the exit status is {ended.status}, not {' or '.join(map(str, scenario.statuses))}"
    if re.search(_TRACE, ended.text, re.MULTILINE):
        return "there is a traceback"
    if processes := place.household.left(GONE_S):
        return f"processes are left: {processes}"
    if files := leftovers(place.household.temporary):
        return f"left in the temporary folder: {files}"
    return ""


def what_is_left(new: set[Path], has_own_memory: bool) -> str:
    """The new files in shared memory and in the checkout, except those of other processes."""
    segments = [str(path) for path in new if path.parent == _MEMORY and path.exists()]
    if not has_own_memory:
        segments = guard.remove_segments(path for path in segments if "/tritonproof-" in path)
    files = [path for path in new if path.parent == ROOT and not path.name.startswith((".", "__pycache__"))]
    return f"left: {sorted([*segments, *map(str, files)])}" if segments or files else ""
