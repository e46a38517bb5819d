"""A converted model computes in process what the framework's model computes, and keeps its accuracy when
served, under many requests of mixed batch sizes; for --convert-only it is converted alone."""

import pytest

from fixtures.recorder import Recorder
from tritonproof.record.quantities import AGREEMENT, RATIO, RELATIVE_ERROR
from tritonproof.reports import correctness_text
from tritonproof.run.case_run import CaseRun
from tritonproof.run.proving import prove_accuracy


@pytest.mark.step("build")
def test_build(run: CaseRun) -> None:
    """The case's build exists; the output says whether it was made now or reused."""
    assert run.build.artifact.exists()


@pytest.mark.step("conversion")
def test_conversion(run: CaseRun, recorder: Recorder) -> None:
    """The error and the share of equal decisions are within the tolerance and the cost of the precision."""
    case, conversion, arithmetic = run.case, run.conversion, run.arithmetic
    assert conversion is not None, "a model of --repository has no such step"
    recorder.record(conversion=conversion)
    texts = []
    if conversion.relative_error is not None:
        texts.append(f"relative error {RELATIVE_ERROR.text(conversion.relative_error)}")
    if conversion.error_in_costs is not None:
        error = RATIO.text(conversion.error_in_costs)
        texts.append(f"{error} times what {arithmetic.precision.upper()} itself costs")
    if conversion.agreement is not None:
        texts.append(f"{AGREEMENT.text(conversion.agreement)} of decisions agree")
    recorder.report.show(", ".join(texts))
    if failure := correctness_text.conversion_failure(conversion):
        where = f"tolerance: {arithmetic.tolerance.source}"
        if case.network_model.framework == "onnx":
            where += f"; --tolerance {case.model.name}=SHARE sets another"
        raise run.accuracy_error(failure, where=where)


@pytest.mark.step("accuracy")
def test_accuracy(run: CaseRun, recorder: Recorder) -> None:
    """Each metric of Triton's answers keeps the model's own limit and nearly the framework's score, and every
    output is near the converted model's in process."""
    ledger, sample_scores = prove_accuracy(run)
    why_no_score = run.why_no_score
    recorder.record(accuracy=ledger, why_no_score=why_no_score)
    recorder.record_sample_scores(sample_scores)
    recorder.report.show("; ".join(map(correctness_text.score_text, ledger.scores)))
    if failures := correctness_text.ledger_failures(ledger):
        raise run.accuracy_error("; ".join(failures))
    if why_no_score:
        pytest.skip(why_no_score)
