"""Made-up soaks for tests of reports, with a leak and with growth that is none."""

from typing import Any

from reports.record.schema import Estimate, Growth, Record, Soak, VerifiedAnswers
from tests import examples

CLEAN = Growth(
    "memory of the server", "bytes", "request", Estimate(2.0, -1.0, 5.0, 0.99), 3e8, 3.01e8, 150_000, "passed"
)
LEAK = Growth(
    "memory of its stubs",
    "bytes",
    "request",
    Estimate(1034.0, 1029.0, 1041.0, 0.99),
    6e7,
    3.7e8,
    150_000,
    "failed",
)


def soak(*growth: Growth, **changes: Any) -> Soak:
    fields: dict[str, Any] = {
        "duration_s": 600.0,
        "requests": 300_000,
        "passes": 119,
        "growth": growth or (CLEAN,),
        "loadings": 24,
        "end_over_begin": Estimate(0.93, 0.91, 0.95),
        "requests_per_s": 500.0,
        "answers": VerifiedAnswers(4100, 0, 4100, 60.0),
    }
    return Soak("online", 1, 16, **(fields | changes))


def record(found: Soak, **changes: Any) -> Record:
    return examples.record(soak=found, **changes)
