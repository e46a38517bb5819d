"""What a record says of speed: each load point, what serving costs, and a search within a budget."""

from collections.abc import Sequence
from typing import Annotated

from tritonproof.record.schema._answers import Ledger, VerifiedAnswers
from tritonproof.record.schema._setup import (
    CERTIFIED_CONFIDENCE,
    SPEED,
    Arrivals,
    ByName,
    Confidence,
    Count,
    Deployment,
    Estimate,
    Name,
    NotNegative,
    Number,
    Origin,
    Positive,
    PositiveCount,
    Ratio,
    Scenario,
    Share,
    Struct,
    Text,
    Verdict,
)


class LoadPoint(Struct, frozen=True, order=True):
    """One setting of the load generator: requests in flight (closed loop), or a rate (open loop). Load points
    sort in the order of tables."""

    scenario: Scenario
    batch: PositiveCount
    concurrency: Count
    """The requests in flight; 0 for requests at a rate."""
    request_rate_per_s: Positive | None = None
    arrivals: Arrivals | None = None
    """The distribution in time of requests at a rate; None in a closed loop, as is the rate."""

    @property
    def is_at_rate(self) -> bool:
        """Whether requests come at a rate, however many are in flight."""
        return self.request_rate_per_s is not None

    @property
    def level(self) -> float:
        """The requests in flight, or per second: what a sweep changes from point to point."""
        return self.concurrency if self.request_rate_per_s is None else self.request_rate_per_s

    def __str__(self) -> str:
        """The name in test ids: `b008-c001`, or at a rate `b001-r00120-poisson`."""
        if (rate := self.request_rate_per_s) is None:
            return f"b{self.batch:03d}-c{self.concurrency:03d}"
        whole, _, fraction = f"{rate:f}".rstrip("0").partition(".")
        return f"b{self.batch:03d}-r{int(whole):05d}{'.' * bool(fraction)}{fraction}-{self.arrivals}"


COMPONENTS = (
    "client_send",
    "network_server_send_recv",
    "server_queue",
    "server_compute_input",
    "server_compute_infer",
    "server_compute_output",
    "client_recv",
)
"""The latency components of a request, in the order and with the names of the published tables."""

MARKS = {
    "unfinished": "the run ended before all passes were measured",
    "few-requests": "fewer than 100 requests: p99 lies between the two largest latencies",
    "wide-interval": "the time was spent before the interval was as narrow as asked",
    "not-warm": "latencies were not shown to be stationary before the measurement",
    "damaged-passes": "passes repeated: machine or server paused, or the load generator left nothing usable",
    "client-bound": "the load generator, not the server, limits the throughput",
    "cpu-shared": "other programs took part of the CPU",
    "cpu-stolen": "the host of the virtual machine took part of the CPU",
    "niced": "the run has a lower priority than other programs",
    "overloaded": "the server kept up with less than the rate asked for",
    "schedule-slipped": "requests were sent later than scheduled",
    "cached-answers": "one sample repeated was answered faster than samples that were never sent before",
    "not-repeated": "measured again for the ratios, the throughput differed by more than 10 %",
    "faster-than-in-process": "served throughput exceeded in-process throughput, so one of the two is wrong",
    "gpu-throttled": "the GPU lowered its clocks",
    "gpu-shared": "other programs used the GPU",
}
"""The codes of PointResult.marks and their meanings."""


class Mark(Struct, frozen=True):
    """A reason to read a number with care."""

    code: Name
    """One of MARKS."""
    text: Text


class PassSummary(Struct, frozen=True):
    """One pass of the load generator; every estimate combines several. Its figures are a load point's."""

    requests: Count
    duration_s: Annotated[NotNegative, SPEED]
    throughput_per_s: Annotated[Positive, SPEED]
    latency_ms: Annotated[ByName[Positive], SPEED]


class CpuUse(Struct, frozen=True):
    """The mean number of this machine's cores that were busy while a point was measured."""

    cores: Count
    """The cores that the measurement may use."""
    load_generator: Number
    server: Number | None
    """None for a server whose processes are not below this process."""
    others: Number
    """Cores busy with anything else, including a server whose own share is unknown."""
    stolen: Number


class GpuUse(Struct, frozen=True):
    """NVML's readings under load, means except for the memory; None if this GPU does not report one."""

    utilisation: Number | None
    """The fraction of the time with a running kernel; NVML averages over a sixth of a second to a second."""
    memory_mib: Number | None
    """The peak memory of the server's processes, summed over the GPUs."""
    power_w: Number | None
    energy_j_per_1000: Number | None
    """Joules for 1,000 inferences: the mean power of all GPUs over the throughput."""
    sm_clock_mhz: Number | None


class CertifiedPercentile(Struct, frozen=True):
    """A latency percentile with its bound by MLPerf LoadGen's early stopping for independent requests."""

    value_ms: Number
    bound_ms: Number | None
    """The bound of the percentile at this confidence; None if there are too few requests."""
    requests: Count
    requests_missing: Count
    confidence: Confidence = CERTIFIED_CONFIDENCE


class CalledModel(Struct, frozen=True):
    """What a called model does in the caller's requests, by the server's statistics: means of a request."""

    model: Text
    calls: Number
    queue_ms: Number
    compute_ms: Number
    """Including its inputs and outputs."""


class SpeedComparison(Struct, frozen=True):
    """The speed of a point compared with another build, measured in turns."""

    baseline_name: Text
    """What this build is compared with: a commit, a folder, or a Triton with its version."""
    ratio: Annotated[Ratio, SPEED]
    """Speed over the baseline's: throughput, or at a request rate the inverse of the mean latency."""
    allowed_slowdown: Share
    """The slow-down that passes: 0.03 lets the ratio be 0.97."""
    verdict: Annotated[Verdict, SPEED]
    """failed: the whole interval lies below the limit, and that is shown among all points of the run; passed:
    the whole interval lies above; inconclusive: neither."""
    passes: Count
    """The passes of each build in the ratio."""
    seconds_to_settle: Annotated[Number | None, SPEED]
    """Estimated further measuring time until the interval is off the limit; None if it is."""
    p_value: Annotated[Share, SPEED]
    """The probability of a ratio this low for a build just as slow as allowed, over all looks here."""
    compared_points: PositiveCount
    """The load points that the run compared; any of them has `failed` by mistake in at most 1 of 100 runs."""
    p99_ratio: Annotated[Ratio | None, SPEED] = None
    """The p99 latency over the baseline's, of the same passes as the ratio."""
    p99_is_longer: Annotated[bool, SPEED] = False
    """Whether p99 is shown, among all points of the run, to be longer than the allowed slow-down makes it."""


class LatencyBudget(Struct, frozen=True):
    """A user's limit for a latency of a load point, and the verdict of the measurement."""

    percentile: Name
    budget_ms: Positive
    source: Text
    verdict: Verdict
    """passed: the latency's whole interval is within the budget; failed: beyond; inconclusive: neither."""


class PointResult(Struct, frozen=True):
    """One load point: throughput, latency and where the time went."""

    point: LoadPoint
    throughput_per_s: Annotated[Estimate, SPEED]
    """Inferences per second: requests times batch."""
    latency_ms: Annotated[ByName[Estimate], SPEED]
    """By name: avg, p50, p90, p95 and p99. At a request rate they count from the scheduled time."""
    components_ms: Annotated[ByName[Number], SPEED]
    """The mean time per request in each of COMPONENTS."""
    passes: tuple[PassSummary, ...]
    requests: Count
    duration_s: Annotated[NotNegative, SPEED]
    warm_up_s: NotNegative
    """Seconds under load until latencies were stationary, before the measurement."""
    samples: PositiveCount
    """The number of different samples in the requests."""
    certified: Annotated[ByName[CertifiedPercentile], SPEED]
    """By the percentile's name: p99 and p99.9."""
    slip_ms: Annotated[Number | None, SPEED] = None
    """The 99th percentile of how late a request was sent."""
    cpu: CpuUse | None = None
    gpu: Annotated[GpuUse | None, SPEED] = None
    comparison: SpeedComparison | None = None
    marks: Annotated[tuple[Mark, ...], SPEED] = ()
    answers: VerifiedAnswers | None = None
    repeated_speed: Annotated[Ratio | None, SPEED] = None
    """The speed of a repeated sample over that of new ones at the fastest point; None for long requests."""
    called_models: Annotated[tuple[CalledModel, ...], SPEED] = ()
    origin: Origin | None = None
    latency_budget: Annotated[LatencyBudget | None, SPEED] = None


def fastest_closed_loop(points: Sequence[PointResult]) -> PointResult | None:
    """The point of the highest throughput, without those at a request rate, where the rate decides it."""
    closed_loop = [result for result in points if not result.point.is_at_rate]
    return max(closed_loop, key=lambda result: result.throughput_per_s.value, default=None)


class ReferenceComparison(Struct, frozen=True):
    """The fastest load point of a case compared with the reference format of its model."""

    case: Text
    """The id of the reference's case, which may be this case."""
    ratio: Ratio
    """Throughput over the reference's, measured in turns; 1 for the reference itself."""
    digest: Text = ""
    """That of the reference's build."""


class Efficiency(Struct, frozen=True):
    """The cost of serving: the fastest load point compared with the same artifact in process and with the
    model's reference format, measured in turns. On several GPUs, figures of one GPU are multiplied."""

    point: LoadPoint
    served_per_s: Estimate
    in_process_per_s: Estimate
    """Inferences per second of `in_process_batch` at a time in its own process, on the same data: on a GPU
    from pinned host memory, copying the next batch meanwhile, or with CUDA shared memory from GPU memory."""
    in_process_batch: PositiveCount
    threads: Count
    """CPU threads of either side; the server's of all instances."""
    ratio: Ratio
    turns: Count
    flops_per_inference: Positive | None = None
    """Operations, two for a multiplication and an addition; None if the framework cannot count them."""
    peak_flops_per_s: Estimate | None = None
    """The fastest large matrix product or convolution in this precision on these threads, once in a run."""
    spinning: bool = False
    """Whether idle ONNX Runtime threads spun in process, as in Triton's own backend."""
    reference: ReferenceComparison | None = None
    """None if it is not the case's fastest point, or the reference format is not proven."""
    origin: Origin | None = None
    marks: tuple[Mark, ...] = ()

    @property
    def serving_overhead_ms(self) -> float:
        """Milliseconds that a request takes longer on the server than the same inferences in process."""
        return 1e3 * self.point.batch * (1 / self.served_per_s.value - 1 / self.in_process_per_s.value)


class Search(Struct, frozen=True):
    """The highest throughput or request rate within a latency budget, and its configuration."""

    latency_budget_ms: Positive
    percentile: Name
    deployment: Deployment
    result: PointResult
    verdict: Verdict
    """passed: the percentile's whole interval keeps the budget; inconclusive: only its value does; failed: no
    configuration keeps it, and this one is nearest."""
    lead: Annotated[Ratio | None, SPEED]
    """The winner's throughput over the runner-up's; None without one that kept the budget."""
    configurations: Count
    passes: Count
    duration_s: NotNegative
    config: Text
    accuracy: Ledger | None = None
    """The winner's ledger; None until it is proven."""
    origin: Origin | None = None
    diff: Text = ""
    """The winner's changes to a repository model's own config.pbtxt; empty if nothing is better."""


class ModelWarmup(Struct, frozen=True):
    """The first request after a loading compared with the next twenty, for a model with a model_warmup."""

    batch: Count
    first_ms: tuple[Number, ...]
    """The first request after each loading; a slow one is followed by another loading."""
    later_ms: tuple[Number, ...]
    """The slowest of the next twenty after each loading."""
    passed: bool
    """Whether after some loading the first took at most twice as long as the slowest of the others."""
    origin: Origin | None = None
