"""Faults and bad use, tried on whole runs: each ends in time, says what was wrong, and leaves nothing.

tox run -e faults                               # all of them, three times each
tox run -e faults -- -k "measuring and round0"  # some of them, once
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from fixtures.host.segments import is_unused
from tests.conftest import Household
from tests.faults import at_once, builds, given, servers, signals, surroundings
from tests.faults.place import GONE_S, Ended, Place, leftovers
from tests.faults.scenario import Scenario
from tests.repositories import code, config, write_model
from tests.whole_runs.suite import TRACE, suite

SCENARIOS = [
    *(signals.SCENARIOS + given.SCENARIOS + surroundings.SCENARIOS),
    *(builds.SCENARIOS + at_once.SCENARIOS + servers.SCENARIOS),
]
ROUNDS = range(3)


@pytest.fixture(scope="session")
def builds_of_all(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder with the converted model of the case, which all workers share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "builds"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            done = suite("-k", TRACE, "--convert-only", repos=folder)
            assert done.status == 0, done.text
    return folder


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Triton repository of a model, and of a slow one."""
    root = tmp_path_factory.mktemp("repository")
    write_model(root, "doubler", code("2 * values"), config())
    slow = code("2 * values").replace("    def execute", "    import time\n\n    def execute")
    slow = slow.replace("return [self.answer", "self.time.sleep(0.2)\n        return [self.answer")
    write_model(root, "slow", slow, config())
    return root


@pytest.fixture
def place(tmp_path: Path, household: Household, builds_of_all: Path, repository: Path) -> Iterator[Place]:
    """A place for one scenario; processes that it leaves are killed, and its folders removed."""
    found = Place(tmp_path / "place", household, builds_of_all, repository)
    found.folder.mkdir()
    found.results.mkdir()
    yield found
    shutil.rmtree(found.folder, ignore_errors=True)


@pytest.mark.campaign
@pytest.mark.parametrize("number", ROUNDS, ids=lambda number: f"round{number}")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_run_survives(
    scenario: Scenario, number: int, place: Place, record_property: pytest.FixtureRequest
) -> None:
    record_property("scenario", scenario.name)  # type: ignore[operator]
    if reason := scenario.needs():
        pytest.skip(reason)
    segments = set(Path("/dev/shm").iterdir())

    ended = scenario.act(place)

    if said := what_is_wrong(scenario, ended, place, segments):
        pytest.fail(said, pytrace=False)


def what_is_wrong(scenario: Scenario, ended: Ended, place: Place, segments: set[Path]) -> str:
    """The first thing that must not be, with the end of what the run printed; empty where all is as it has to be."""
    shown = f"\n{ended.text[-4000:]}"
    if ended.status not in scenario.statuses:
        return f"the exit status is {ended.status}, not {' or '.join(map(str, scenario.statuses))}{shown}"
    if not re.search(scenario.says, ended.text):
        return f"it does not say {scenario.says!r}{shown}"
    if not place.quiet and re.search(r"Traceback \(most recent call last\)|INTERNALERROR", ended.text):
        return f"there is a traceback{shown}"
    if left := place.household.left(GONE_S):
        return f"processes are left: {left}{shown}"
    if not scenario.may_leave and (names := leftovers(place.household.temporary)):
        return f"left in the temporary folder: {names}{shown}"
    if names := [path.name for path in set(Path("/dev/shm").iterdir()) - segments if is_left(path)]:
        return f"left in /dev/shm: {names}{shown}"
    return ""


def is_left(segment: Path) -> bool:
    """Whether a segment of shared memory is of a server of the suite and nobody uses it; others' come and go meanwhile."""
    return segment.name.startswith("tritonproof-") and is_unused(segment)


def test_each_scenario_has_a_line_of_its_own_in_the_table() -> None:
    names = [scenario.name for scenario in SCENARIOS]

    assert sorted(set(names)) == sorted(names)
