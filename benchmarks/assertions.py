"""The assertions that several tests share: of a load point, and of a gate."""

from typing import Any

from fixtures.errors import SpeedError
from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from fixtures.spec import LoadPoint
from reports.record.verdicts import speed_failures
from reports.text.correctness import gate_text, wrong_answers_text
from reports.text.publishable import publishable


def prove_speed(run: CaseRun, point: LoadPoint, recorder: Recorder, benchmark: Any) -> None:
    """Measure and record a load point, and show its speed if the case is proven right. Raises AccuracyError
    if an answer is wrong, SpeedError if it is shown to be slower than allowed or to exceed its latency
    budget."""
    measured = run.measure(point, recorder.keep_loads)
    if failure := wrong_answers_text(measured.load):
        raise run.accuracy_error(failure)
    assert recorder.record is not None
    if no_speed := publishable(recorder.record).no_speed:
        recorder.show_figure(no_speed)
        benchmark.skipped = True  # else pytest-benchmark warns that it has nothing of this test
    else:
        recorder.enter_load(benchmark, measured, run.settings.certify)
    if failures := speed_failures(measured.load):
        raise SpeedError("; ".join(failures))


def prove_gate(run: CaseRun, recorder: Recorder, gate: str) -> None:
    """Record what a gate such as "batches" finds. Raises AccuracyError if something is wrong."""
    deployed, gate_result = run.run_gate(gate)
    recorder.keep(deployed.serving, gates=(gate_result,))
    recorder.show_figure(gate_text(gate_result))
    shown = run.reproduce(gate_result)
    if gate_result.wrong:
        raise run.accuracy_error(gate_result.wrong, where=shown or None)
