"""A load point: its throughput, its latencies, and what was found while it was under load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from reports.record.domains import Confidence, Counted, Name, NotNegative, Positive
from reports.record.schema._answers import VerifiedAnswers
from reports.record.schema._beside import Comparison
from reports.record.schema._cases import Origin
from reports.record.schema._estimates import Estimate, Verdict

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
    "suspended": "the machine was suspended meanwhile, and the pass that this fell into was repeated",
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
    confidence: Confidence = 0.99


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
    samples: Counted
    """How many different samples the requests were made of."""
    certified: Mapping[str, CertifiedPercentile]
    """What can be signed of the latencies, by the percentile's name: p99 and p99.9."""
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
    answers: VerifiedAnswers | None = None
    """What was found of the answers; None where none was looked at."""
    repeated_speed: Estimate | None = None
    """The speed of one sample repeated over that of requests that were never sent before, measured in turns at the
    fastest point of a scenario; None at others, and where requests take long."""
    composing: Sequence[ComposingModel] = ()
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
