"""The converted model, in process, computes what the framework computes."""

from collections.abc import Callable
from typing import Any

from fixtures.accuracy import compare_conversion
from fixtures.plugin.lifetimes import Recorder
from fixtures.spec import Case, Samples, Weights


def test_conversion(
    case: Case,
    weights: Weights,
    converted: Callable[[Any], dict[str, Any]],
    samples: Samples,
    recorder: Recorder,
) -> None:
    """Relative error and decisions stay within the format's tolerance for the precision."""
    tolerance = case.format.tolerances[case.precision]
    parity = compare_conversion(case.model, weights, converted, samples, tolerance)
    recorder.conversion(parity)
    recorder.figure(f"relative error {parity.relative_error:.1e}, {parity.agreement:.1%} of decisions agree")
    error, agreement = parity.relative_error, parity.agreement
    assert error <= tolerance.relative_error, f"relative error over its limit ({tolerance.source})"
    assert not weights.trained or agreement >= tolerance.agreement, f"decisions differ ({tolerance.source})"
