"""The record of one case: its schema. `reports.record.files` reads and writes it.

`fixtures` makes records, `reports` shows them. It needs the standard library alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol

from reports.record.domains import MOST_LOADS, Counted, Name, NotNegative, Positive, Share

SCHEMA = 3

#: The latency components of one request, in the order and with the names of the published tables.
COMPONENTS = (
    "client_send",
    "network_server_send_recv",
    "server_queue",
    "server_compute_input",
    "server_compute_infer",
    "server_compute_output",
    "client_recv",
)

#: Codes of Load.marks, and what each says.
MARKS = {
    "unfinished": "the run ended before all passes were measured",
    "few-requests": "fewer than 100 requests: p99 is the largest latency",
    "wide-interval": "the budget was spent before the interval was as narrow as asked",
    "not-certified": "the budget was spent before the percentile asked for was certified",
    "not-warm": "latencies were not shown to be stationary before the measurement",
    "damaged-passes": "passes repeated because the load generator left nothing usable",
    "server-restarted": "the server ended under load, and the point was measured again on another",
    "client-bound": "the load generator, not the server, limits the throughput",
    "cpu-shared": "other programs took part of the CPU",
    "cpu-stolen": "the host of the virtual machine took part of the CPU",
    "niced": "the run has a lower priority than other programs",
    "overloaded": "the server kept up with less than the rate asked for",
    "schedule-slipped": "requests were sent later than scheduled",
    "cached-answers": "one sample repeated was answered faster than samples that were never sent before",
    "gpu-throttled": "the GPU lowered its clocks",
    "gpu-shared": "other programs used the GPU",
}

#: Gates that need no ground truth, by AnswerGate.gate, and what each asks for.
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
}

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
    ("bytes", "loading"): 1.0 * 2**20,
    ("number", "loading"): 0.5,
}

Verdict = Literal["passed", "failed", "not shown"]
"""What a measurement says of what was asked for: it is shown to hold, shown not to hold, or neither is shown."""

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


@dataclass(frozen=True)
class Estimate:
    """A measured number: its value and the interval that holds it with the given confidence."""

    value: float
    low: float
    high: float
    confidence: Share = 0.95
    open_above: bool = field(default=False, kw_only=True)
    """Whether the observations are too few for an upper end: `high` is the largest of them, and the truth may be above."""


@dataclass(frozen=True)
class Case:
    """What was measured, by the parts of its name."""

    target: str
    model: str
    format: str
    accelerator: str | None
    precision: str
    gpus: Counted = 1
    """How many GPUs the model is served on, each with as many instances as the deployment says; 1 on a CPU too."""


@dataclass(frozen=True)
class Machine:
    """Everything about the machine that a number depends on; two stamps never share a record."""

    cpu: str
    cores: int
    memory_gib: int
    gpu: str | None
    gpu_driver: str | None
    system: str
    versions: Mapping[str, str]
    gpu_uuids: Sequence[str] = ()
    """The UUIDs of the GPUs, or MIG slices, that were used; empty without one, and in records that do not say."""


@dataclass(frozen=True)
class Origin:
    """Where a measurement comes from: which run made it, on which machine, with which code."""

    run: str
    """The id of the run; one for all machines of a fleet."""
    host: str
    """The machine's network name; empty where it was left out for readers elsewhere."""
    gpu_uuids: Sequence[str]
    """The UUIDs of the GPUs, or MIG slices, that were used; empty on a CPU, and where they were left out."""
    commit: str | None
    """The commit of the suite's checkout, 40 hexadecimal digits; None where it is in no repository."""
    clean: bool | None
    """Whether the checkout's files were those of the commit; None where there is none."""
    started: str
    """When the run began, in UTC, ISO 8601."""


@dataclass(frozen=True)
class Serving:
    """Which server answered, and how the model was served."""

    kind: str
    """The kind of server: embedded, local, docker or remote."""
    triton: str
    """The version of Triton, as the server reports it."""
    backend: str
    """The Triton backend that ran the model: onnxruntime, pytorch, tensorrt, or python for the suite's runtimes."""
    shared_memory: str
    """How tensors reached the server under load: system, cuda or none."""
    image: str | None = None
    """The container's image, as it was asked for; None for a server that is not in one, and in records that do not
    say."""
    image_digest: str | None = None
    """The registry's digest of the image, sha256:...; None where the image was never in a registry."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of the libraries in the server's native backends, by their distributions' names on PyPI; those that
    are not known are left out. Empty where the model ran on this machine's own."""


@dataclass(frozen=True)
class Deployment:
    """The settings of the model on the server."""

    max_batch_size: int
    instances: int
    preferred_batch_sizes: Sequence[int]
    max_queue_delay_us: int
    cuda_graphs: bool
    warmup: bool
    tf32: bool | None = None
    """Whether products of FP32 may be computed in TF32, whose operands hold 11 bits in place of 24. None where that means
    nothing: on a CPU, on a GPU older than compute capability 8.0, in other precisions; and in records from before."""


@dataclass(frozen=True)
class Artifact:
    """The converted artifact: what it was made from, and what making it cost."""

    digest: str
    """A digest of everything that the artifact was made from."""
    weights: str
    """Where the weights come from: a checkpoint's name and SHA-256, `trained by recipe`, or `random, seed N`."""
    build_time_s: NotNegative
    """Seconds that converting the model took."""
    size_mib: NotNegative
    """The size of the artifact on disk."""
    format: str
    """The format as a reader knows it: `TorchScript Trace`."""
    engine: str
    """The library that computes, as a reader knows it: `PyTorch`."""
    inputs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The model's inputs and their shapes without the batch dimension; empty in records that do not say."""
    as_found: bool = False
    """Whether the model was served as it was found in a repository: nothing was converted, and its answers are held to
    those that it gives to one request at a time."""
    requests: str = ""
    """What the requests were made of, where that is no data set of the model's; empty where it is."""


@dataclass(frozen=True)
class Parity:
    """The converted model in process against the framework, on the same samples."""

    samples: int
    relative_error: float | None
    """The largest absolute difference over the largest absolute reference value, over all floating-point outputs;
    None where the model has none."""
    relative_error_limit: float
    """The largest relative error that passes."""
    agreement: float
    """The mean fraction of decisions per sample that are equal."""
    agreement_limit: float | None
    """The least agreement that passes; None where weights are random, as their decisions are ties that any rounding
    breaks."""
    passed: bool
    origin: Origin | None = None
    """Where it comes from; None in records from before."""
    precision_cost: float | None = None
    """What the precision itself costs the output that is the worst by it: the mean absolute error of the framework's own
    network with its values rounded as the precision holds them, over the mean absolute value. None in FP32, where no
    output is a floating-point number, and in records from before."""
    error_in_costs: float | None = None
    """The mean error of that output of the converted model, in such costs; about 1 for a right one."""
    error_in_costs_limit: float | None = None
    """The most that passes."""


@dataclass(frozen=True)
class Disagreement:
    """Samples on which two neighbouring stages decide differently."""

    between: tuple[str, str]
    """The two stages: framework and converted, or converted and served."""
    count: int
    """How many samples have at least one decision that differs."""
    lost: int
    """How many of these samples scored worse in the second stage than in the first, by the ledger's first metric."""
    gained: int
    """How many of these samples scored better in the second stage than in the first, by the same metric."""
    samples: Sequence[str]
    """The ids of these samples, at most the first hundred."""
    agreement: float
    """The mean fraction of decisions per sample that are equal."""
    agreement_limit: float | None
    """The least agreement that passes; None where none is asked for."""


@dataclass(frozen=True)
class Limit:
    """The worst score that passes, and where the figure comes from."""

    value: float
    source: str


@dataclass(frozen=True)
class Score:
    """One metric after each stage."""

    metric: str
    better: Literal["higher", "lower"]
    """Which way the metric is better. higher: it is a fraction from 0 to 1, shown in percent; lower: it is an error,
    shown as a number."""
    framework: float | None
    """None for a model that is served as it was found, as is `converted`."""
    converted: float | None
    served: float
    limits: Sequence[Limit]
    passed: bool


@dataclass(frozen=True)
class OutputDifference:
    """How far an output of the served model is from that of the same file in process, on all samples.

    Where integer outputs differ, the other outputs of the same row are not compared: a duration rounded up moves all
    that follows it.
    """

    output: str
    """The output's name."""
    kind: Literal["error", "differing"]
    """What `largest` and `mean` are. error: absolute differences of floating-point numbers as a share of the largest, and
    of the mean absolute value in process; differing: the fraction of integers that are not equal, of the worst row and
    of all."""
    largest: float
    largest_limit: float
    mean: float
    mean_limit: float
    sample: str
    """The id of the row with the largest difference; empty where nothing differs."""
    expected: float
    """What the model gave in process at the place of the largest difference."""
    given: float
    """What the server answered there."""
    source: str
    """Where the limits come from, in words."""


@dataclass(frozen=True)
class SameAnswers:
    """Whether a sample gets the same answer however it is sent: alone, among others, at any place of a batch, with many
    requests in flight."""

    samples: int
    """How many samples were sent in every way."""
    answers: int
    """How many answers were compared, of all samples and ways."""
    relative_difference: float | None
    """The largest difference between an answer and the first to the same sample, over the largest absolute value of the
    output; of all floating-point outputs. None where the model has none, or where an answer was no number."""
    agreement: float
    """The least share of equal elements between an integer output of an answer and of the first to the same sample."""
    passed: bool
    """Whether both are within the case's tolerance."""
    sample: str = ""
    """The id of the sample whose answers differ most; empty where none do."""


@dataclass(frozen=True)
class Accuracy:
    """The ledger: the task's metrics after each stage, on the same samples."""

    scores: Sequence[Score]
    """The scores of every metric; tables show the first."""
    samples: int
    disagreements: Sequence[Disagreement]
    requests: int
    """How many requests carried the samples, of mixed batch sizes and with many in flight."""
    passed: bool
    same_answers: SameAnswers | None = None
    """Whether a sample gets the same answer however it is sent; None in records that do not say."""
    origin: Origin | None = None
    """Where it comes from; None in records from before."""
    outputs: Sequence[OutputDifference] = ()
    """How far each output of the served model is from the converted one's in process; empty in records from before."""


@dataclass(frozen=True)
class AnswerGate:
    """What a gate that needs no ground truth found of a case's answers."""

    gate: Name
    """Which gate, one of GATES."""
    requests: int
    """How many requests it sent."""
    tried: str
    """What was tried, in words: ways, batch sizes, faults."""
    wrong: str = ""
    """The first thing that was wrong, as a sentence; empty where the gate passed."""
    same: SameAnswers | None = None
    """How far answers to one sample were apart; None of a gate that compares none."""
    origin: Origin | None = None
    """Where it comes from."""


@dataclass(frozen=True)
class Mark:
    """Why a number is to be read with care."""

    code: Name
    """The kind of mark, one of MARKS."""
    text: str


@dataclass(frozen=True)
class Pass:
    """One run of the load generator; every estimate is made from several."""

    requests: int
    duration_s: NotNegative
    throughput_per_s: Positive
    """Inferences per second."""
    latency_ms: Mapping[str, Positive]
    """The latencies of its requests by name: avg, p50, p90, p95 and p99."""


@dataclass(frozen=True)
class CpuUse:
    """Mean number of this machine's cores that were busy while a point was measured."""

    cores: int
    """How many cores the measurement may use."""
    load_generator: float
    server: float | None
    """Cores that the server kept busy; None for a server whose processes are not below this one's."""
    others: float
    """Cores that all else kept busy; the server too where its own share is not known."""
    stolen: float
    """Cores that the host of a virtual machine took."""


@dataclass(frozen=True)
class GpuUse:
    """What NVML says of the GPU while a point was under load; None for what this GPU does not tell."""

    utilisation: float | None
    """The fraction of the time in which a kernel ran; NVML averages it over a sixth of a second to a second."""
    memory_mib: float | None
    """The most memory that all processes together used."""
    power_w: float | None
    """The mean power of the whole GPU."""
    energy_j_per_1000: float | None
    """The energy of 1,000 inferences: the mean power of the whole GPU over the throughput."""
    sm_clock_mhz: float | None
    """The mean clock of the streaming multiprocessors."""
    energy_from: Literal["counter", "power"] | None = None
    """What the energy was read from. counter: the GPU's energy counter; power: its sampled power, where it has no
    counter."""


@dataclass(frozen=True)
class Comparison:
    """The speed of a point beside that of another build."""

    reference: str
    """What it was compared with: a commit, or a folder."""
    method: Literal["interleaved", "records"]
    """interleaved: both were served and measured in turns; records: the other was measured at another time."""
    ratio: Estimate
    """Speed over the reference's: throughput, or at a given request rate the inverse of the mean latency."""
    allowed_slowdown: Share
    """The slow-down that passes, as a fraction: 0.03 lets the ratio be 0.97."""
    verdict: SpeedWord
    """slower: the whole interval lies below what is allowed, and that is shown among all points of the run; not slower:
    the whole lies above; not shown: neither."""
    passes: int
    """How many passes of each build the ratio is of."""
    seconds_to_settle: float | None
    """Estimated measuring time, beyond what was spent, until the verdict is settled; None where it is."""
    chance: float | None = None
    """The chance of so slow a build, or a slower one, where it is just as slow as allowed, over all looks at this point;
    None in records from before, whose verdict is the interval's."""
    points: int = 1
    """How many load points the run compared: `slower` is said so that any of them is a false alarm in at most one of a
    hundred runs."""


@dataclass(frozen=True)
class CertifiedPercentile:
    """What can be signed of a percentile of the latencies: the bound by MLPerf LoadGen's early stopping, which counts
    requests as independent of each other."""

    value_ms: float
    """The percentile of the requests that were measured."""
    bound_ms: float | None
    """What the percentile is at most, with the given confidence; None of too few requests."""
    requests: int
    """How many requests it is of."""
    requests_missing: int
    """How many more it takes until there is a bound; 0 where there is one."""
    confidence: Share = 0.99


@dataclass(frozen=True)
class WrongAnswer:
    """An answer under load that is not the one of the converted model in process to the same sample."""

    sample: str
    """The id of the sample."""
    output: str
    """The output, with the place of the element that differs most: `OUTPUT__0[3]`."""
    expected: str
    """That element as the converted model in process gives it; a text, as it need not be finite."""
    given: str
    """That element as the server gave it."""


@dataclass(frozen=True)
class VerifiedAnswers:
    """What was found of a load point's answers: requests of the same batch, as many in flight, on the same data, were
    sent between its passes, and every answer was compared with the converted model's in process."""

    verified: int
    """How many answers were compared: each row of a batch is one."""
    wrong: int
    """How many of them were wrong."""
    requests: int
    """How many requests they came in."""
    duration_s: float
    """Seconds that this took, between the passes: no throughput is of this time."""
    first_wrong: WrongAnswer | None = None
    """The first wrong answer; None where there was none."""
    held_to: Literal["in process", "alone"] = "in process"
    """What they were compared with. in process: the converted model's answers in process; alone: the server's own to the same
    samples, one request at a time."""


@dataclass(frozen=True)
class ComposingModel:
    """What a model that another calls did in that one's requests, by the server's statistics."""

    model: str
    calls: float
    """How often it was called in a request, on the mean."""
    queue_ms: float
    """The mean time in its queue in a request."""
    compute_ms: float
    """The mean time that it computed in a request, with taking its inputs and giving its outputs."""


@dataclass(frozen=True)
class Conversation:
    """What a model that is not asked by single requests, each with one answer, said to the same messages again."""

    kind: Literal["decoupled", "sequence"]
    """decoupled: any number of answers to a request; sequence: requests that belong together."""
    requests: int
    """How many requests were sent each time."""
    answers: int
    """How many answers came the first time."""
    difference: str
    """The first difference of the second time from the first, in words; empty where there was none."""
    passed: bool
    origin: Origin | None = None
    """Where it comes from."""


@dataclass(frozen=True)
class LatencyBudget:
    """The most that a latency of a load point may be, as its user has it, and what the measurement says of it."""

    percentile: Name
    """Which latency the budget is for: p99."""
    budget_ms: Positive
    source: str
    """Where the budget comes from, in words."""
    verdict: Verdict
    """passed: the whole interval of the latency keeps the budget; failed: the whole lies beyond; not shown: neither."""


@dataclass(frozen=True)
class BesideModel:
    """A load point while another model on the same server was under load, beside the point alone; measured in turns."""

    other: str
    """The id of the other model's case."""
    concurrency: int
    """How many of the other's requests were kept in flight."""
    ratio: Estimate
    """The speed of this point beside the other, over that alone: below 1 the other slows it."""
    p99_ms: Estimate
    """The p99 latency beside the other."""
    p99_alone_ms: Estimate
    """The p99 latency alone, in the same turns."""
    pairs: int
    """How many pairs of passes were measured."""
    answers: VerifiedAnswers | None = None
    """What was found of the answers while the other was under load; None where none was looked at."""


@dataclass(frozen=True)
class Load:
    """One load point: throughput and latency with their intervals, and where the time went."""

    scenario: Name
    """offline (static batching, one request in flight) or online (dynamic batching, batch 1)."""
    batch: Counted
    concurrency: int
    """Requests in flight; 0 where they are sent at a rate."""
    throughput_per_s: Estimate
    """Inferences per second: requests times batch."""
    latency_ms: Mapping[str, Estimate]
    """The latencies of requests by name: avg, p50, p90, p95 and p99. At a request rate they count from the time that
    the schedule says, not from the sending."""
    components_ms: Mapping[str, float]
    """The mean time per request in each of COMPONENTS."""
    passes: Sequence[Pass]
    requests: int
    duration_s: NotNegative
    warm_up_s: NotNegative
    """Seconds under load until the latencies were stationary; they are no part of the measurement."""
    request_rate_per_s: Positive | None = None
    """Requests per second, where they are sent by a schedule (open loop)."""
    arrivals: Literal["constant", "poisson"] | None = None
    slip_ms: float | None = None
    """The 99th percentile of how much later than scheduled a request was sent; None where none is scheduled."""
    cpu: CpuUse | None = None
    gpu: GpuUse | None = None
    comparison: Comparison | None = None
    marks: Sequence[Mark] = ()
    """What a reader should know about this point."""
    certified: Mapping[str, CertifiedPercentile] = field(default_factory=dict)
    """What can be signed of the latencies, by the percentile's name: p99 and p99.9. Empty in records from before."""
    samples: int | None = None
    """How many different samples the requests were made of; None in records that do not say."""
    answers: VerifiedAnswers | None = None
    """What was found of the answers; None where none was looked at, and in records from before."""
    repeated_speed: Estimate | None = None
    """The speed of one sample repeated over that of requests that were never sent before, measured in turns at the
    fastest point of a scenario; None at others, where requests take long, and in records from before."""
    composing: Sequence[ComposingModel] = ()
    """What the models that this one calls did in its requests; empty where it calls none, and in records from before."""
    origin: Origin | None = None
    """Where it comes from; None in records from before."""
    budget: LatencyBudget | None = None
    """What its latency is held to; None where no budget was given, and in records from before."""
    beside: Sequence[BesideModel] = ()
    """The point beside other models under load on the same server; empty where none was, and in records from before."""


@dataclass(frozen=True)
class Start:
    """What it took until the first answer."""

    scenario: Name
    server_s: float | None
    """Seconds from the server's start until it was ready, without a model; None for a server that ran already."""
    load_s: float
    """Seconds that loading the model took, with the server's own warm-up requests."""
    first_request_ms: float
    origin: Origin | None = None
    """Where it comes from; None in records from before."""


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
    """None where it is not the case's best point of all, where the reference format is not proven, and in records from
    before."""
    origin: Origin | None = None
    """Where it comes from; None in records from before."""


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
    """Where it comes from; None in records from before."""
    goodput_per_s: Estimate | None = None
    """Answers per second that came within the budget, counted from when their requests were due; None where throughput
    was searched."""
    rates: int | None = None
    """How many request rates were measured, over all configurations; None where throughput was searched. The rate that
    was found, and how its requests arrived, are the load's."""


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


@dataclass(frozen=True)
class ServerEnd:
    """A server that ended by itself while it served the case: it crashed, or memory ran out."""

    stage: Name
    """The stage whose test met it: online, accuracy."""
    how: str
    """By which signal or with which status: `was ended by SIGSEGV`."""
    log: Sequence[str] = ()
    """The last lines of its log."""
    origin: Origin | None = None
    """Where it comes from."""


@dataclass(frozen=True)
class MachinePart:
    """What one machine's record said besides its measurements, where several machines measured parts of a case."""

    host: str
    gpu_uuids: Sequence[str]
    serving: Serving | None
    build: Artifact
    accuracy_missing: str | None
    price_per_hour: float | None
    updated: str
    stage_seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """All that is known of one case on one machine."""

    case: Case
    machine: Machine
    serving: Serving | None
    """The server that answered; None until the case has been served."""
    deployment: Deployment
    build: Artifact
    conversion: Parity | None = None
    accuracy: Accuracy | None = None
    accuracy_missing: str | None = None
    """Why the task's metric was not measured; the ledger then holds what the framework's outputs alone tell."""
    gates: Sequence[AnswerGate] = ()
    """What the gates that need no ground truth found, in the order of their names; empty in records from before."""
    starts: Sequence[Start] = ()
    loads: Annotated[Sequence[Load], MOST_LOADS] = field(default_factory=tuple)
    efficiency: Sequence[Efficiency] = ()
    """What serving costs at the best load point of each scenario; of a micro model at the best of all."""
    search: Search | None = None
    conversation: Conversation | None = None
    """What is proven of a model that is not asked by single requests; None of all others."""
    soak: Soak | None = None
    """The load point that was under load for a long time; None where none was, and in records from before."""
    server_ends: Sequence[ServerEnd] = ()
    """Which stages of the case a server did not outlive, each until a run gets through it; empty in records from before."""
    price_per_hour: float | None = None
    """What an hour of the machine costs, in any currency."""
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds that a test of each stage took, the mean of the stage's tests in the run that measured it last; starting the
    server is in it, converting the model (`build.build_time_s`) is not. Empty in records from before."""
    updated: str = ""
    """The time of the last change in UTC, ISO 8601."""
    parts: Sequence[MachinePart] = ()
    """What the record of each machine said where records of several were joined and differed in it; else empty."""
    schema: int = SCHEMA


class LoadSetting(Protocol):
    """What tells a load point from others of its case: a Load has it, and a point whose figures are hidden."""

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


def case_id(case: Case) -> str:
    """The case's name everywhere: test id, folder, record file and table row."""
    several = f"{case.gpus}gpus" if case.gpus > 1 else None
    parts = (case.target, case.model, case.format, case.accelerator, case.precision, several)
    return "-".join(part for part in parts if part)


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


def verdict_of(one: Comparison | Search) -> Verdict:
    """Whether a build is not slower than the other, or a configuration keeps its budget."""
    return _VERDICTS[one.verdict]


def soak_verdict(soak: Soak) -> Verdict:
    """Whether a soak found a leak. Of loadings it need not show that there is none: a slow server has too few of them."""
    if any(one.verdict == "failed" for one in soak.growth):
        return "failed"
    of_requests = {one.verdict for one in soak.growth if one.per == "request"}
    return "passed" if of_requests == {"passed"} else "not shown"


def within_limits(one: OutputDifference) -> bool:
    """Whether an output is as near to that in process as it has to be, on the mean and where it is the farthest off."""
    return one.largest <= one.largest_limit and one.mean <= one.mean_limit


def meets(better: str, score: float, limit: float) -> bool:
    """Whether a score is no worse than a limit."""
    return score >= limit if better == "higher" else score <= limit
