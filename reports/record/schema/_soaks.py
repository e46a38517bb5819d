"""A soak, which is one load point under load for a long time: what the server used more and more of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from reports.record.domains import MOST_LOADS, Name, Positive
from reports.record.schema._answers import VerifiedAnswers
from reports.record.schema._cases import Origin
from reports.record.schema._estimates import Estimate, Verdict

#: What a soak watches, by Growth.what, and the unit of each.
USED: Mapping[str, Literal["bytes", "number"]] = {
    "memory of the server": "bytes",
    "memory of its stubs": "bytes",
    "shared memory": "bytes",
    "GPU memory": "bytes",
    "open files": "number",
    "threads": "number",
}


#: The growth each time, in bytes or numbers, from which a soak calls it a leak, by its unit and what it grows with: an eighth
#: of the least leak that has to be found with each request, a quarter with each loading (docs/soak.md).
LEAST_LEAK: Mapping[tuple[str, str], float] = {
    ("bytes", "request"): 128.0,
    ("number", "request"): 0.01,
    ("bytes", "loading"): 2.0**20,
    ("number", "loading"): 0.5,
}


@dataclass(frozen=True)
class Growth:
    """How much more of something a server used, from request to request under load, or from one loading of the model to
    the next."""

    what: str
    """What was watched, one of USED."""
    unit: Literal["bytes", "number"]
    per: Literal["request", "loading"]
    """request: the mean growth with each request; loading: with each time that the model was unloaded and loaded."""
    slope: Estimate
    """By how much it grew each time, in bytes or numbers, in the part of the soak that counts."""
    first: float
    """How much was used at the beginning of the soak, in bytes or numbers."""
    last: float
    """How much was used at its end."""
    counted: int
    """How many requests, or loadings, the slope is of."""
    verdict: Verdict
    """passed: a leak that a soak has to find would have been found, and there is none; failed: it grows without end, more
    than an allocator does; not shown: neither."""


@dataclass(frozen=True)
class Soak:
    """One load point under load for a long time: does the server use more and more, and is it as fast at the end?"""

    scenario: Name
    batch: int
    concurrency: int
    """Requests in flight; 0 where they are sent at a rate."""
    duration_s: Positive
    """Seconds under load, with the seconds between passes in which answers were verified and the use was read."""
    requests: int
    """How many requests the server answered meanwhile."""
    passes: int
    """How many passes of the load generator there were; after each the use was read, with no request in flight."""
    growth: Annotated[Sequence[Growth], MOST_LOADS]
    """What was watched: of requests, then of loadings."""
    loadings: int = 0
    """How often the model was unloaded and loaded after the load."""
    not_watched: Sequence[str] = ()
    """What could not be watched and why, a sentence each."""
    end_over_begin: Estimate | None = None
    """The speed in the last quarter of the passes over that in the second; None of too few passes, and where no speed may
    be shown."""
    requests_per_s: Positive | None = None
    """Requests per second of all the time under load; None where no speed may be shown."""
    request_rate_per_s: Positive | None = None
    """Requests per second, where they are sent by a schedule (open loop)."""
    arrivals: Literal["constant", "poisson"] | None = None
    answers: VerifiedAnswers | None = None
    """What was found of the answers; None where none was looked at."""
    origin: Origin | None = None
    """Where it comes from."""


def soak_verdict(soak: Soak) -> Verdict:
    """Whether a soak found a leak. Of loadings it need not show that there is none: a slow server has too few of them."""
    if any(one.verdict == "failed" for one in soak.growth):
        return "failed"
    of_requests = {one.verdict for one in soak.growth if one.per == "request"}
    return "passed" if of_requests == {"passed"} else "not shown"
