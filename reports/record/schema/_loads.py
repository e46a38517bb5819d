"""A load point: its throughput, its latencies, and what was found while it was under load."""

from typing import Literal, Protocol

from reports.record.schema._answers import VerifiedAnswers
from reports.record.schema._base import (
    ByName,
    Confidence,
    Count,
    Counted,
    Estimate,
    Name,
    NotNegative,
    Number,
    Positive,
    Scenario,
    Share,
    SpeedWord,
    Struct,
    Text,
    Verdict,
)
from reports.record.schema._cases import Origin

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


class Mark(Struct, frozen=True):
    """Why a number is to be read with care."""

    code: Name
    """The kind of mark, one of MARKS."""
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
    """Cores that the server kept busy; None for a server whose processes are not below this one's."""
    others: Number
    """Cores that all else kept busy; the server too where its own share is not known."""
    stolen: Number
    """Cores that the host of a virtual machine took."""


class GpuUse(Struct, frozen=True):
    """What NVML says of the GPU while a point was under load; None for what this GPU does not tell."""

    utilisation: Number | None
    """The fraction of the time in which a kernel ran; NVML averages it over a sixth of a second to a second."""
    memory_mib: Number | None
    """The most memory that all processes together used."""
    power_w: Number | None
    """The mean power of the whole GPU."""
    energy_j_per_1000: Number | None
    """The energy of 1,000 inferences: the mean power of the whole GPU over the throughput."""
    sm_clock_mhz: Number | None
    """The mean clock of the streaming multiprocessors."""
    energy_from: Literal["counter", "power"] | None = None
    """What the energy was read from. counter: the GPU's energy counter; power: its sampled power, where it has no
    counter."""


class CertifiedPercentile(Struct, frozen=True):
    """What can be signed of a percentile of the latencies: the bound by MLPerf LoadGen's early stopping, which counts
    requests as independent of each other."""

    value_ms: Number
    """The percentile of the requests that were measured."""
    bound_ms: Number | None
    """What the percentile is at most, with the given confidence; None of too few requests."""
    requests: Count
    """How many requests it is of."""
    requests_missing: Count
    """How many more it takes until there is a bound; 0 where there is one."""
    confidence: Confidence = 0.99


class ComposingModel(Struct, frozen=True):
    """What a model that another calls did in that one's requests, by the server's statistics."""

    model: Text
    calls: Number
    """How often it was called in a request, on the mean."""
    queue_ms: Number
    """The mean time in its queue in a request."""
    compute_ms: Number
    """The mean time that it computed in a request, with taking its inputs and giving its outputs."""


class Comparison(Struct, frozen=True):
    """The speed of a point beside that of another build."""

    reference: Text
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
    passes: Count
    """How many passes of each build the ratio is of."""
    seconds_to_settle: Number | None
    """Estimated measuring time, beyond what was spent, until the verdict is settled; None where it is."""
    chance: Share
    """The chance of so slow a build, or a slower one, where it is just as slow as allowed, over all looks at this point."""
    points: Counted
    """How many load points the run compared: `slower` is said so that any of them is a false alarm in at most one of a
    hundred runs."""


class LatencyBudget(Struct, frozen=True):
    """The most that a latency of a load point may be, as its user has it, and what the measurement says of it."""

    percentile: Name
    """Which latency the budget is for: p99."""
    budget_ms: Positive
    source: Text
    """Where the budget comes from, in words."""
    verdict: Verdict
    """passed: the whole interval of the latency keeps the budget; failed: the whole lies beyond; not shown: neither."""


class Load(Struct, frozen=True):
    """One load point: throughput and latency with their intervals, and where the time went."""

    scenario: Scenario
    batch: Counted
    concurrency: Count
    """Requests in flight; 0 where they are sent at a rate."""
    throughput_per_s: Estimate
    """Inferences per second: requests times batch."""
    latency_ms: ByName[Estimate]
    """The latencies of requests by name: avg, p50, p90, p95 and p99. At a request rate they count from the time that
    the schedule says, not from the sending."""
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
    """The 99th percentile of how much later than scheduled a request was sent; None where none is scheduled."""
    cpu: CpuUse | None = None
    gpu: GpuUse | None = None
    comparison: Comparison | None = None
    marks: tuple[Mark, ...] = ()
    """What a reader should know about this point."""
    answers: VerifiedAnswers | None = None
    """What was found of the answers; None where none was looked at."""
    repeated_speed: Estimate | None = None
    """The speed of one sample repeated over that of requests that were never sent before, measured in turns at the
    fastest point of a scenario; None at others, and where requests take long."""
    composing: tuple[ComposingModel, ...] = ()
    """What the models that this one calls did in its requests; empty where it calls none."""
    origin: Origin | None = None
    """Where it comes from; the recorder adds it."""
    budget: LatencyBudget | None = None
    """What its latency is held to; None where no budget was given."""


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
