"""The converted model, in process, computes what the framework computes."""

import pytest

from fixtures.errors import AccuracyError
from fixtures.plugin.recording.recorder import Recorder
from fixtures.spec import Case, Deployment
from reports.record.quantities import AGREEMENT, RATIO, RELATIVE_ERROR
from reports.record.schema import Parity
from reports.words.rightness import conversion_failure


@pytest.mark.stage("conversion")
def test_conversion(case: Case, deployment: Deployment, parity: Parity, recorder: Recorder) -> None:
    """Relative error and equal decisions stay within what the precision itself costs the model, and its tolerance."""
    recorder.conversion(parity)
    error = (
        ""
        if parity.relative_error is None
        else f"relative error {RELATIVE_ERROR.text(parity.relative_error)}, "
    )
    if parity.error_in_costs is not None:
        error += f"{RATIO.text(parity.error_in_costs)} times what {case.precision.upper()} itself costs, "
    recorder.figure(f"{error}{AGREEMENT.text(parity.agreement)} of decisions agree")
    if failure := conversion_failure(parity):
        raise AccuracyError(failure, where=f"tolerance: {case.tolerance(deployment.tf32).source}")
