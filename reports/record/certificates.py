"""The certified bound of a percentile in words, for the outcome of a test and for tables."""

from reports.record.quantities import COUNT, GIVEN_SHARE, LATENCY
from reports.record.schema import CertifiedPercentile

BY = "LoadGen's early stopping"
"""The rule that the bound follows, in words."""


def certified_text(name: str, one: CertifiedPercentile) -> str:
    """`p99 at most 11.204 ms at 99 % confidence (LoadGen's early stopping)`, or how many requests are missing."""
    if one.bound_ms is None:
        return f"{name} not certified: {_missing(one)}"
    return (
        f"{name} at most {LATENCY.text(one.bound_ms)} at {GIVEN_SHARE.text(one.confidence)} confidence ({BY})"
    )


def certified_cell(one: CertifiedPercentile | None) -> str:
    """The bound for a column whose heading says the rest, or how many requests are missing; `-` where nothing says."""
    if one is None or one.bound_ms is not None:
        return LATENCY.cell(one.bound_ms if one else None)
    return _missing(one)


def _missing(one: CertifiedPercentile) -> str:
    return f"{COUNT.text(one.requests_missing)} requests too few"
