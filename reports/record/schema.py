"""The record of one case: what `fixtures` writes and `reports` shows. `reports.record.files` reads and writes
it.

What the parts must satisfy together is checked by `reports.record.validate`.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Protocol, TypeVar

import msgspec
from msgspec import Meta, field

SCHEMA = 1

# --- what fields may hold -----------------------------------------------------------------------------------


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A part of a record: nothing in it changes, and its file holds nothing else."""


_Value = TypeVar("_Value")
_LARGEST = 1e30
"""The largest value of any quantity, in any unit: far above all there is, and far below where products
overflow."""
_MOST_WHOLE = 2**53
"""A double holds all whole numbers up to here."""
LONGEST_TEXT = 20_000
"""Characters; a server's error is what may be long."""

Count = Annotated[int, Meta(ge=0, le=_MOST_WHOLE)]
Counted = Annotated[int, Meta(ge=1, le=_MOST_WHOLE)]
Axis = Annotated[int, Meta(ge=-1, le=_MOST_WHOLE)]
"""The length of an axis; -1 where it may be any, as in Triton's `dims: [ -1 ]`."""
Number = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]
NotNegative = Annotated[float, Meta(ge=0, le=_LARGEST)]
Positive = Annotated[float, Meta(ge=1 / _LARGEST, le=_LARGEST)]
"""A quantity that is divided by, such as a speed."""
Share = Annotated[float, Meta(ge=0, le=1)]
Confidence = Annotated[float, Meta(ge=0.01, le=0.999999)]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
LongText = Annotated[str, Meta(max_length=2**25)]
"""A text or a picture that a sample shows."""
ByName = Annotated[Mapping[Annotated[str, Meta(max_length=200)], _Value], Meta(max_length=200)]
"""An object whose keys are names, such as those of percentiles or libraries."""
FilePart = Annotated[str, Meta(max_length=250, pattern=r"\A(?!\.\.?\Z)[A-Za-z0-9._-]+\Z")]
"""A part of a file's name, which leads to no other folder."""
Scenario = Annotated[str, Meta(pattern=r"\A(offline|online)\Z")]
"""offline (static batching, one request in flight) or online (dynamic batching, batch 1)."""
Name = Annotated[str, Meta(max_length=100, pattern=r"\A[A-Za-z0-9._-]+\Z")]
"""A word of the suite's own, such as that of a percentile."""
_MOST_LOADS = Meta(max_length=500)
"""Several times the load points of the longest sweep; of thousands a page would take minutes."""

Verdict = Literal["passed", "failed", "not shown"]
"""What a measurement says of what was asked for: it is shown to hold, shown not to hold, or neither is
shown."""
SpeedWord = Literal["slower", "not slower", "not shown"]
"""How a record writes the verdict of a comparison with another build; `verdict_of` gives the verdict."""
BudgetWord = Literal["within", "not shown", "beyond"]
"""How a record writes the verdict of a search within a latency budget; `verdict_of` gives the verdict."""
_VERDICTS: Mapping[str, Verdict] = {
    "not slower": "passed",
    "slower": "failed",
    "within": "passed",
    "beyond": "failed",
    "not shown": "not shown",
}

CONFIDENCE = 0.95
"""The confidence of every interval that states no other."""


class Estimate(Struct, frozen=True):
    """A measured number: its value and the interval that holds it with the given confidence."""

    value: Number
    low: Number
    high: Number
    confidence: Confidence = CONFIDENCE
    open_above: bool = False
    """Whether the observations are too few for an upper end: `high` is the largest of them, and the truth may
    be above."""


# --- what the figures depend on -----------------------------------------------------------------------------


class Case(Struct, frozen=True):
    """What was measured, by the parts of its name."""

    target: FilePart
    model: FilePart
    format: FilePart
    accelerator: FilePart | None
    precision: Annotated[str, Meta(max_length=100, pattern=r"\A[A-Za-z0-9._-]*\Z")]
    """Empty of a model that is served as it was found: its own configuration says it."""
    gpus: Counted = 1
    """How many GPUs the model is served on, each with as many instances as the deployment says; 1 on a CPU
    too."""


def case_id(case: Case) -> str:
    """The case's name everywhere: test id, folder, record file and table row."""
    several = f"{case.gpus}gpus" if case.gpus > 1 else None
    parts = (case.target, case.model, case.format, case.accelerator, case.precision, several)
    return "-".join(part for part in parts if part)


REMOTE = "remote"
"""The target of a case whose server somebody else runs, on hardware that nobody has named."""


class Machine(Struct, frozen=True):
    """Everything about the machine that a number depends on; two stamps never share a record."""

    cpu: Text
    cores: Count
    memory_gib: Count
    gpu: Text | None
    gpu_driver: Text | None
    system: Text
    versions: ByName[Text]
    gpu_uuids: tuple[Text, ...] = ()
    """The UUIDs of the GPUs, or MIG slices, that were used."""
    is_client: bool = False
    """Whether it only asked: the server is somebody else's, on hardware that is not known."""


class Origin(Struct, frozen=True):
    """Where a measurement comes from: which run made it, on which machine, with which code. The recorder adds
    it."""

    run: Text
    """The id of the run; one for all machines of a fleet."""
    host: Text
    """The machine's network name; empty where it was left out for readers elsewhere."""
    gpu_uuids: tuple[Text, ...]
    commit: Text | None
    """The commit of the suite's checkout, 40 hexadecimal digits; None where it is in no repository."""
    clean: bool | None
    """Whether the checkout's files were those of the commit."""
    started: Text
    """When the run began, in UTC, ISO 8601."""


class Serving(Struct, frozen=True):
    """Which server answered, and how the model was served."""

    kind: Text
    """embedded, local, docker or remote."""
    triton: Text
    """The version of Triton, as the server reports it."""
    backend: Text
    """The Triton backend that ran the model: onnxruntime, pytorch, tensorrt, or python for the suite's
    runtimes."""
    shared_memory: Text
    """How tensors reached the server under load: system, cuda or none."""
    image: Text | None = None
    """The container's image, as it was asked for."""
    image_digest: Text | None = None
    """The registry's digest of the image, sha256:...; None where the image was never in a registry."""
    versions: ByName[Text] = field(default_factory=dict)
    """The known versions of the libraries in the server's native backends, by their distributions' names on
    PyPI."""


class Deployment(Struct, frozen=True):
    """The settings of the model on the server."""

    max_batch_size: Count
    instances: Count
    preferred_batch_sizes: tuple[Count, ...]
    max_queue_delay_us: Count
    cuda_graphs: bool
    warmup: bool
    tf32: bool | None = None
    """Whether products of FP32 may be computed in TF32, whose operands hold 11 bits in place of 24. None
    where that means nothing: on a CPU, on a GPU older than compute capability 8.0, in other precisions."""
    prefer_nhwc: bool = False
    """Whether ONNX Runtime computes convolutions on a GPU with the channels last."""


class Artifact(Struct, frozen=True):
    """The converted artifact: what it was made from, and what making it cost."""

    digest: Text
    """A digest of everything that the artifact was made from."""
    weights: Text
    """A checkpoint's name and SHA-256, `trained by recipe`, or `random, seed N`."""
    build_time_s: NotNegative
    size_mib: NotNegative
    format: Text
    """The format as a reader knows it: `TorchScript Trace`."""
    engine: Text
    """The library that computes, as a reader knows it: `PyTorch`."""
    inputs: ByName[tuple[Axis, ...]]
    """The model's inputs and their shapes without the batch dimension."""
    as_found: bool = False
    """Whether the model was served as it was found in a repository: nothing was converted, and its answers
    are held to those that it gives to one request at a time."""
    requests: Text = ""
    """What the requests were made of, where that is no data set of the model's."""


class Start(Struct, frozen=True):
    """How long starting the server, loading the model and the first request took."""

    scenario: Scenario
    server_s: Number | None
    """Until the server was ready, without a model; None for a server that ran already."""
    load_s: Number
    """Loading the model, with the server's own warm-up requests."""
    first_request_ms: Number
    origin: Origin | None = None


class ServedSide(Struct, frozen=True):
    """A model of a repository on one of two servers that are set beside each other."""

    triton: Text
    precision: Text
    """The precision that every floating-point number of the answers shows; empty where they are of FP32, or
    none tells."""
    noise: NotNegative | None
    """How far the answer to a request that is sent again typically is from the first, as a share of the
    spread; None where the requests are no single ones."""
    loads_s: tuple[NotNegative, ...]
    """Seconds of each load of the model with its first answer, in turns with the other's."""
    used: ByName[NotNegative]
    """What the server used after it had answered each sample alone, by USED; without what cannot be seen of
    it."""


class BesideOther(Struct, frozen=True):
    """A model of a repository beside the one that it is to replace, or beside itself on another Triton: what
    differs other than answers (the gate `other`) and speed (the loads' `comparison`)."""

    reference: Text
    """The other repository, or the other Triton."""
    here: ServedSide
    there: ServedSide
    warnings: Annotated[tuple[Text, ...], Meta(max_length=20)] = ()
    """What this server's log warns of, and the other's does not."""
    origin: Origin | None = None


class StageFailure(Struct, frozen=True):
    """A test that proves the case right and failed before it had a result, as where an output was no
    number."""

    test: Name
    """The function of the test: test_accuracy."""
    stage: Name
    """conversion, accuracy, answers, conversation, against or reload."""
    what: Text
    """What was wrong, as a sentence."""
    origin: Origin | None = None


# --- whether the answers are right --------------------------------------------------------------------------

GATES = {
    "repeated": "a request that is sent again, after others, gets the same answer",
    "in-flight": "a request gets the same answer alone and with up to 64 in flight",
    "batches": "a sample gets the same answer alone and in batches, at any place and beside any others",
    "transports": "a request gets the same answer over gRPC and HTTP, with and without shared memory",
    "declared": "answers have the outputs, types and shapes that are declared, and finite numbers",
    "largest-batch": "batches of the declared sizes are answered, and one more row is refused",
    "malformed": "a malformed request is refused, and the next one gets its answer",
    "recorded": "answers are the recorded ones",
    "reloaded": "a request gets the same answer after the model was loaded anew",
    "other": "answers are those of the other repository, or of the other Triton",
}
"""The gates that need no ground truth, by AnswerGate.gate, and what each asks for."""


class OutputDifference(Struct, frozen=True):
    """How far an output of a stage is from that of the stage before it, on all samples: of the converted
    model from the framework's, of the served one from the same file in process.

    Where integers differ that are no classes of scores beside them, the floating-point outputs of the same
    row are not compared: a duration rounded up moves all that follows it.
    """

    output: Text
    kind: Literal["error", "differing"]
    """What `largest` and `mean` are. error: the largest absolute difference of a floating-point number beyond
    rounding, as a share of the spread of its column over all samples, and the mean difference as a share of
    the mean magnitude; differing: the fraction of integers that are not equal, of the worst row and of all. A
    wrong row counts as the worst."""
    largest: Number
    largest_limit: Number
    mean: Number
    mean_limit: Number
    sample: Text
    """The id of the row with the largest difference; empty where nothing differs."""
    expected: Number
    """What the stage before gave at the place of the largest difference."""
    given: Number
    """What this stage gave there."""
    source: Text
    """Where the limits come from, in words."""
    compared: Number = 1.0
    """The share of rows that were compared: of a floating-point output those whose integers agree."""
    compared_limit: Number = 0.0
    """The least share of rows that must be."""


def within_limits(one: OutputDifference) -> bool:
    """Whether an output is as near as it has to be, on the mean and where it is the farthest off."""
    return (
        one.largest <= one.largest_limit and one.mean <= one.mean_limit and one.compared >= one.compared_limit
    )


class Parity(Struct, frozen=True):
    """The converted model in process against the framework, on the same samples."""

    samples: Count
    relative_error: Number | None
    """The largest absolute difference beyond rounding, as a share of the spread of its column over all
    samples, of the floating-point output that comes nearest to its limit; None where the model has none."""
    relative_error_limit: Number
    agreement: Number | None
    """The mean fraction of decisions per sample that are equal; None of a model that decides nothing."""
    agreement_limit: Number | None
    """The least agreement that passes; None where nothing is decided, and where weights are random, as their
    decisions are ties that any rounding breaks."""
    passed: bool
    origin: Origin | None = None
    precision_cost: Number | None = None
    """What the precision itself costs the output that is the worst by it: the mean absolute error of the
    framework's own network with its values rounded as the precision holds them, or for FP32 beside the same
    network in FP64, over the mean absolute value. None where no output is a floating-point number, and where
    no framework's network is known."""
    error_in_costs: Number | None = None
    """The mean error of that output of the converted model, in such costs; about 1 for a right one."""
    error_in_costs_limit: Number | None = None
    outputs: tuple[OutputDifference, ...] = ()
    """How far each output is from the framework's, with its limits."""
    same_file: bool = False
    """Whether nothing was converted: it is the user's ONNX file, and what differs is what ONNX Runtime
    optimises."""


class Disagreement(Struct, frozen=True):
    """Samples on which two neighbouring stages decide differently."""

    between: tuple[Text, Text]
    """The two stages: framework and converted, or converted and served."""
    count: Count
    """Samples with at least one decision that differs."""
    lost: Count
    """How many of them scored worse in the second stage than in the first, by the ledger's first metric."""
    gained: Count
    """How many of them scored better."""
    samples: tuple[Text, ...]
    """The ids of these samples, at most the first hundred."""
    agreement: Number
    """The mean fraction of decisions per sample that are equal."""
    agreement_limit: Number | None
    """The least agreement that passes."""


class Limit(Struct, frozen=True):
    """The worst score that passes, and where the figure comes from."""

    value: Number
    source: Text


class Score(Struct, frozen=True):
    """One metric after each stage."""

    metric: Text
    better: Literal["higher", "lower"]
    """Which way the metric is better. higher: it is a fraction from 0 to 1, shown in percent; lower: it is an
    error, shown as a number."""
    framework: Number | None
    """None for a model that is served as it was found, as is `converted`."""
    converted: Number | None
    served: Number
    limits: tuple[Limit, ...]
    passed: bool


def meets(better: str, score: float, limit: float) -> bool:
    """Whether a score is no worse than a limit."""
    return score >= limit if better == "higher" else score <= limit


class SameAnswers(Struct, frozen=True):
    """Whether a sample gets the same answer however it is sent: alone, among others, at any place of a batch,
    with many requests in flight."""

    samples: Count
    """How many samples were sent in every way."""
    answers: Count
    """How many answers were compared, of all samples and ways."""
    relative_difference: Number | None
    """The largest difference beyond rounding between an answer and the first to the same sample, as a share
    of the spread of its column over all samples; of all floating-point outputs. None where the model has
    none, or where an answer was no number."""
    agreement: Number
    """The least share of equal elements between an integer or text output of an answer and of the first to
    the same sample."""
    passed: bool
    sample: Text = ""
    """The id of the sample whose answers differ most."""
    limit: Number | None = None
    """The largest `relative_difference` that passes; None without floating-point outputs."""
    left_out: Count = 0
    """Answers whose floating-point outputs were not compared, as a few of their integers differ."""
    tells_apart: bool = True
    """Whether different samples get different answers: if they do not, nothing shows whose answer one is."""


class Accuracy(Struct, frozen=True):
    """The ledger: the task's metrics after each stage, on the same samples."""

    scores: tuple[Score, ...]
    """The scores of every metric; tables show the first."""
    samples: Count
    disagreements: tuple[Disagreement, ...]
    requests: Count
    """How many requests carried the samples, of mixed batch sizes and with many in flight."""
    passed: bool
    same_answers: SameAnswers | None = None
    """None where nothing was sent in several ways."""
    origin: Origin | None = None
    outputs: tuple[OutputDifference, ...] = ()
    """How far each output of the served model is from the converted one's in process; empty of a model that
    is served as it was found."""


class AnswerGate(Struct, frozen=True):
    """What a gate that needs no ground truth found of a case's answers."""

    gate: Name
    """Which gate, one of GATES."""
    requests: Count
    tried: Text
    """What was tried, in words: ways, batch sizes, faults."""
    wrong: Text = ""
    """The first thing that was wrong, as a sentence; empty where the gate passed."""
    same: SameAnswers | None = None
    """How far answers to one sample were apart; None of a gate that compares none."""
    origin: Origin | None = None


class WrongAnswer(Struct, frozen=True):
    """An answer under load that is not the one of the converted model in process to the same sample."""

    sample: Text
    output: Text
    """The output, with the place of the element that differs most: `OUTPUT__0[3]`."""
    expected: Text
    """That element as the converted model in process gives it; a text, as it need not be finite."""
    given: Text
    """That element as the server gave it."""


class VerifiedAnswers(Struct, frozen=True):
    """What was found of a load point's answers: requests of the same batch, as many in flight, on the same
    data, were sent between its passes, and every answer was compared with the converted model's in
    process."""

    verified: Count
    """How many answers were compared: each row of a batch is one."""
    wrong: Count
    requests: Count
    duration_s: Number
    """Seconds that this took, between the passes: no throughput is of this time."""
    first_wrong: WrongAnswer | None = None
    held_to: Literal["in process", "alone"] = "in process"
    """What they were compared with. in process: the converted model's answers in process; alone: the server's
    own to the same samples, one request at a time."""
    left_out: Count = 0
    """Answers whose floating-point outputs were not compared, as a few of their integers differ."""


class WarmUp(Struct, frozen=True):
    """The first request after a load beside the twenty that follow it, of a model whose configuration has a
    model_warmup."""

    batch: Count
    """Rows of each request, as many as the warm-up has."""
    first_ms: tuple[Number, ...]
    """The first request after each load; it was loaded again only where that was slow."""
    later_ms: tuple[Number, ...]
    """The slowest of the others after each load."""
    passed: bool
    """Whether after some load the first took no more than twice as long as the slowest of the others."""
    origin: Origin | None = None


class Conversation(Struct, frozen=True):
    """What a model that is not asked by single requests, each with one answer, said to the same messages
    again."""

    kind: Literal["decoupled", "sequence"]
    """decoupled: any number of answers to a request; sequence: requests that belong together."""
    requests: Count
    """How many requests were sent each time."""
    answers: Count
    """How many answers came the first time."""
    difference: Text
    """The first difference of the second time from the first, in words."""
    passed: bool
    alone: bool = False
    """Whether no other sequence's messages came between, as the model takes one sequence at a time."""
    origin: Origin | None = None


# --- load points --------------------------------------------------------------------------------------------

COMPONENTS = (
    "client_send",
    "network_server_send_recv",
    "server_queue",
    "server_compute_input",
    "server_compute_infer",
    "server_compute_output",
    "client_recv",
)
"""The latency components of one request, in the order and with the names of the published tables."""

MARKS = {
    "unfinished": "the run ended before all passes were measured",
    "few-requests": "fewer than 100 requests: p99 is the largest latency",
    "wide-interval": "the budget was spent before the interval was as narrow as asked",
    "not-certified": "the budget was spent before the percentile asked for was certified",
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
    "faster-than-in-process": "the server was faster than what it serves is in process, which cannot be",
    "plans-anew": "ONNX Runtime planned the convolutions anew whenever the size of the batch changed",
    "gpu-throttled": "the GPU lowered its clocks",
    "gpu-shared": "other programs used the GPU",
}
"""Codes of Load.marks, and what each says."""


class Mark(Struct, frozen=True):
    """Why a number is to be read with care."""

    code: Name
    """One of MARKS."""
    text: Text


class Pass(Struct, frozen=True):
    """One run of the load generator; every estimate is made from several."""

    requests: Count
    duration_s: NotNegative
    throughput_per_s: Positive
    """Inferences per second."""
    latency_ms: ByName[Positive]
    """The latencies of its requests by name: avg, p50, p90, p95 and p99."""


class CpuUse(Struct, frozen=True):
    """Mean number of this machine's cores that were busy while a point was measured."""

    cores: Count
    """How many cores the measurement may use."""
    load_generator: Number
    server: Number | None
    """None for a server whose processes are not below this one's."""
    others: Number
    """Cores that all else kept busy; the server too where its own share is not known."""
    stolen: Number
    """Cores that the host of a virtual machine took."""


class GpuUse(Struct, frozen=True):
    """What NVML says of the GPU while a point was under load; None for what this GPU does not tell."""

    utilisation: Number | None
    """The fraction of the time in which a kernel ran; NVML averages it over a sixth of a second to a
    second."""
    memory_mib: Number | None
    """The most memory that all processes together used."""
    power_w: Number | None
    """The mean power of the whole GPU."""
    energy_j_per_1000: Number | None
    """The energy of 1,000 inferences: the mean power of the whole GPU over the throughput."""
    sm_clock_mhz: Number | None
    """The mean clock of the streaming multiprocessors."""


class CertifiedPercentile(Struct, frozen=True):
    """What can be signed of a percentile of the latencies: the bound by MLPerf LoadGen's early stopping,
    which counts requests as independent of each other."""

    value_ms: Number
    """The percentile of the requests that were measured."""
    bound_ms: Number | None
    """What the percentile is at most, with the given confidence; None of too few requests."""
    requests: Count
    requests_missing: Count
    """How many more it takes until there is a bound."""
    confidence: Confidence = 0.99


class ComposingModel(Struct, frozen=True):
    """What a model that another calls did in that one's requests, by the server's statistics; means of a
    request."""

    model: Text
    calls: Number
    queue_ms: Number
    compute_ms: Number
    """With taking its inputs and giving its outputs."""


class Comparison(Struct, frozen=True):
    """The speed of a point beside that of another build."""

    reference: Text
    """What it was compared with: a commit, or a folder."""
    method: Literal["interleaved", "records"]
    """interleaved: both were served and measured in turns; records: the other was measured at another
    time."""
    ratio: Estimate
    """Speed over the reference's: throughput, or at a given request rate the inverse of the mean latency."""
    allowed_slowdown: Share
    """The slow-down that passes, as a fraction: 0.03 lets the ratio be 0.97."""
    verdict: SpeedWord
    """slower: the whole interval lies below what is allowed, and that is shown among all points of the run;
    not slower: the whole lies above; not shown: neither."""
    passes: Count
    """How many passes of each build the ratio is of."""
    seconds_to_settle: Number | None
    """Estimated measuring time, beyond what was spent, until the verdict is settled; None where it is."""
    chance: Share
    """The chance of so slow a build, or a slower one, where it is just as slow as allowed, over all looks at
    this point."""
    points: Counted
    """How many load points the run compared: `slower` is said so that any of them is a false alarm in at most
    one of a hundred runs."""
    p99_ratio: Estimate | None = None
    """The p99 latency of a pass over the reference's, of the passes that the ratio is of."""
    p99_is_longer: bool = False
    """Whether it is shown among all points of the run that p99 is longer than the slow-down that passes makes
    it."""


class LatencyBudget(Struct, frozen=True):
    """The most that a latency of a load point may be, as its user has it, and what the measurement says of
    it."""

    percentile: Name
    """Which latency the budget is for: p99."""
    budget_ms: Positive
    source: Text
    """Where the budget comes from, in words."""
    verdict: Verdict
    """passed: the whole interval of the latency keeps the budget; failed: the whole lies beyond; not shown:
    neither."""


class Load(Struct, frozen=True):
    """One load point: throughput and latency with their intervals, and where the time went."""

    scenario: Scenario
    batch: Counted
    concurrency: Count
    """Requests in flight; 0 where they are sent at a rate."""
    throughput_per_s: Estimate
    """Inferences per second: requests times batch."""
    latency_ms: ByName[Estimate]
    """The latencies of requests by name: avg, p50, p90, p95 and p99. At a request rate they count from the
    time that the schedule says, not from the sending."""
    components_ms: ByName[Number]
    """The mean time per request in each of COMPONENTS."""
    passes: tuple[Pass, ...]
    requests: Count
    duration_s: NotNegative
    warm_up_s: NotNegative
    """Seconds under load until the latencies were stationary; they are no part of the measurement."""
    samples: Counted
    """How many different samples the requests were made of."""
    certified: ByName[CertifiedPercentile]
    """What can be signed of the latencies, by the percentile's name: p99 and p99.9."""
    request_rate_per_s: Positive | None = None
    """Requests per second, where they are sent by a schedule (open loop)."""
    arrivals: Literal["constant", "poisson"] | None = None
    slip_ms: Number | None = None
    """The 99th percentile of how much later than scheduled a request was sent."""
    cpu: CpuUse | None = None
    gpu: GpuUse | None = None
    comparison: Comparison | None = None
    marks: tuple[Mark, ...] = ()
    answers: VerifiedAnswers | None = None
    """None where no answer was looked at."""
    repeated_speed: Estimate | None = None
    """The speed of one sample repeated over that of requests that were never sent before, measured in turns
    at the fastest point of a scenario; None at others, and where requests take long."""
    composing: tuple[ComposingModel, ...] = ()
    """What the models that this one calls did in its requests."""
    origin: Origin | None = None
    budget: LatencyBudget | None = None


class LoadSetting(Protocol):
    """What tells a load point from others of its case: a Load has it, and a point whose figures are
    hidden."""

    @property
    def scenario(self) -> str: ...
    @property
    def batch(self) -> int: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def request_rate_per_s(self) -> float | None: ...
    @property
    def arrivals(self) -> str | None: ...


def point_id(
    batch: int, concurrency: int, request_rate_per_s: float | None = None, arrivals: str | None = None
) -> str:
    """The load point's name in test ids: `b008-c001`, or at a rate `b001-r00120-poisson`."""
    if request_rate_per_s is None:
        return f"b{batch:03d}-c{concurrency:03d}"
    whole = request_rate_per_s == int(request_rate_per_s)
    rate = f"{int(request_rate_per_s):05d}" if whole else f"{request_rate_per_s:07.1f}"
    return f"b{batch:03d}-r{rate}-{arrivals}"


Place = tuple[str, int, int, float, str]
"""Scenario, batch, concurrency, request rate and arrivals of a load point."""


def place(load: LoadSetting) -> Place:
    """What tells the load points of a case apart, and sorts them."""
    return (load.scenario, load.batch, load.concurrency, load.request_rate_per_s or 0.0, load.arrivals or "")


# --- what is found at the load points -----------------------------------------------------------------------


class BesideReference(Struct, frozen=True):
    """The best load point of a case beside that of the format that all of its model are set beside."""

    reference: Text
    """The id of that format's case; this one's own where it is the one."""
    ratio: Estimate
    """The throughput over that of the reference, of turns; 1 where this case is the one."""


class Efficiency(Struct, frozen=True):
    """What serving costs: the best load point beside the same artifact in process, measured in turns; in the
    same turns comes the format that all of the model are set beside. On several GPUs, figures of one GPU
    count times their number."""

    scenario: Scenario
    batch: Counted
    concurrency: Count
    served_per_s: Estimate
    in_process_per_s: Estimate
    """Inferences per second with `in_process_batch` at a time, in a process of its own, on the same data: on
    a GPU from the host's pinned memory, the next batch copied while one is computed, or with CUDA shared
    memory from the GPU's."""
    in_process_batch: Counted
    threads: Count
    """CPU threads of either side, those of the server's instances together."""
    ratio: Estimate
    """The served throughput over that in process."""
    pairs: Count
    """How many pairs of passes were measured, in process and served in turns."""
    flops_per_inference: Positive | None = None
    """Floating-point operations of an inference, a multiplication and an addition as two; None where the
    framework cannot count them."""
    peak_flops_per_s: Estimate | None = None
    """Operations per second of the fastest large matrix product or convolution in the same precision on the
    same threads, measured in the same turns."""
    spinning: bool = False
    """Whether idle threads of ONNX Runtime spun in process, as those of Triton's own backend do."""
    beside: BesideReference | None = None
    """None where it is not the case's best point of all, and where the reference format is not proven."""
    serial_per_s: Estimate | None = None
    """In process where each batch is copied to the GPU, computed and copied back, one after the other; None
    on a CPU."""
    resident_per_s: Estimate | None = None
    """In process on data that stay in the GPU's memory; None on a CPU, and where `in_process_per_s` is of
    that."""
    origin: Origin | None = None
    marks: tuple[Mark, ...] = ()

    @property
    def serving_cost_ms(self) -> float:
        """Milliseconds by which a request takes the server longer than the same inferences take in
        process."""
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
    """The winner's throughput over that of the second best, at rates the goodput; None where there was no
    second within the budget."""
    configurations: Count
    passes: Count
    duration_s: NotNegative
    config: Text
    """The file name of the winner's config.pbtxt, beside the record."""
    accuracy: Accuracy | None = None
    """The ledger of the winner; None until it was proven."""
    origin: Origin | None = None
    goodput_per_s: Estimate | None = None
    """Answers per second that came within the budget, counted from when their requests were due; None where
    throughput was searched."""
    rates: Count | None = None
    """How many request rates were measured, over all configurations; None where throughput was searched. The
    rate that was found, and how its requests arrived, are the load's."""
    varied: Text = ""
    """The model whose configuration was varied, of one that is served as it was found: the case's own, or one
    that it calls; empty for a model that was converted."""
    diff: Text = ""
    """What the winner changes of that model's config.pbtxt; empty where nothing does better."""


def verdict_of(one: Comparison | Search) -> Verdict:
    """Whether a build is not slower than the other, or a configuration keeps its budget."""
    return _VERDICTS[one.verdict]


USED: Mapping[str, Literal["bytes", "number"]] = {
    "memory of the server": "bytes",
    "memory of its stubs": "bytes",
    "shared memory": "bytes",
    "GPU memory": "bytes",
    "open files": "number",
    "threads": "number",
}
"""What a soak watches, by Growth.what, and the unit of each."""

LEAST_LEAK: Mapping[tuple[str, str], float] = {
    ("bytes", "request"): 128.0,
    ("number", "request"): 0.01,
    ("bytes", "loading"): 2.0**20,
    ("number", "loading"): 0.5,
    ("bytes", "failed_loading"): 2.0**20,
    ("number", "failed_loading"): 0.5,
}
"""The growth each time, in bytes or numbers, from which a soak calls it a leak, by its unit and what it grows
with: an eighth of the least leak that has to be found with each request, a quarter with each loading
(docs/soak.md)."""


class Growth(Struct, frozen=True):
    """How much more of something a server used, from request to request under load, or from one loading of
    the model to the next."""

    what: Text
    """What was watched, one of USED."""
    unit: Literal["bytes", "number"]
    per: Literal["request", "loading", "failed_loading"]
    """request: the mean growth with each request; loading: with each time that the model was unloaded and
    loaded; failed_loading: with each load of a copy of it that fails."""
    slope: Estimate
    """By how much it grew each time, in the part of the soak that counts."""
    first: Number
    """How much was used at the beginning of the soak."""
    last: Number
    counted: Count
    """How many requests, or loadings, the slope is of."""
    verdict: Verdict
    """passed: a leak that a soak has to find would have been found, and there is none; failed: it grows
    without end, more than an allocator does; not shown: neither."""


class Soak(Struct, frozen=True):
    """One load point under load for a long time: does the server use more and more, and is it as fast at the
    end?"""

    scenario: Scenario
    batch: Count
    concurrency: Count
    """Requests in flight; 0 where they are sent at a rate."""
    duration_s: Positive
    """Seconds under load, with the seconds between passes in which answers were verified and the use was
    read."""
    requests: Count
    passes: Count
    """How many passes of the load generator there were; after each the use was read, with no request in
    flight."""
    growth: Annotated[tuple[Growth, ...], _MOST_LOADS]
    """What was watched: of requests, then of loadings, then of those that fail."""
    loadings: Count = 0
    """How often the model was unloaded and loaded after the load."""
    not_watched: tuple[Text, ...] = ()
    """What could not be watched and why, a sentence each."""
    end_over_begin: Estimate | None = None
    """The speed in the last quarter of the passes over that in the second; None of too few passes, and where
    no speed may be shown."""
    requests_per_s: Positive | None = None
    """Requests per second of all the time under load; None where no speed may be shown."""
    request_rate_per_s: Positive | None = None
    """Requests per second, where they are sent by a schedule (open loop)."""
    arrivals: Literal["constant", "poisson"] | None = None
    answers: VerifiedAnswers | None = None
    """None where no answer was looked at."""
    origin: Origin | None = None
    failed_loadings: Count = 0
    """How often a load of a copy of the model failed after the other loadings."""


class Record(Struct, frozen=True):
    """All that is known of one case on one machine."""

    case: Case
    machine: Machine
    serving: Serving | None
    """The server that answered; None until the case has been served."""
    deployment: Deployment
    build: Artifact
    conversion: Parity | None = None
    accuracy: Accuracy | None = None
    accuracy_missing: Text | None = None
    """Why the task's metric was not measured; the ledger then holds what the framework's outputs alone
    tell."""
    gates: tuple[AnswerGate, ...] = ()
    """What the gates that need no ground truth found, in the order of their names."""
    starts: tuple[Start, ...] = ()
    loads: Annotated[tuple[Load, ...], _MOST_LOADS] = ()
    efficiency: tuple[Efficiency, ...] = ()
    """What serving costs at the best load point of each scenario; of a micro model at the best of all."""
    search: Search | None = None
    conversation: Conversation | None = None
    """What is proven of a model that is not asked by single requests."""
    warm_up: WarmUp | None = None
    soak: Soak | None = None
    against: BesideOther | None = None
    """What differs from the model that this one is to replace."""
    failures: tuple[StageFailure, ...] = ()
    """Which tests failed before they had a result, each until a run gets through it."""
    price_per_hour: Number | None = None
    """What an hour of the machine costs, in any currency."""
    stage_seconds: ByName[Number] = field(default_factory=dict)
    """Seconds that a test of each stage took, the mean of the stage's tests in the run that measured it last;
    starting the server is in it, converting the model (`build.build_time_s`) is not."""
    updated: Text = ""
    """The time of the last change in UTC, ISO 8601."""
    schema: Count = SCHEMA
