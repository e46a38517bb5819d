"""The assertions that both scenarios share, and those of the tests that need no labels."""

from collections.abc import Callable
from typing import Any

import pytest

from fixtures.errors import AccuracyError, SpeedError
from fixtures.measure.measurement import Measurement
from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from fixtures.spec import LoadPoint
from reports.record.verdicts import speed_failures
from reports.text.correctness import gate_text, wrong_answers

_KERNELS_DIFFER = ("in-flight", "batches")
"""The gates in which the server computes samples in batches of other sizes than alone."""
_OF_HALVES = 0.01
"""How far answers of half precision may be apart there, as a share of the spread: ten ulps of FP16."""


@pytest.fixture
def prove_speed(
    run: CaseRun,
    point: LoadPoint,
    recorder: Recorder,
    benchmark: Any,
    entry: Callable[[Any, Measurement], str],
) -> Callable[[], None]:
    """Measure the test's load point; raises AccuracyError if an answer is wrong, SpeedError if it is shown to
    be slower than allowed or to exceed its latency budget."""

    def prove() -> None:
        measured = run.measure(point, recorder.loads)
        if failure := wrong_answers(measured.load):
            raise run.wrong(failure)
        recorder.figure(entry(benchmark, measured))
        if failures := speed_failures(measured.load):
            raise SpeedError("; ".join(failures))

    return prove


@pytest.fixture
def prove_gate(run: CaseRun, recorder: Recorder) -> Callable[[str], None]:
    """`prove_gate("batches")` records what the gate finds, and raises AccuracyError if something is wrong."""

    def prove(gate: str) -> None:
        deployed, gate_result = run.same_answers(gate)
        recorder.keep(deployed.serving, gates=(gate_result,))
        recorder.figure(gate_text(gate_result))
        shown = run.reproduce(gate_result)
        if not gate_result.wrong:
            return
        apart = None if gate_result.same is None else gate_result.same.relative_difference
        if run.as_found and gate in _KERNELS_DIFFER and apart is not None and apart <= _OF_HALVES:
            fix = (
                "its rows depend on the rows beside them, unless it computes in less than FP32 inside and "
                f"rounds them to FP32 at its end: if so, say --tolerance {run.case.model.name}={_OF_HALVES:g}"
            )
            raise AccuracyError(gate_result.wrong, where=shown or None, fix=fix)
        raise run.wrong(gate_result.wrong, where=shown or None)

    return prove
