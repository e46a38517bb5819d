"""Several at once: two runs of one case, readers beside a writer, and another checkpoint in mid-run."""

import sys
import time

from tests.faults.place import ONE_POINT, OWN_PROOF, OWN_SERVED, SLOW, SLOW_PROOF, Ended, Place
from tests.faults.scenario import PASSED, Scenario
from tests.whole_runs.suite import ROOT, TRACE


def _both(place: Place, first: "tuple[str, ...]", second: "tuple[str, ...]", **how: object) -> Ended:
    """Two runs beside each other; returns how the second ended, after the first has passed."""
    one = place.start(*first)
    log = place.log
    two = place.run(*second, **how)  # type: ignore[arg-type]
    status = one.wait(240)
    assert status == PASSED, f"the other ended with {status}:\n{log.read_text()}"
    return two


def _one_case(place: Place) -> Ended:
    return _both(place, SLOW_PROOF, SLOW_PROOF)


def _one_case_not_built(place: Place) -> Ended:
    (place.folder / "repos").mkdir()
    return _both(place, OWN_PROOF, OWN_PROOF)


def _two_temporary_folders(place: Place) -> Ended:
    other = place.household.temporary.with_name("another")
    other.mkdir()
    options = (*ONE_POINT, "--point-budget-s", "4")
    ended = _both(
        place, options, options, environment={"TMPDIR": str(other)}, results=place.folder / "others"
    )
    assert "answers" not in " ".join(mark.code for load in place.record(SLOW).loads for mark in load.marks)
    return ended


def _read_meanwhile(place: Place) -> Ended:
    run = place.start(*SLOW_PROOF)
    log = place.log
    while run.poll() is None:
        if (place.results / "cpu" / f"{SLOW}.json").is_file():
            for name in ("tables", "csv"):
                read = place.reports(name, "--results", str(place.results))
                assert read.status == PASSED, read.text
        time.sleep(0.5)
    return Ended(run.returncode, log.read_text())


def _rebuilt_meanwhile(place: Place) -> Ended:
    """Another run converts another checkpoint into the same folder while this one evaluates."""
    place.start(*OWN_SERVED)
    log, one = place.log, place.runs[-1]
    place.says("evaluate through Triton")
    other = place.folder / "other.safetensors"
    place.file(
        "change.py",
        "import sys\nfrom fixtures.models import resnet50\nfrom safetensors.torch import load_file, save_file\n"
        "state = {k: v.float() * (1.01 if k.endswith('weight') else 1) for k, v in load_file(resnet50.MICRO_WEIGHTS).items()}\n"
        f"save_file(state, {str(other)!r})\n",
    )
    made = place.run(
        words=[sys.executable, str(place.folder / "change.py")], environment={"PYTHONPATH": str(ROOT)}
    )
    assert made.status == 0, made.text
    two = place.run("-k", TRACE, "--convert-only", "--checkpoint", f"resnet50-micro={other}")
    assert two.status == PASSED, two.text
    assert one.wait(240) == PASSED, log.read_text()
    assert "other.safetensors" not in str(place.record(TRACE).build)
    return Ended(one.returncode, log.read_text())


SCENARIOS = [
    Scenario("two runs of one case", _one_case, (PASSED,)),
    Scenario("two runs that convert one case", _one_case_not_built, (PASSED,)),
    Scenario("two runs with a TMPDIR each measure", _two_temporary_folders, (PASSED,)),
    Scenario("reports read while a run writes", _read_meanwhile, (PASSED,)),
    Scenario("another run converts another checkpoint meanwhile", _rebuilt_meanwhile, (PASSED,)),
]
