"""The converted model, in process, computes what the framework computes."""

from fixtures.plugin.recorder import Recorder
from fixtures.spec import Case
from reports.record import Conversion


def test_conversion(case: Case, parity: Conversion, recorder: Recorder) -> None:
    """Relative error and decisions stay within the tolerance for the precision."""
    recorder.conversion(parity)
    error, agreement = parity.relative_error, parity.agreement
    figure = "" if error is None else f"relative error {error:.1e}, "
    recorder.figure(f"{figure}{agreement:.2%} of decisions agree")
    source = case.tolerance.source
    assert error is None or error <= parity.relative_error_limit, f"relative error over its limit ({source})"
    least = parity.agreement_limit
    assert least is None or agreement >= least, f"decisions differ ({source})"
