"""What a field of a record may hold: texts, numbers, and an estimate with its interval."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A part of a record. It is immutable, and an unknown field in a file is an error."""


_Value = TypeVar("_Value")
MAX_NUMBER = 1e30
"""The largest value of any quantity, in any unit: far above real ones, but products do not overflow."""
_MAX_WHOLE_NUMBER = 2**53
"""A double represents every whole number up to here."""
MAX_TEXT_CHARS = 20_000
"""The most characters of a text; the longest are servers' errors."""
Count = Annotated[int, Meta(ge=0, le=_MAX_WHOLE_NUMBER)]
PositiveCount = Annotated[int, Meta(ge=1, le=_MAX_WHOLE_NUMBER)]
Axis = Annotated[int, Meta(ge=-1, le=_MAX_WHOLE_NUMBER)]
"""The length of an axis; -1 if it is variable, as in Triton's `dims: [ -1 ]`."""
Number = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
NotNegative = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]
Positive = Annotated[float, Meta(ge=1 / MAX_NUMBER, le=MAX_NUMBER)]
"""A quantity that is a divisor, such as a speed."""
Share = Annotated[float, Meta(ge=0, le=1)]
Confidence = Annotated[float, Meta(ge=0.01, le=0.999999)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_CHARS)]
LongText = Annotated[str, Meta(max_length=2**25)]
ByName = Annotated[Mapping[Annotated[str, Meta(max_length=200)], _Value], Meta(max_length=200)]
"""An object whose keys are names, such as those of percentiles or libraries."""
Name = Annotated[str, Meta(max_length=100, pattern=r"\A[A-Za-z0-9._-]+\Z")]
"""A word of the suite, such as the name of a percentile."""
SPEED = Meta(extra={"is_speed": True})
"""Marks a field that has or reveals a speed: `publishable` empties it in a case not proven right."""
Better = Literal["higher", "lower"]
Verdict = Literal["passed", "failed", "inconclusive"]
"""Whether a measurement shows that a demand is met (passed) or missed (failed), or neither."""
CONFIDENCE = 0.95
"""The confidence of every interval that states no other."""


class Estimate(Struct, frozen=True):
    """A measured number, and the interval that contains the true one with this confidence."""

    value: Number
    low: Number
    high: Number
    confidence: Confidence = CONFIDENCE
    open_above: bool = False
    """Whether too few observations give no upper bound: `high` is then the largest observation."""

    def verdict(self, limit: float, certified_bound: float | None) -> Verdict:
        """Whether the number is at most `limit`: passed if the whole interval is, and if it is open above, a
        certified bound too; failed if the whole interval is above; inconclusive otherwise."""
        is_bounded = not self.open_above or (certified_bound is not None and certified_bound <= limit)
        if self.high <= limit and is_bounded:
            return "passed"
        return "failed" if self.low > limit else "inconclusive"


class Ratio(Estimate, frozen=True):
    """One speed, or one latency, over another. It is shown only if its interval is narrow: see `is_shown`."""


class Slope(Estimate, frozen=True):
    """A change per request or loading; it alone of all estimates may be negative."""
