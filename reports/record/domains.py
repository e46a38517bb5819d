"""Which values the fields of a record may have: every number is finite and of its domain, every text and list of a size.

A field has its type's domain unless the schema annotates it with another. It needs the standard library alone.
"""

import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class Domain:
    """The values that a field may have, beside its type; a limit that is None is none."""

    least: float | None = None
    most: float | None = None
    longest: int | None = None
    """Characters of a text, entries of a list or an object."""
    pattern: str | None = None
    """What a text looks like, as a regular expression."""

    def text(self) -> str:
        """The values in words, as an error names them: `a number from 0 to 1`."""
        if self.pattern is not None:
            return f"a name of at most {self.longest} letters, digits, '.', '_' and '-'"
        if self.longest is not None:
            return f"at most {self.longest:,} characters or entries"
        return f"a number from {self.least:g} to {self.most:g}"


_LARGEST = 1e30
"""The largest value of any quantity, in any unit: far above all there is, and far below where products overflow."""
_MOST_WHOLE = 2**53
"""What is counted, in numbers that a double holds whole."""

LONGEST_TEXT = 20_000
"""Characters; a server's error is what may be long."""

_DEFAULTS: Mapping[Any, Domain] = {
    int: Domain(least=0, most=_MOST_WHOLE),
    float: Domain(least=-_LARGEST, most=_LARGEST),
    str: Domain(longest=LONGEST_TEXT),
    Sequence: Domain(longest=200_000),
    Mapping: Domain(longest=200),
}
KEY = Domain(longest=200)
"""The key of an object whose keys are names: of a percentile, of a library."""

Positive = Annotated[float, Domain(least=1 / _LARGEST, most=_LARGEST)]
"""A quantity that is divided by, such as a speed."""
Name = Annotated[str, Domain(longest=100, pattern=r"\A[A-Za-z0-9._-]+\Z")]
"""A word of the suite's own, such as that of a scenario."""
LongText = Annotated[str, Domain(longest=2**25)]
"""A text or a picture that a sample shows."""
NotNegative = Annotated[float, Domain(least=0, most=_LARGEST)]
Share = Annotated[float, Domain(least=0, most=1)]
"""A fraction of a whole."""
Confidence = Annotated[float, Domain(least=0.01, most=0.999999)]
"""The chance that an interval holds its value: neither none nor certainty."""
MOST_LOADS = Domain(longest=500)
"""Load points of a case, and what its soak watched: several times those of the longest sweep; of thousands a page would take
minutes."""
Axis = Annotated[int, Domain(least=-1, most=_MOST_WHOLE)]
"""The length of an axis in a shape; -1 where it may be any, as in Triton's `dims: [ -1 ]`."""
Counted = Annotated[int, Domain(least=1, most=_MOST_WHOLE)]
"""A number of what is there at least once."""


def of(kind: Any) -> tuple[Any, Domain | None]:
    """A type of the schema without its annotation, and the domain of its values; None where it has none."""
    if typing.get_origin(kind) is Annotated:
        return kind.__origin__, next(one for one in kind.__metadata__ if isinstance(one, Domain))
    origin = typing.get_origin(kind) or kind
    return kind, _DEFAULTS.get(origin)


def holds(domain: Domain, value: Any) -> bool:
    """Whether a value of the field's type is in its domain."""
    if domain.longest is not None and len(value) > domain.longest:
        return False
    if domain.pattern is not None and not re.search(domain.pattern, value):
        return False
    return (domain.least is None or value >= domain.least) and (domain.most is None or value <= domain.most)
