"""What the fields of a record may hold, and the measured number."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A part of a record: nothing in it changes, and its file holds nothing else."""


_Value = TypeVar("_Value")
_LARGEST = 1e30
"""The largest value of any quantity, in any unit: far above all there is, and far below where products overflow."""
_MOST_WHOLE = 2**53
"""What is counted, in numbers that a double holds whole."""
LONGEST_TEXT = 20_000
"""Characters; a server's error is what may be long."""

Count = Annotated[int, Meta(ge=0, le=_MOST_WHOLE)]
Counted = Annotated[int, Meta(ge=1, le=_MOST_WHOLE)]
"""A number of what is there at least once."""
Axis = Annotated[int, Meta(ge=-1, le=_MOST_WHOLE)]
"""The length of an axis in a shape; -1 where it may be any, as in Triton's `dims: [ -1 ]`."""
Number = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]
NotNegative = Annotated[float, Meta(ge=0, le=_LARGEST)]
Positive = Annotated[float, Meta(ge=1 / _LARGEST, le=_LARGEST)]
"""A quantity that is divided by, such as a speed."""
Share = Annotated[float, Meta(ge=0, le=1)]
"""A fraction of a whole."""
Confidence = Annotated[float, Meta(ge=0.01, le=0.999999)]
"""The chance that an interval holds its value: neither none nor certainty."""
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
LongText = Annotated[str, Meta(max_length=2**25)]
"""A text or a picture that a sample shows."""
Key = Annotated[str, Meta(max_length=200)]
"""The key of an object whose keys are names: of a percentile, of a library."""
ByName = Annotated[Mapping[Key, _Value], Meta(max_length=200)]
"""An object whose keys are names."""
Name = Annotated[str, Meta(max_length=100, pattern=r"\A[A-Za-z0-9._-]+\Z")]
"""A word of the suite's own, such as that of a scenario."""
MOST_LOADS = Meta(max_length=500)
"""Load points of a case, and what its soak watched: several times those of the longest sweep; of thousands a page would
take minutes."""

Verdict = Literal["passed", "failed", "not shown"]
"""What a measurement says of what was asked for: it is shown to hold, shown not to hold, or neither is shown."""
SpeedWord = Literal["slower", "not slower", "not shown"]
"""How a record writes the verdict of a comparison with another build; `verdict_of` gives the verdict."""
BudgetWord = Literal["within", "not shown", "beyond"]
"""How a record writes the verdict of a search within a latency budget; `verdict_of` gives the verdict."""


CONFIDENCE = 0.95
"""The confidence of every interval that does not say another."""


class Estimate(Struct, frozen=True):
    """A measured number: its value and the interval that holds it with the given confidence."""

    value: Number
    low: Number
    high: Number
    confidence: Confidence = CONFIDENCE
    open_above: bool = False
    """Whether the observations are too few for an upper end: `high` is the largest of them, and the truth may be above."""
