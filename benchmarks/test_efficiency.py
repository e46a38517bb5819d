"""Compares the server at its best load point with the same artifact in process, and with the machine's peak."""

from collections.abc import Callable, Sequence

import pytest

from fixtures.run.recorder import Recorder
from fixtures.spec import Case
from reports.record.schema import Efficiency
from reports.text.speed import efficiency_text


@pytest.mark.load
@pytest.mark.stage("efficiency")
def test_efficiency(
    case: Case, measure_efficiency: Callable[[], Sequence[Efficiency]], recorder: Recorder
) -> None:
    """Measures the ratio of served to in-process throughput, in turns, and the fraction of the machine's peak that is
    reached."""
    found = measure_efficiency()
    recorder.figure(efficiency_text(found, case.precision))
