"""A measured number, and what a measurement says of what was asked for."""

from dataclasses import dataclass, field
from typing import Literal

from reports.record.domains import Confidence

Verdict = Literal["passed", "failed", "not shown"]
"""What a measurement says of what was asked for: it is shown to hold, shown not to hold, or neither is shown."""


SpeedWord = Literal["slower", "not slower", "not shown"]
"""How a record writes the verdict of a comparison with another build; `verdict_of` gives the verdict."""


BudgetWord = Literal["within", "not shown", "beyond"]
"""How a record writes the verdict of a search within a latency budget; `verdict_of` gives the verdict."""


@dataclass(frozen=True)
class Estimate:
    """A measured number: its value and the interval that holds it with the given confidence."""

    value: float
    low: float
    high: float
    confidence: Confidence = 0.95
    open_above: bool = field(default=False, kw_only=True)
    """Whether the observations are too few for an upper end: `high` is the largest of them, and the truth may be above."""
