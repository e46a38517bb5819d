"""Several at once: two runs of one case, another checkpoint in mid-run."""

from tests.faults.classifier import write_network
from tests.faults.place import (
    MODEL,
    ONE_POINT,
    OWN,
    OWN_PROOF,
    OWN_SERVED,
    SLOW,
    SLOW_PROOF,
    Ended,
    Place,
)
from tests.faults.scenario import PASSED, Scenario


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


def _rebuilt_meanwhile(place: Place) -> Ended:
    """Another run converts another checkpoint into the same folder while this one evaluates."""
    place.start(*OWN_SERVED)
    log, one = place.log, place.runs[-1]
    place.says("evaluate through Triton")
    other = place.folder / "other.onnx"
    write_network(other, factor=1.01)
    options = ("--models", MODEL, "-k", OWN, "--convert-only", "--checkpoint", f"classifier={other}")
    two = place.run(*options)
    assert two.status == PASSED, two.text
    assert one.wait(240) == PASSED, log.read_text()
    assert "other.onnx" not in str(place.record(OWN).build)
    return Ended(one.returncode, log.read_text())


SCENARIOS = [
    Scenario("two runs of one case", _one_case, (PASSED,)),
    Scenario("two runs that convert one case", _one_case_not_built, (PASSED,)),
    Scenario("two runs with a TMPDIR each measure", _two_temporary_folders, (PASSED,)),
    Scenario("another run converts another checkpoint meanwhile", _rebuilt_meanwhile, (PASSED,)),
]
