"""The converted model computes in process what the framework's model computes; or, for --convert-only, is
converted, so that a later run finds it."""

import pytest

from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from reports.record.quantities import AGREEMENT, RATIO, RELATIVE_ERROR
from reports.text.correctness import conversion_failure


@pytest.mark.stage("conversion")
def test_conversion(run: CaseRun, recorder: Recorder) -> None:
    """The error and the share of equal decisions are within the tolerance and the cost of the precision."""
    case, conversion = run.case, run.conversion
    recorder.keep(None, conversion=conversion)
    texts = []
    if conversion.relative_error is not None:
        texts.append(f"relative error {RELATIVE_ERROR.text(conversion.relative_error)}")
    if conversion.error_in_costs is not None:
        texts.append(
            f"{RATIO.text(conversion.error_in_costs)} times what {case.precision.upper()} itself costs"
        )
    if conversion.agreement is not None:
        texts.append(f"{AGREEMENT.text(conversion.agreement)} of decisions agree")
    recorder.show_figure(", ".join(texts))
    if failure := conversion_failure(conversion):
        where = f"tolerance: {case.tolerance(run.deployment.tf32).source}"
        if case.model.framework == "onnx":
            where += f"; --tolerance {case.model.name}=SHARE sets another"
        raise run.accuracy_error(failure, where=where)


@pytest.mark.stage("build")
def test_build(run: CaseRun) -> None:
    """The model is in the model repository; the output says whether it was converted now or unchanged."""
    assert run.build.artifact.exists()
