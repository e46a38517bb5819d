"""A model whose configuration has a model_warmup is warm when it is loaded."""

import pytest

from fixtures.errors import SpeedError
from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from reports.text.speed import warm_up_text


@pytest.mark.load
@pytest.mark.stage("warm-up")
def test_warm_up(run: CaseRun, recorder: Recorder) -> None:
    """The first request after a load is not shown to be slower than later ones."""
    deployed, result = run.warm_up()
    recorder.keep(deployed.serving, warm_up=result)
    recorder.show_figure(warm_up_text(result))
    if not result.passed:
        raise SpeedError(f"its model_warmup does not warm it: {warm_up_text(result)}", where=run.case)
