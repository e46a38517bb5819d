"""The record of one case, which `fixtures` writes and `reports` shows; `files` reads and checks its file."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, field

SCHEMA: Final = 1

# --- what fields may hold -----------------------------------------------------------------------------------


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A part of a record. It is immutable, and an unknown field in a file is an error."""


_Value = TypeVar("_Value")
_MAX_NUMBER = 1e30
"""The largest value of any quantity, in any unit: far above any real one, and products do not overflow."""
_MAX_WHOLE_NUMBER = 2**53
"""A double represents every whole number up to here."""
MAX_TEXT_CHARS = 20_000
"""Characters; the longest texts are servers' errors."""

Count = Annotated[int, Meta(ge=0, le=_MAX_WHOLE_NUMBER)]
Counted = Annotated[int, Meta(ge=1, le=_MAX_WHOLE_NUMBER)]
Axis = Annotated[int, Meta(ge=-1, le=_MAX_WHOLE_NUMBER)]
"""The length of an axis; -1 if it is variable, as in Triton's `dims: [ -1 ]`."""
Number = Annotated[float, Meta(ge=-_MAX_NUMBER, le=_MAX_NUMBER)]
NotNegative = Annotated[float, Meta(ge=0, le=_MAX_NUMBER)]
Positive = Annotated[float, Meta(ge=1 / _MAX_NUMBER, le=_MAX_NUMBER)]
"""A quantity that is a divisor, such as a speed."""
Share = Annotated[float, Meta(ge=0, le=1)]
Confidence = Annotated[float, Meta(ge=0.01, le=0.999999)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_CHARS)]
LongText = Annotated[str, Meta(max_length=2**25)]
ByName = Annotated[Mapping[Annotated[str, Meta(max_length=200)], _Value], Meta(max_length=200)]
"""An object whose keys are names, such as those of percentiles or libraries."""
FilePart = Annotated[str, Meta(max_length=250, pattern=r"\A(?!\.\.?\Z)[A-Za-z0-9._-]+\Z")]
"""A part of a file's name; it leads to no other folder."""
Scenario = Literal["offline", "online"]
"""offline: whole batches, no dynamic batching; online: dynamic batching."""
Arrivals = Literal["constant", "poisson"]
"""How requests at a rate are distributed in time."""
Name = Annotated[str, Meta(max_length=100, pattern=r"\A[A-Za-z0-9._-]+\Z")]
"""A word of the suite, such as the name of a percentile."""
SPEED = Meta(extra={"is_speed": True})
"""Marks a field with a speed, or what gives one: `publishable` empties it in a case not proven right."""
_MAX_ENTRIES = Meta(max_length=500)
"""Several times the longest sweep; a page of thousands of load points would take minutes."""

Better = Literal["higher", "lower"]
Verdict = Literal["passed", "failed", "inconclusive"]
"""Whether a measurement shows that a demand is met (passed) or missed (failed), or neither."""

CONFIDENCE = 0.95
"""The confidence of every interval that states no other."""
CERTAINTY = 0.99
"""The confidence of a certified bound: the default of MLPerf LoadGen, with a tolerance of zero."""


class Estimate(Struct, frozen=True):
    """A measured number, and the interval that contains the true one with this confidence."""

    value: Number
    low: Number
    high: Number
    confidence: Confidence = CONFIDENCE
    open_above: bool = False
    """Whether observations are too few for an upper end: `high` is the largest; the truth may be above."""


class Ratio(Estimate, frozen=True):
    """One speed, or one latency, over another. It is shown only if its interval is narrow: see `is_shown`."""


class Slope(Estimate, frozen=True):
    """A change each time, which may be negative, as no other estimate."""


# --- what the figures depend on -----------------------------------------------------------------------------


class CaseKey(Struct, frozen=True):
    """What was measured: the parts of its name."""

    target: FilePart
    model: FilePart
    format: FilePart
    accelerator: FilePart | None
    precision: Annotated[str, Meta(max_length=100, pattern=r"\A[A-Za-z0-9._-]*\Z")]
    """Empty for a model that is served as it is: its own configuration decides."""
    gpus: Counted = 1
    """The number of GPUs, each with as many instances as the deployment says; 1 on a CPU."""


def case_id(case: CaseKey) -> str:
    """The case's name everywhere: test id, folder, record file and table row."""
    several = f"{case.gpus}gpus" if case.gpus > 1 else None
    parts = (case.target, case.model, case.format, case.accelerator, case.precision, several)
    return "-".join(part for part in parts if part)


REMOTE = "remote"
"""The target of a case on somebody else's server, whose hardware nobody has named."""


class Machine(Struct, frozen=True):
    """Everything about the machine that a number depends on; two different stamps never share a record."""

    cpu: Text
    cores: Count
    memory_gib: Count
    gpu: Text | None
    gpu_driver: Text | None
    system: Text
    versions: ByName[Text]
    gpu_uuids: tuple[Text, ...] = ()
    is_client: bool = False
    """Whether it was only the client: the server is somebody else's, and its hardware is unknown."""


class Origin(Struct, frozen=True):
    """The run, the machine and the code that a measurement comes from. The recorder adds it."""

    run: Text
    """The id of the run; one for all machines of a fleet."""
    host: Text
    """The machine's network name; empty in an anonymous record."""
    gpu_uuids: tuple[Text, ...]
    commit: Text | None
    """The commit of the suite's checkout, 40 hexadecimal digits; None outside a repository."""
    clean: bool | None
    """Whether the checkout had no changes on top of the commit."""
    started: Text
    """When the run began, in UTC, ISO 8601."""


class Serving(Struct, frozen=True):
    """Which server answered, and how the model was served."""

    kind: Text
    """embedded, local, docker or remote."""
    triton: Text
    """The version of Triton, as the server reports it."""
    backend: Text
    """onnxruntime, pytorch, tensorrt and so on; python for the runtimes of the suite."""
    shared_memory: Text
    """How tensors reach the server under load: system, cuda or none."""
    image: Text | None = None
    image_digest: Text | None = None
    """The registry's digest of the image, sha256:...; None for an image that was never in a registry."""
    versions: ByName[Text] = field(default_factory=dict)
    """The versions, where known, of the native backends' libraries, by their distributions' names on PyPI."""


class Deployment(Struct, frozen=True):
    """The settings of the model on the server."""

    max_batch_size: Count
    instances: Count
    preferred_batch_sizes: tuple[Count, ...]
    max_queue_delay_us: Count
    cuda_graphs: bool
    warmup: bool
    tf32: bool | None = None
    """Whether FP32 products may use TF32, whose operands have 11 bits instead of 24. None where that means
    nothing: on a CPU, on a GPU older than compute capability 8.0, in other precisions."""
    prefer_nhwc: bool = False
    """Whether ONNX Runtime puts the channels last in convolutions on a GPU."""


class Build(Struct, frozen=True):
    """The converted artifact: its sources, identified by `digest`, and what the conversion cost."""

    digest: Text
    weights: Text
    """A checkpoint's name and SHA-256, `trained by recipe`, or `random, seed N`."""
    build_time_s: NotNegative
    size_mib: NotNegative
    format: Text
    """The format as a reader knows it: `TorchScript Trace`."""
    library: Text
    """The library that computes, as a reader knows it: `PyTorch`."""
    inputs: ByName[tuple[Axis, ...]]
    """The model's inputs and their shapes without the batch dimension."""
    as_is: bool = False
    """Whether it is served as it is: nothing was converted, and answers are compared with its own alone."""
    requests_note: Text = msgspec.field(default="", name="requests")
    """The content of the requests, if that is not the model's data set."""


class Start(Struct, frozen=True):
    """How long it takes to start the server, to load the model, and to answer the first request."""

    scenario: Scenario
    server_s: Number | None
    """Until the server was ready, without a model; None for a server that ran already."""
    load_s: Number
    """Loading the model, with the server's own warm-up requests."""
    first_request_ms: Number
    origin: Origin | None = None


class ServedSide(Struct, frozen=True):
    """A model of a repository on one of two servers that are compared."""

    triton: Text
    precision: Text
    """The precision of the floats in the answers; empty for FP32, and where the answers do not tell."""
    noise: NotNegative | None
    """The typical change of a repeated request's answer, as a share of the spread; None for conversations."""
    loadings_s: tuple[NotNegative, ...]
    """Seconds of each loading of the model with its first answer, in turns with the other's."""
    used: ByName[NotNegative]
    """What the server used of each visible resource of RESOURCE_UNITS, after answering each sample alone."""

    @property
    def ready_s(self) -> float | None:
        """Seconds from loading the model to its first answer, the fastest of all loadings."""
        return min(self.loadings_s, default=None)

    @property
    def memory_bytes(self) -> float | None:
        used_bytes = [value for name, value in self.used.items() if name.startswith("memory of")]
        return sum(used_bytes) if used_bytes else None


class BaselineComparison(Struct, frozen=True):
    """A model of a repository compared with the one that it is to replace, or with itself on another Triton:
    the differences other than answers (the gate `baseline`) and speed (the load points' `comparison`)."""

    baseline_name: Text
    """The other repository, or the other Triton."""
    current: ServedSide
    baseline: ServedSide
    warnings: Annotated[tuple[Text, ...], Meta(max_length=20)] = ()
    """Warnings in this server's log that are not in the baseline's."""
    origin: Origin | None = None


class StepFailure(Struct, frozen=True):
    """A correctness test that failed before it had a result, for example on an output that is no number."""

    test: Name
    """The test's function, such as test_accuracy."""
    step: Name
    """A step that proves, such as accuracy: see `fixtures/steps.py`."""
    message: Text
    origin: Origin | None = None


# --- whether the answers are right --------------------------------------------------------------------------

GATES = {
    "repeated": "a request that is sent again, after others, gets the same answer",
    "in-flight": "a request gets the same answer alone and with up to 64 in flight",
    "batches": "a sample gets the same answer alone and in batches, at any place and beside any others",
    "transports": "a request gets the same answer over gRPC and HTTP, with and without shared memory",
    "declared": "answers have the outputs, types and shapes that are declared, and finite numbers",
    "largest-batch": "batches of the declared sizes are answered, and one more row is refused",
    "recorded": "answers are the recorded ones",
    "reloaded": "a request gets the same answer after a reload",
    "baseline": "answers are those of the other repository, or of the other Triton",
}
"""The gates that need no ground truth, by GateResult.gate, and their demands."""


class OutputDifference(Struct, frozen=True):
    """How far an output is from the previous stage's, on all samples: the converted model's from the
    framework's, the served model's from that of the same file in process. If the integers of a row differ,
    unless they are classes of scores beside them, its floating-point outputs are not compared: a duration
    rounded up moves all that follows it."""

    output: Text
    kind: Literal["error", "differing"]
    """The meaning of `largest` and `mean`. error: the largest absolute difference of a floating-point number
    beyond rounding, as a share of the spread of its column over all samples, and the mean difference as a
    share of the mean magnitude; differing: the share of unequal integers in the worst row and overall. A
    wrong row counts as the worst."""
    largest: Number
    largest_limit: Number
    mean: Number
    mean_limit: Number
    sample: Text
    """The id of the row with the largest difference; empty if nothing differs."""
    expected: Number
    """The previous stage's value at the place of the largest difference; `given` is this stage's."""
    given: Number
    source: Text
    compared: Number = 1.0
    """The share of rows that were compared: for a floating-point output those whose integers agree."""
    compared_limit: Number = 0.0


def within_limits(difference: OutputDifference) -> bool:
    """Whether the mean and the largest difference, and the share of compared rows, keep their limits."""
    return (
        difference.largest <= difference.largest_limit
        and difference.mean <= difference.mean_limit
        and difference.compared >= difference.compared_limit
    )


class Conversion(Struct, frozen=True):
    """The converted model in process against the framework, on the same samples."""

    samples: Count
    relative_error: Number | None
    """Of the floating-point output nearest to its limit: the largest absolute difference beyond rounding, as
    a share of the spread of its column over all samples. None without such an output."""
    relative_error_limit: Number
    agreement: Number | None
    """The mean fraction of equal decisions per sample; None for a model that decides nothing."""
    agreement_limit: Number | None
    """The least that passes; None without decisions, and for random weights, whose decisions are ties."""
    passed: bool
    origin: Origin | None = None
    precision_cost: Number | None = None
    """The cost of the precision to the output that suffers most: the mean absolute error of the framework's
    network with values rounded to the precision, or for FP32 against the same network in FP64, over the mean
    absolute value. None without floating-point outputs or without a known framework network."""
    error_in_costs: Number | None = None
    """The converted model's mean error of that output, in units of this cost; about 1 if correct."""
    error_in_costs_limit: Number | None = None
    outputs: tuple[OutputDifference, ...] = ()
    same_file: bool = False
    """Whether nothing was converted: it is the user's ONNX file, and optimisation makes the differences."""


class Disagreement(Struct, frozen=True):
    """Samples for which two neighbouring stages decide differently."""

    between: tuple[Text, Text]
    """The two stages: framework and converted, or converted and served."""
    count: Count
    """Samples with at least one decision that differs."""
    lost: Count
    """How many of them score worse in the second stage, by the ledger's first metric."""
    gained: Count
    samples: tuple[Text, ...]
    """Their ids, at most the first hundred."""
    agreement: Number
    agreement_limit: Number | None


def agrees(disagreement: Disagreement) -> bool:
    return disagreement.agreement_limit is None or disagreement.agreement >= disagreement.agreement_limit


class Limit(Struct, frozen=True):
    """The worst score that passes, and where the figure comes from."""

    value: Number
    source: Text


class Score(Struct, frozen=True):
    """One metric after each stage."""

    metric: Text
    better: Better
    """higher: a fraction from 0 to 1, shown in percent; lower: an error, shown as a number."""
    framework: Number | None
    """None, like `converted`, for a model that is served as it is."""
    converted: Number | None
    served: Number
    limits: tuple[Limit, ...]
    passed: bool


def meets(better: str, score: float, limit: float) -> bool:
    """Whether a score is no worse than a limit."""
    return score >= limit if better == "higher" else score <= limit


class SameAnswers(Struct, frozen=True):
    """Whether a sample gets the same answer alone, in any batch, and with many requests in flight."""

    samples: Count
    answers: Count
    """The compared answers, to all samples in all ways."""
    relative_difference: Number | None
    """The largest difference beyond rounding from the sample's first answer, as a share of the spread of its
    column over all samples; None without floating-point outputs, or if an answer is not a number."""
    agreement: Number
    """The least share of elements of an integer or text output that equal the first answer to the sample."""
    passed: bool
    sample: Text = ""
    """The sample whose answers differ most."""
    limit: Number | None = None
    """The largest `relative_difference` that passes; None without floating-point outputs."""
    left_out: Count = 0
    """Answers whose floating-point outputs were not compared, as some of their integers differ."""
    tells_apart: bool = True
    """Whether different samples get different answers; otherwise swapped answers cannot be seen."""


class Accuracy(Struct, frozen=True):
    """The ledger: the task's metrics after each stage, on the same samples."""

    scores: tuple[Score, ...]
    """Of every metric; tables show the first."""
    samples: Count
    disagreements: tuple[Disagreement, ...]
    requests: Count
    """Of mixed batch sizes and with many in flight."""
    passed: bool
    same_answers: SameAnswers | None = None
    """None if no sample was sent in several ways."""
    origin: Origin | None = None
    outputs: tuple[OutputDifference, ...] = ()
    """The differences from the converted model in process; empty for a model that is served as it is."""


class GateResult(Struct, frozen=True):
    """The result of a gate that needs no ground truth."""

    gate: Name
    """One of GATES."""
    requests: Count
    tried: Text
    """The ways, batch sizes and faults that were tried, in words."""
    fault: Text = field(default="", name="wrong")
    """What is wrong, as a sentence about the first fault; empty if the gate passed."""
    same: SameAnswers | None = None
    """How far answers to one sample differ; None for a gate that compares none."""
    origin: Origin | None = None


class WrongAnswer(Struct, frozen=True):
    """An answer that differs from the one that it is held to: see `VerifiedAnswers.held_to`."""

    sample: Text
    output: Text
    """The output and the element that differs most: `OUTPUT__0[3]`."""
    expected: Text
    """That element of the expected answer, a text as it may not be finite; `given` is the server's."""
    given: Text


HeldTo = Literal["in process", "alone"]
"""in process: compared with the converted model's answers; alone: with the server's to single requests."""


class VerifiedAnswers(Struct, frozen=True):
    """The check of a load point's answers: between its passes the same load is sent, and all are compared."""

    verified: Count
    """The compared answers; each row of a batch is one."""
    wrong: Count
    requests: Count
    duration_s: Annotated[Number, SPEED]
    """Seconds between the passes, which count in no throughput."""
    first_wrong: WrongAnswer | None = None
    held_to: HeldTo = "in process"
    left_out: Count = 0


class WarmUp(Struct, frozen=True):
    """The first request after a loading compared with the next twenty, for a model with a model_warmup."""

    batch: Count
    first_ms: tuple[Number, ...]
    """The first request after each loading; a slow one is followed by another loading."""
    later_ms: tuple[Number, ...]
    """The slowest of the next twenty after each loading."""
    passed: bool
    """Whether after some load the first took at most twice as long as the slowest of the others."""
    origin: Origin | None = None


class Conversation(Struct, frozen=True):
    """Two rounds of the same messages to a model that does not answer each request with one answer."""

    kind: Literal["decoupled", "sequence"]
    """decoupled: any number of answers to a request; sequence: requests that belong together."""
    requests: Count
    """Of a round."""
    answers: Count
    """Of the first round."""
    difference: Text
    passed: bool
    alone: bool = False
    """Whether no other sequence's messages came between, because the model takes one at a time."""
    origin: Origin | None = None


# --- load points --------------------------------------------------------------------------------------------


class LoadPoint(NamedTuple):
    """One setting of the load generator: requests in flight (closed loop), or a rate (open loop). Load points
    sort in the order of tables."""

    scenario: Scenario
    batch: int
    concurrency: int
    """The requests in flight; 0 for requests at a rate."""
    request_rate_per_s: float | None = None
    arrivals: Arrivals | None = None
    """The distribution in time of requests at a rate; None in a closed loop, as is the rate."""

    def __str__(self) -> str:
        """The name in test ids: `b008-c001`, or at a rate `b001-r00120-poisson`."""
        if (rate := self.request_rate_per_s) is None:
            return f"b{self.batch:03d}-c{self.concurrency:03d}"
        digits = "05.0f" if rate == int(rate) else "07.1f"
        return f"b{self.batch:03d}-r{rate:{digits}}-{self.arrivals}"


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
    "few-requests": "fewer than 100 requests: p99 is the largest latency",
    "wide-interval": "the budget was spent before the interval was as narrow as asked",
    "not-warm": "latencies were not shown to be stationary before the measurement",
    "damaged-passes": "passes repeated because the load generator left nothing usable",
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


class Pass(Struct, frozen=True):
    """One run of the load generator; every estimate combines several. Its figures are a load point's."""

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
    """Mean power of the whole GPU over throughput."""
    sm_clock_mhz: Number | None


class CertifiedPercentile(Struct, frozen=True):
    """A latency percentile with its bound by MLPerf LoadGen's early stopping for independent requests."""

    value_ms: Number
    bound_ms: Number | None
    """The bound of the percentile at this confidence; None if there are too few requests."""
    requests: Count
    requests_missing: Count
    confidence: Confidence = CERTAINTY


class ComposingModel(Struct, frozen=True):
    """What a called model does in the caller's requests, by the server's statistics: means of a request."""

    model: Text
    calls: Number
    queue_ms: Number
    compute_ms: Number
    """Including its inputs and outputs."""


class SpeedComparison(Struct, frozen=True):
    """The speed of a point compared with another build."""

    baseline_name: Text
    """What this build is compared with: a commit, a folder, or a Triton with its version."""
    method: Literal["interleaved", "records"]
    """interleaved: both were measured in turns; records: the other was measured at another time."""
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
    points: Counted
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

    scenario: Scenario
    batch: Counted
    concurrency: Count
    """Requests in flight; 0 at a request rate."""
    throughput_per_s: Annotated[Estimate, SPEED]
    """Inferences per second: requests times batch."""
    latency_ms: Annotated[ByName[Estimate], SPEED]
    """By name: avg, p50, p90, p95 and p99. At a request rate they count from the scheduled time."""
    components_ms: Annotated[ByName[Number], SPEED]
    """The mean time per request in each of COMPONENTS."""
    passes: tuple[Pass, ...]
    requests: Count
    duration_s: Annotated[NotNegative, SPEED]
    warm_up_s: NotNegative
    """Seconds under load until latencies were stationary, before the measurement."""
    samples: Counted
    """The number of different samples in the requests."""
    certified: Annotated[ByName[CertifiedPercentile], SPEED]
    """By the percentile's name: p99 and p99.9."""
    request_rate_per_s: Positive | None = None
    """Requests per second of a schedule (open loop)."""
    arrivals: Arrivals | None = None
    slip_ms: Annotated[Number | None, SPEED] = None
    """The 99th percentile of how late a request was sent."""
    cpu: CpuUse | None = None
    gpu: Annotated[GpuUse | None, SPEED] = None
    comparison: SpeedComparison | None = None
    marks: Annotated[tuple[Mark, ...], SPEED] = ()
    answers: VerifiedAnswers | None = None
    repeated_speed: Annotated[Ratio | None, SPEED] = None
    """The speed of a repeated sample over that of new ones at the fastest point; None for long requests."""
    composing: Annotated[tuple[ComposingModel, ...], SPEED] = ()
    origin: Origin | None = None
    budget: Annotated[LatencyBudget | None, SPEED] = None

    @property
    def point(self) -> LoadPoint:
        return LoadPoint(self.scenario, self.batch, self.concurrency, self.request_rate_per_s, self.arrivals)


def best_of(points: Sequence[PointResult]) -> PointResult | None:
    """The point of the highest throughput, without those at a request rate, where the rate decides it."""
    closed = [result for result in points if result.request_rate_per_s is None]
    return max(closed, key=lambda result: result.throughput_per_s.value, default=None)


# --- results at the load points -----------------------------------------------------------------------------


class ReferenceComparison(Struct, frozen=True):
    """The best load point of a case compared with the reference format of its model."""

    case: Text
    """The id of the reference's case, which may be this case."""
    ratio: Ratio
    """Throughput over the reference's, measured in turns; 1 for the reference itself."""


class Efficiency(Struct, frozen=True):
    """The cost of serving: the best load point compared with the same artifact in process and with the
    model's reference format, measured in turns. On several GPUs, figures of one GPU are multiplied."""

    scenario: Scenario
    batch: Counted
    concurrency: Count
    served_per_s: Estimate
    in_process_per_s: Estimate
    """Inferences per second of `in_process_batch` at a time in its own process, on the same data: on a GPU
    from pinned host memory, copying the next batch meanwhile, or with CUDA shared memory from GPU memory."""
    in_process_batch: Counted
    threads: Count
    """CPU threads of either side; the server's of all instances."""
    ratio: Ratio
    pairs: Count
    flops_per_inference: Positive | None = None
    """Operations, two for a multiplication and an addition; None if the framework cannot count them."""
    peak_flops_per_s: Estimate | None = None
    """The fastest large matrix product or convolution in this precision on these threads, in these turns."""
    spinning: bool = False
    """Whether idle ONNX Runtime threads spun in process, as in Triton's own backend."""
    reference: ReferenceComparison | None = None
    """None if it is not the case's best point, or the reference format is not proven."""
    origin: Origin | None = None
    marks: tuple[Mark, ...] = ()

    @property
    def point(self) -> LoadPoint:
        return LoadPoint(self.scenario, self.batch, self.concurrency)

    @property
    def serving_overhead_ms(self) -> float:
        """Milliseconds that a request takes longer on the server than the same inferences in process."""
        return 1e3 * self.batch * (1 / self.served_per_s.value - 1 / self.in_process_per_s.value)


class Search(Struct, frozen=True):
    """The highest throughput or request rate within a latency budget, and its configuration."""

    budget_ms: Positive
    percentile: Name
    deployment: Deployment
    result: PointResult
    verdict: Verdict
    """passed: the percentile's whole interval keeps the budget; inconclusive: only its value does; failed: no
    configuration keeps it, and this one is nearest."""
    lead: Annotated[Ratio | None, SPEED]
    """The winner's throughput over the runner-up's; None without a runner-up."""
    configurations: Count
    passes: Count
    duration_s: NotNegative
    config: Text
    accuracy: Accuracy | None = None
    """The winner's ledger; None until it is proven."""
    origin: Origin | None = None
    diff: Text = ""
    """The winner's changes to a repository model's own config.pbtxt; empty if nothing is better."""


RESOURCE_UNITS: Mapping[str, Literal["bytes", "number"]] = {
    "memory of the server": "bytes",
    "memory of its stubs": "bytes",
    "shared memory": "bytes",
    "GPU memory": "bytes",
    "open files": "number",
    "threads": "number",
}
"""The resources that a soak watches, by Growth.resource, and their units."""


class Growth(Struct, frozen=True):
    """The growth of a server's use of a resource, per request under load or per loading of the model."""

    resource: Text
    """One of RESOURCE_UNITS."""
    unit: Literal["bytes", "number"]
    per: Literal["request", "loading"]
    """loading: each unload and load of the model."""
    slope: Slope
    """The growth each time, in the part of the soak that counts."""
    first: Number
    last: Number
    counted: Count
    """The requests or loadings of the slope."""
    verdict: Verdict
    """passed: a leak of the least size would have been found, and there is none; failed: it grows without
    end, more than an allocator does; inconclusive: neither."""


class Soak(Struct, frozen=True):
    """One load point under load for a long time: does the server leak, and is it as fast at the end?"""

    scenario: Scenario
    batch: Count
    concurrency: Count
    duration_s: Annotated[Positive, SPEED]
    """Seconds under load, with the pauses between passes for verifying answers and reading the use."""
    requests: Count
    passes: Count
    """The passes of the load generator; after each the use was read, with no request in flight."""
    growth: Annotated[tuple[Growth, ...], _MAX_ENTRIES]
    """Of requests, then of loadings."""
    loadings: Count = 0
    """Reloads of the model after it was under load."""
    not_watched: tuple[Text, ...] = ()
    end_over_begin: Annotated[Ratio | None, SPEED] = None
    """Speed in the last quarter of the passes over the second; None for few passes or a hidden speed."""
    requests_per_s: Annotated[Positive | None, SPEED] = None
    """Requests per second over the whole time under load; None for a hidden speed."""
    request_rate_per_s: Positive | None = None
    arrivals: Arrivals | None = None
    answers: VerifiedAnswers | None = None
    origin: Origin | None = None


MeasuredPoint = PointResult | Soak


class Record(Struct, frozen=True):
    """All that is known about one case on one machine."""

    case: CaseKey
    machine: Machine
    serving: Serving | None
    deployment: Deployment
    build: Build
    conversion: Conversion | None = None
    accuracy: Accuracy | None = None
    accuracy_missing: Text | None = None
    """Why the task's metric was not measured; the ledger then has only what the framework's outputs tell."""
    gates: tuple[GateResult, ...] = ()
    starts: tuple[Start, ...] = ()
    points: Annotated[tuple[PointResult, ...], _MAX_ENTRIES, SPEED] = ()
    efficiency: Annotated[tuple[Efficiency, ...], SPEED] = ()
    """At the best load point of each scenario; for a micro model at the best of all."""
    search: Search | None = None
    conversation: Conversation | None = None
    warm_up: Annotated[WarmUp | None, SPEED] = None
    soak: Soak | None = None
    against: BaselineComparison | None = None
    failures: tuple[StepFailure, ...] = ()
    """Tests that failed before they had a result; a run that gets through the test removes its entry."""
    price_per_hour: Number | None = None
    """In any currency."""
    updated: Text = ""
    """The time of the last change, in UTC, ISO 8601."""
    schema: Literal[1] = SCHEMA

    @property
    def measured_points(self) -> list[MeasuredPoint]:
        """The load points, and the one of the soak."""
        return [*self.points, *([self.soak] if self.soak else [])]
