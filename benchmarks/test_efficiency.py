"""Compares the server at its best load point with the same artifact in process and the machine's peak."""

import pytest

from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from reports.text.publishable import publishable
from reports.text.speed import efficiency_text


@pytest.mark.load
@pytest.mark.stage("efficiency")
def test_efficiency(run: CaseRun, recorder: Recorder) -> None:
    """Measures the ratio of served to in-process throughput, in turns, and the fraction of the peak."""
    deployed, efficiencies = run.measure_efficiency()
    published = publishable(recorder.keep(deployed.serving, efficiency=tuple(efficiencies)))
    recorder.enter("efficiency", published.efficiency)
    recorder.show_figure(published.no_speed or efficiency_text(efficiencies, run.case.precision))
