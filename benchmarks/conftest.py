"""What the benchmarks of both scenarios, and the gates that need no labels, assert."""

from collections.abc import Callable
from typing import Any

import pytest

from fixtures.errors import AccuracyError, SpeedError
from fixtures.measure.record_entry import Measurement
from fixtures.plugin.gating import FindGate
from fixtures.plugin.recording.recorder import Recorder
from fixtures.plugin.telling.benchmark_entries import Entry
from reports.record.verdicts import comparison_text
from reports.words.gates import gate_text
from reports.words.rightness import wrong_answers


@pytest.fixture
def prove_speed(
    measure_point: Callable[[], Measurement], recorder: Recorder, benchmark: Any, entry: Entry
) -> Callable[[], None]:
    """Measure the test's load point; raises AccuracyError where an answer was wrong, SpeedError where it is shown to be
    slower than asked for."""

    def prove() -> None:
        measured = measure_point()
        if failure := wrong_answers(measured.load):
            raise AccuracyError(failure)
        recorder.figure(entry(benchmark, measured))
        compared = measured.load.comparison
        if compared is not None and compared.verdict == "slower":
            raise SpeedError(comparison_text(compared))

    return prove


@pytest.fixture
def prove_gate(find_gate: FindGate, recorder: Recorder) -> Callable[[str], None]:
    """`prove_gate("batches")`: record what the gate finds; raises AccuracyError where something was wrong."""

    def prove(gate: str) -> None:
        deployed, found = find_gate(gate)
        recorder.gate(deployed.serving, found)
        recorder.figure(gate_text(found))
        if found.wrong:
            raise AccuracyError(found.wrong)

    return prove
