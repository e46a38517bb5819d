"""What is found at the load points of a case: what serving costs, the fastest configuration within a latency budget, leaks."""

from collections.abc import Mapping
from typing import Annotated, Literal

from reports.record.schema._answers import Accuracy, VerifiedAnswers
from reports.record.schema._base import (
    MOST_LOADS,
    BudgetWord,
    Count,
    Counted,
    Estimate,
    Name,
    NotNegative,
    Number,
    Positive,
    Scenario,
    Struct,
    Text,
    Verdict,
)
from reports.record.schema._cases import Deployment, Origin
from reports.record.schema._loads import Comparison, Load, Mark

_VERDICTS: Mapping[str, Verdict] = {
    "not slower": "passed",
    "slower": "failed",
    "within": "passed",
    "beyond": "failed",
    "not shown": "not shown",
}


class BesideReference(Struct, frozen=True):
    """The best load point of a case beside that of the format that all of its model are set beside."""

    reference: Text
    """The id of that format's case; this one's own where it is the one."""
    ratio: Estimate
    """The throughput over that of the reference, of turns; 1 where this case is the one."""


class Efficiency(Struct, frozen=True):
    """What serving costs: the best load point beside the same artifact in process, measured in turns; in the same turns
    comes the format that all of the model are set beside."""

    scenario: Scenario
    batch: Counted
    concurrency: Count
    served_per_s: Estimate
    in_process_per_s: Estimate
    """Inferences per second with `in_process_batch` at a time, in a process of its own, on the same data; on one GPU,
    times the number of the case's GPUs."""
    in_process_batch: Counted
    threads: Count
    """CPU threads of either side, those of the server's instances together."""
    ratio: Estimate
    """The served throughput over that in process."""
    pairs: Count
    """How many pairs of passes were measured, in process and served in turns."""
    flops_per_inference: Positive | None = None
    """Floating-point operations of an inference, a multiplication and an addition as two; None where the framework
    cannot count them."""
    peak_flops_per_s: Estimate | None = None
    """Operations per second of the fastest large matrix product or convolution in the same precision on the same
    threads, measured in the same turns; on one GPU, times the number of the case's GPUs."""
    spinning: bool = False
    """Whether idle threads of ONNX Runtime spun in process, as those of Triton's own backend do."""
    beside: BesideReference | None = None
    """None where it is not the case's best point of all, and where the reference format is not proven."""
    origin: Origin | None = None
    """Where it comes from; the recorder adds it."""
    marks: tuple[Mark, ...] = ()
    """Why the ratio is to be read with care."""

    @property
    def serving_cost_ms(self) -> float:
        """Milliseconds by which a request takes the server longer than the same inferences take in process."""
        return 1e3 * self.batch * (1 / self.served_per_s.value - 1 / self.in_process_per_s.value)


class Search(Struct, frozen=True):
    """The highest throughput or request rate within a latency budget, and the configuration that gives it."""

    budget_ms: Positive
    percentile: Name
    """Which latency the budget is for: p90, p95 or p99."""
    deployment: Deployment
    load: Load
    verdict: BudgetWord
    """within: the whole interval of the percentile keeps the budget; not shown: its value does, its interval
    reaches beyond; beyond: no configuration kept it, and this one came nearest."""
    lead: Estimate | None
    """The winner's throughput over that of the second best, at rates the goodput; None where there was no second within the budget."""
    configurations: Count
    passes: Count
    duration_s: NotNegative
    config: Text
    """The file name of the winner's config.pbtxt, beside the record."""
    accuracy: Accuracy | None = None
    """The ledger of the winner; None until it was proven."""
    origin: Origin | None = None
    """Where it comes from; the recorder adds it."""
    goodput_per_s: Estimate | None = None
    """Answers per second that came within the budget, counted from when their requests were due; None where throughput
    was searched."""
    rates: Count | None = None
    """How many request rates were measured, over all configurations; None where throughput was searched. The rate that
    was found, and how its requests arrived, are the load's."""


def verdict_of(one: Comparison | Search) -> Verdict:
    """Whether a build is not slower than the other, or a configuration keeps its budget."""
    return _VERDICTS[one.verdict]


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


class Growth(Struct, frozen=True):
    """How much more of something a server used, from request to request under load, or from one loading of the model to
    the next."""

    what: Text
    """What was watched, one of USED."""
    unit: Literal["bytes", "number"]
    per: Literal["request", "loading"]
    """request: the mean growth with each request; loading: with each time that the model was unloaded and loaded."""
    slope: Estimate
    """By how much it grew each time, in bytes or numbers, in the part of the soak that counts."""
    first: Number
    """How much was used at the beginning of the soak, in bytes or numbers."""
    last: Number
    """How much was used at its end."""
    counted: Count
    """How many requests, or loadings, the slope is of."""
    verdict: Verdict
    """passed: a leak that a soak has to find would have been found, and there is none; failed: it grows without end, more
    than an allocator does; not shown: neither."""


class Soak(Struct, frozen=True):
    """One load point under load for a long time: does the server use more and more, and is it as fast at the end?"""

    scenario: Scenario
    batch: Count
    concurrency: Count
    """Requests in flight; 0 where they are sent at a rate."""
    duration_s: Positive
    """Seconds under load, with the seconds between passes in which answers were verified and the use was read."""
    requests: Count
    """How many requests the server answered meanwhile."""
    passes: Count
    """How many passes of the load generator there were; after each the use was read, with no request in flight."""
    growth: Annotated[tuple[Growth, ...], MOST_LOADS]
    """What was watched: of requests, then of loadings."""
    loadings: Count = 0
    """How often the model was unloaded and loaded after the load."""
    not_watched: tuple[Text, ...] = ()
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
