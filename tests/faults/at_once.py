"""Several uses of a build at once: two runs of a case, another checkpoint in mid-run, a changed file."""

from tests.faults.classifier import write_network
from tests.faults.place import (
    MODEL,
    OWN,
    OWN_PROOF,
    OWN_SERVED,
    SLOW_PROOF,
    Ended,
    Place,
)
from tests.faults.scenario import PASSED, Scenario


def _both(place: Place, options: tuple[str, ...]) -> Ended:
    """Two runs at once; returns how the second ended, after the first has passed."""
    first = place.start(*options)
    log = place.log
    second = place.run(*options)
    status = first.wait(240)
    assert status == PASSED, f"the other ended with {status}:\n{log.read_text()}"
    return second


def _changed_build(place: Place) -> Ended:
    """The suite never serves a changed build, but builds it anew."""
    path = place.build / "1" / "runtime.py"
    path.write_text(f"import time\n{path.read_text()}\ntime.sleep(0.05)\n")
    ended = place.run(*OWN_PROOF)
    assert "unchanged, reused" not in ended.text, "what was changed was served"
    return ended


def _one_case(place: Place) -> Ended:
    return _both(place, SLOW_PROOF)


def _one_case_not_built(place: Place) -> Ended:
    (place.folder / "repos").mkdir()
    return _both(place, OWN_PROOF)


def _rebuilt_meanwhile(place: Place) -> Ended:
    """Another run converts another checkpoint into the same folder while this one evaluates."""
    place.start(*OWN_SERVED)
    log, evaluation = place.log, place.runs[-1]
    place.says("evaluate through Triton")
    checkpoint = place.folder / "other.onnx"
    write_network(checkpoint, factor=1.01)
    options = ("--models", MODEL, "-k", OWN, "--convert-only", "--checkpoint", f"classifier={checkpoint}")
    conversion = place.run(*options)
    assert conversion.status == PASSED, conversion.text
    assert evaluation.wait(240) == PASSED, log.read_text()
    assert "other.onnx" not in str(place.record(OWN).build)
    return Ended(evaluation.returncode, log.read_text())


SCENARIOS = [
    Scenario("two runs of one case", _one_case, (PASSED,)),
    Scenario("two runs that convert one case", _one_case_not_built, (PASSED,)),
    Scenario("another run converts another checkpoint meanwhile", _rebuilt_meanwhile, (PASSED,)),
    Scenario("another's runtime.py is in the build", _changed_build, (PASSED,)),
]
