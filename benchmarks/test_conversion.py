"""The converted model, in process, computes what the framework computes."""

from fixtures.errors import AccuracyError
from fixtures.plugin.recorder import Recorder
from fixtures.spec import Case
from reports.record.schema import Parity
from reports.words.rightness import conversion_failure


def test_conversion(case: Case, parity: Parity, recorder: Recorder) -> None:
    """Relative error and decisions stay within the tolerance for the precision."""
    recorder.conversion(parity)
    error, agreement = parity.relative_error, parity.agreement
    figure = "" if error is None else f"relative error {error:.1e}, "
    recorder.figure(f"{figure}{agreement:.2%} of decisions agree")
    if failure := conversion_failure(parity):
        raise AccuracyError(failure, where=f"tolerance: {case.tolerance.source}")
