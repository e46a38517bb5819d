"""The assertions that both scenarios share, and those of the tests that need no labels."""

from collections.abc import Callable
from typing import Any

import pytest

from fixtures.errors import AccuracyError, SpeedError
from fixtures.measure.record_entry import Measurement
from fixtures.plugin.gating import FindGate
from fixtures.plugin.recording.recorder import Recorder
from fixtures.plugin.telling.benchmark_entries import Entry
from reports.record.verdicts import speed_failures
from reports.words.answers import wrong_answers
from reports.words.gates import gate_text


@pytest.fixture
def prove_speed(
    measure_point: Callable[[], Measurement], recorder: Recorder, benchmark: Any, entry: Entry
) -> Callable[[], None]:
    """Measure the test's load point; raises AccuracyError where an answer was wrong, SpeedError where it is shown to be
    slower than asked for, or its latency to be beyond its budget."""

    def prove() -> None:
        measured = measure_point()
        if failure := wrong_answers(measured.load):
            raise AccuracyError(failure)
        recorder.figure(entry(benchmark, measured))
        if failures := speed_failures(measured.load):
            raise SpeedError("; ".join(failures))

    return prove


@pytest.fixture
def prove_gate(find_gate: FindGate, recorder: Recorder) -> Callable[[str], None]:
    """`prove_gate("batches")` records what the gate finds, and raises AccuracyError if something was wrong."""

    def prove(gate: str) -> None:
        deployed, found = find_gate(gate)
        recorder.gate(deployed.serving, found)
        recorder.figure(gate_text(found))
        if found.wrong:
            raise AccuracyError(found.wrong)

    return prove
