"""What is known of the best load points of a case: what serving costs there, and which configuration is the fastest within a
latency budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.record.domains import Counted, Name, NotNegative, Positive
from reports.record.schema._answers import Accuracy
from reports.record.schema._beside import Comparison
from reports.record.schema._cases import Deployment, Origin
from reports.record.schema._estimates import BudgetWord, Estimate, Verdict
from reports.record.schema._loads import Load, Mark

_VERDICTS: Mapping[str, Verdict] = {
    "not slower": "passed",
    "slower": "failed",
    "within": "passed",
    "beyond": "failed",
    "not shown": "not shown",
}


@dataclass(frozen=True)
class BesideReference:
    """The best load point of a case beside that of the format that all of its model are set beside."""

    reference: str
    """The id of that format's case; this one's own where it is the one."""
    ratio: Estimate
    """The throughput over that of the reference, of turns; 1 where this case is the one."""


@dataclass(frozen=True)
class Efficiency:
    """What serving costs: the best load point beside the same artifact in process, measured in turns; in the same turns
    comes the format that all of the model are set beside."""

    scenario: Name
    batch: Counted
    concurrency: int
    served_per_s: Estimate
    in_process_per_s: Estimate
    """Inferences per second with `in_process_batch` at a time, in a process of its own, on the same data; on one GPU,
    times the number of the case's GPUs."""
    in_process_batch: Counted
    threads: int
    """CPU threads of either side, those of the server's instances together."""
    ratio: Estimate
    """The served throughput over that in process."""
    pairs: int
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
    marks: Sequence[Mark] = ()
    """Why the ratio is to be read with care."""


@dataclass(frozen=True)
class Search:
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
    configurations: int
    passes: int
    duration_s: NotNegative
    config: str
    """The file name of the winner's config.pbtxt, beside the record."""
    accuracy: Accuracy | None = None
    """The ledger of the winner; None until it was proven."""
    origin: Origin | None = None
    """Where it comes from; the recorder adds it."""
    goodput_per_s: Estimate | None = None
    """Answers per second that came within the budget, counted from when their requests were due; None where throughput
    was searched."""
    rates: int | None = None
    """How many request rates were measured, over all configurations; None where throughput was searched. The rate that
    was found, and how its requests arrived, are the load's."""


def verdict_of(one: Comparison | Search) -> Verdict:
    """Whether a build is not slower than the other, or a configuration keeps its budget."""
    return _VERDICTS[one.verdict]
