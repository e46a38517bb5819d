"""What a record says of speed: each load point, the efficiency of serving, a search within a budget, and a
model's start-up and memory on two servers."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from tritonproof.record.correctness import AnswerComparison, Ledger
from tritonproof.record.fields import (
    SPEED,
    ByName,
    Confidence,
    Count,
    Estimate,
    Name,
    NotNegative,
    Number,
    Positive,
    PositiveCount,
    Ratio,
    Share,
    Struct,
    Text,
    Verdict,
)
from tritonproof.record.setup import Deployment, Origin, Scenario

Arrivals = Literal["constant", "poisson"]
"""The distribution in time of requests at a rate."""


class LoadPoint(Struct, frozen=True, order=True):
    """One load: requests in flight (closed loop), or a rate (open loop). They sort in the order of tables."""

    scenario: Scenario
    batch: PositiveCount
    concurrency: Count
    """The requests in flight. 0 if `request_rate_per_s` is set; ask `is_at_rate`."""
    request_rate_per_s: Positive | None = None
    arrivals: Arrivals | None = None
    """The distribution in time of requests at a rate; None without a rate."""

    @property
    def is_at_rate(self) -> bool:
        """Whether requests come at a rate (open loop), regardless of those in flight."""
        return self.request_rate_per_s is not None

    @property
    def level(self) -> float:
        """The requests in flight, or per second: what a sweep changes from point to point."""
        return self.concurrency if self.request_rate_per_s is None else self.request_rate_per_s

    def __str__(self) -> str:
        """The name in test ids: `b008-c001`, or at a rate `b001-r00120-poisson`."""
        if (rate := self.request_rate_per_s) is None:
            return f"b{self.batch:03d}-c{self.concurrency:03d}"
        whole, point, fraction = f"{rate:f}".rstrip("0").rstrip(".").partition(".")
        return f"b{self.batch:03d}-r{int(whole):05d}{point}{fraction}-{self.arrivals}"


COMPONENTS = (
    "client_send",
    "network_server_send_recv",
    "server_queue",
    "server_compute_input",
    "server_compute_infer",
    "server_compute_output",
    "client_recv",
)
"""The parts of a request's latency, in the order and by the names of the published tables."""
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
    """One pass of the load generator, with figures as in PointResult, whose estimates combine the passes."""

    requests: Count
    duration_s: Annotated[NotNegative, SPEED]
    throughput_per_s: Annotated[Positive, SPEED]
    latency_ms: Annotated[ByName[Positive], SPEED]


class CpuUse(Struct, frozen=True):
    """The mean numbers of this machine's cores that were busy while each pass's load generator ran, from its
    start to its end: without shared memory, it writes the tensors of all requests after its last window."""

    cores: Count
    """The cores that the measurement may use."""
    load_generator: Number
    server: Number | None
    """The cores that the server used; None if its processes are not below this process."""
    others: Number
    """The cores that anything else used, also a server whose own share is unknown."""
    stolen: Number


class GpuUse(Struct, frozen=True):
    """What NVML reads under load, means except for the memory; None for what this GPU does not report."""

    utilisation: Number | None
    """The fraction of the time in which a kernel ran; NVML averages over 1/6 to 1 second."""
    memory_mib: Number | None
    """The peak memory of the server's processes, summed over the GPUs."""
    power_w: Number | None
    energy_j_per_1000: Number | None
    """Joules for 1,000 inferences: the mean power of all GPUs over the throughput."""
    sm_clock_mhz: Number | None


CERTIFIED_CONFIDENCE = 0.99
"""The confidence of a certified bound: the default of MLPerf LoadGen, with a tolerance of zero."""


class CertifiedPercentile(Struct, frozen=True):
    """A latency percentile with its upper bound by MLPerf LoadGen's early stopping."""

    value_ms: Number
    bound_ms: Number | None
    """The upper bound of the percentile at this confidence; None if requests are too few."""
    requests: Count
    requests_missing: Count
    confidence: Confidence = CERTIFIED_CONFIDENCE


class CalledModel(Struct, frozen=True):
    """What one called model does for a request of the caller, in the mean, by the server's statistics."""

    model: Text
    calls: Number
    queue_ms: Number
    compute_ms: Number
    """The time to compute, including its inputs and outputs."""


class SpeedComparison(Struct, frozen=True):
    """The speed of a load point compared with that of a baseline, measured in turns."""

    baseline_name: Text
    """The name of the baseline: a commit, a folder, or a Triton with its version."""
    ratio: Annotated[Ratio, SPEED]
    """Speed over the baseline's: throughput, or at a request rate the inverse of the mean latency."""
    allowed_slowdown: Annotated[float, Meta(ge=0, lt=1)]
    """The slow-down that passes: 0.03 allows a ratio of 0.97."""
    verdict: Annotated[Verdict, SPEED]
    """failed: the whole interval lies below the limit, and this is significant among all points of the run;
    passed: the whole interval lies above; inconclusive: neither."""
    pass_count: Count
    """The number of passes of each build."""
    seconds_to_settle: Annotated[Number | None, SPEED]
    """Estimated seconds of further measuring until the limit is outside the interval; None if it is."""
    p_value: Annotated[Share, SPEED]
    """The probability of so low a ratio if the build is just as slow as allowed, corrected for all looks."""
    compared_points: PositiveCount
    """The number of points compared in the run; at most 1 of 100 runs has a false `failed` among them."""
    p99_ratio: Annotated[Ratio | None, SPEED] = None
    """The p99 latency over the baseline's, of the passes that give the ratio."""
    p99_is_longer: Annotated[bool, SPEED] = False
    """Whether p99 is longer than the allowed slow-down makes it, significantly among the run's points."""


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
    """Latencies by name: avg, p50, p90, p95 and p99. At a request rate they count from the scheduled time."""
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
    """Certified percentiles by name: p99 and p99.9."""
    slip_ms: Annotated[Number | None, SPEED] = None
    """The 99th percentile of the delays of requests after their scheduled times."""
    cpu: CpuUse | None = None
    gpu: Annotated[GpuUse | None, SPEED] = None
    comparison: SpeedComparison | None = None
    marks: Annotated[tuple[Mark, ...], SPEED] = ()
    answers_under_load: AnswerComparison | None = None
    repeated_speed: Annotated[Ratio | None, SPEED] = None
    """A repeated sample's speed over that of new samples at the fastest point; None for long requests."""
    called_models: Annotated[tuple[CalledModel, ...], SPEED] = ()
    origin: Origin | None = None
    latency_budget: Annotated[LatencyBudget | None, SPEED] = None

    @property
    def request_s(self) -> float:
        """The mean latency of a request, in seconds."""
        return self.latency_ms["avg"].value / 1e3


def fastest_closed_loop(results: Sequence[PointResult]) -> PointResult | None:
    """The point of the highest throughput, except for points at a rate, which decides their throughput."""
    closed_loop = [result for result in results if not result.point.is_at_rate]
    return max(closed_loop, key=lambda result: result.throughput_per_s.value, default=None)


class ReferenceComparison(Struct, frozen=True):
    """The fastest load point of a case compared with the reference format of its model."""

    case_id: Text
    """The reference's case, which may be this case."""
    ratio: Ratio
    """Throughput over the reference's, measured in turns; 1 for the reference itself."""
    digest: Text = ""
    """The digest of the reference's build."""


class Efficiency(Struct, frozen=True):
    """The efficiency of serving: the fastest load point compared with the same artifact in process and with
    the model's reference format, measured in turns. On several GPUs, what one GPU reaches counts for each."""

    point: LoadPoint
    served_per_s: Estimate
    in_process_per_s: Estimate
    """Inferences per second of `in_process_batch` rows at a time in this suite's process, on the same data:
    on a GPU from pinned memory, copying the next batch meanwhile, or from CUDA shared memory."""
    in_process_batch: PositiveCount
    threads: Count
    """The CPU threads of either side; on the server those of all instances together."""
    ratio: Ratio
    turn_count: Count
    flops_per_inference: Positive | None = None
    """Floating-point operations, two for a multiply-add; None if the framework cannot count them."""
    peak_flops_per_s: Estimate | None = None
    """The rate of the fastest large product or convolution in this precision and threads, once per run."""
    spinning: bool = False
    """Whether ONNX Runtime's idle threads spin in process, as they do in Triton's own backend."""
    reference: ReferenceComparison | None = None
    """The reference; None if this is not the case's fastest point, or the reference is not proven."""
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
    configuration keeps it, and this one comes nearest."""
    lead: Annotated[Ratio | None, SPEED]
    """The winner's throughput over the runner-up's; None if no other configuration kept the budget."""
    configurations: Count
    pass_count: Count
    duration_s: NotNegative
    config: Text
    accuracy: Ledger | None = None
    """The accuracy of the winner; None until it is proven."""
    origin: Origin | None = None
    diff: Text = ""
    """The winner's changes to a repository model's config.pbtxt; empty if nothing is better."""
    own_is_measured: bool = True
    """Whether a repository model's own configuration was measured, with right answers; True without one."""


class ModelWarmup(Struct, frozen=True):
    """The latencies of first and later requests after loadings of a model that has a model_warmup."""

    batch: Count
    first_ms: tuple[Number, ...]
    """The latency of the first request after each loading; if it is slow, the model is loaded again."""
    later_ms: tuple[Number, ...]
    """The largest latency of the next twenty requests after each loading."""
    origin: Origin | None = None

    @property
    def passed(self) -> bool:
        """Whether after one loading the first request took at most twice as long as the slowest later one:
        one that loads kernels takes far longer."""
        return any(first <= 2 * later for first, later in zip(self.first_ms, self.later_ms, strict=True))


PROCESS_MEMORY = ("memory of the server", "memory of its stubs")
"""The resources that a server's processes allocate from the heap, of all in RESOURCE_UNITS."""


class ServedSide(Struct, frozen=True):
    """A model of a repository on one of two servers that are compared."""

    triton: Text
    precision: Text
    """The precision that the floats in the answers show; empty for FP32, and if they do not tell."""
    noise: NotNegative | None
    """The typical change of a repeated answer, as a share of the spread; None for conversations."""
    loadings_s: tuple[NotNegative, ...]
    """Seconds from each loading of the model to its first answer; the two servers take turns."""
    used: ByName[NotNegative]
    """What the server used of each visible resource of RESOURCE_UNITS, after answering every sample."""

    @property
    def fastest_loading_s(self) -> float | None:
        """Seconds from loading the model to its first answer in the fastest of all loadings."""
        return min(self.loadings_s, default=None)

    @property
    def memory_bytes(self) -> float | None:
        used_bytes = [value for name, value in self.used.items() if name in PROCESS_MEMORY]
        return sum(used_bytes) if used_bytes else None


class BaselineComparison(Struct, frozen=True):
    """A model of a repository compared with the one that it is to replace, or with itself on another Triton.
    Answers are compared by the gate `baseline`, and speed by the load points' `comparison`."""

    baseline_name: Text
    """The other repository, or the other Triton."""
    current: ServedSide
    baseline: ServedSide
    warnings: Annotated[tuple[Text, ...], Meta(max_length=20)] = ()
    """Warnings in this server's log that are not in the baseline's."""
    origin: Origin | None = None
