"""The candidates among which a search within a latency budget chooses, with their load points."""

import itertools
import math
from dataclasses import dataclass, field

from msgspec import structs

from tritonproof.base.errors import ProofError
from tritonproof.measure.passes import SteadyPart
from tritonproof.record.setup import ConfigVariant, Deployment, Scenario
from tritonproof.record.speed import Arrivals, LoadPoint
from tritonproof.spec import Device

MAX_IN_FLIGHT = 256
"""The most requests in flight for each GPU, as in the largest of the published tables."""
_BATCHES_IN_FLIGHT = 4
"""Full batches in flight for each instance: one is computed and one waits; beyond four they only wait."""
_MAX_INSTANCES = 4
"""The most instances: each holds a copy of the model."""
_DELAY_US, _MAX_DELAY_US = 100, 10_000
"""Microseconds that the server may wait for a batch to fill: a usual delay, and the longest that is tried."""
_RATE_RATIO = 1.025
"""The ratio of successive rates, above one by half of the interval target: a step is within an interval."""
_TOP_RATE_SHARE = 0.95
"""The highest rate, as a share of the capacity: there a pass already takes 6,400 requests (`steady_state_s`);
above, a pass takes more, and the capacity itself is not known more precisely."""
_RATES = 157
"""How many rates there are. The lowest is a fiftieth of the capacity: hardly a request in fifty waits."""
_RELAXATIONS = 16.0
"""Relaxation times of a pass. Its first quarter, which does not count, has four, after which a queue that
began empty has a p99 of 97 % of its final value (by the distribution of the maximum of a Brownian motion with
drift). Of 150 simulated searches 7 ended above the rate that just keeps the budget, by 6 % at most."""


@dataclass(frozen=True)
class SearchGoal:
    """The latency budget of a search."""

    latency_budget_ms: float
    """The most milliseconds that the percentile may take."""
    percentile: int
    """The percentile of the latencies that must keep the budget: 90, 95 or 99."""
    arrivals: Arrivals | None = None
    """How requests follow one another in a search for the highest request rate, where latencies count from
    when a request was due; None for the highest throughput of requests in flight."""

    @property
    def is_for_rate(self) -> bool:
        return self.arrivals is not None


@dataclass(frozen=True)
class SearchSpace:
    """What limits the candidates of a search: the model's own deployment, the machine and the user."""

    own_deployment: Deployment
    """The model's own deployment, which is always tried."""
    device: Device
    cores: int
    """CPU cores of the machine, which limit the number of instances on a CPU."""
    gpus: int = 1
    """The number of GPUs, each with the deployment's instances; 1 on a CPU."""
    fixed: frozenset[str] = frozenset()
    """The fields of the deployment that the user has set."""
    batches: tuple[int, ...] | None = None
    """The clients' batch sizes in place of all up to the largest; ignored if all of them are larger."""
    concurrencies: tuple[int, ...] | None = None
    """The numbers of requests in flight, in place of all; ignored at a rate, from which they follow."""
    own_scenario: Scenario | None = None
    """How a user's model batches with its own deployment, which the winner is compared with, at one sample in
    each request, since a config.pbtxt does not say what clients send. None for a model of the suite's own."""


@dataclass(frozen=True)
class Candidate:
    """A variant of the model's configuration with its possible load points, and what probes have shown so
    far. A candidate stays equal to itself when it is probed."""

    variant: ConfigVariant
    ladder: tuple[LoadPoint, ...]
    """The load points, from light to heavy. A rung is the index of a load point."""
    probes: tuple[tuple[int, SteadyPart], ...] = field(default=(), compare=False)
    """Short passes, each with its rung, in the order of time; no reported figure comes from them."""
    capacity_probe_count: int = field(default=0, compare=False)
    """The number of passes in a closed loop that have shown which rates to try."""
    error: ProofError | None = field(default=None, compare=False)
    """Why the candidate cannot be loaded or measured, or that it answers wrongly."""

    @property
    def label(self) -> str:
        scenario, deployment = self.variant
        text = f"{scenario}, instances {deployment.instances}"
        if not self.variant.joins_requests:
            return text
        preferred = " ".join(map(str, deployment.preferred_batch_sizes))
        return f"{text}, preferred {preferred or 'none'}, delay {deployment.max_queue_delay_us} µs"

    @property
    def sample_levels(self) -> list[float]:
        """The samples in flight at each point of the ladder, or its requests per second, ascending."""
        return [point.batch * point.level for point in self.ladder]


def numbers_up_to(most: int) -> list[int]:
    """Whole numbers up to `most`, from 8 on less than 13 % above the one before: 16, 18, ... 32, 36, ..."""
    numbers = list(range(1, 17))
    while numbers[-1] < most:
        numbers.append(numbers[-1] + 2 ** (numbers[-1].bit_length() - 4))
    return [*(number for number in numbers if number < most), most]


def ladder_of_rates(capacity_per_s: float, goal: SearchGoal) -> tuple[LoadPoint, ...]:
    """Rates of three digits, in equal logarithmic steps, up to almost this capacity."""
    rates = (_TOP_RATE_SHARE * capacity_per_s / _RATE_RATIO**step for step in reversed(range(_RATES)))
    return tuple(LoadPoint("online", 1, 0, float(f"{rate:.3g}"), goal.arrivals) for rate in rates)


def steady_state_s(candidate: Candidate, goal: SearchGoal) -> float:
    """The seconds until a queue is steady at the rate that just keeps the budget; 0 without rates.

    In heavy traffic, the queue of a server that is idle for the share s of the time and takes S seconds for a
    request is a Brownian motion reflected at zero. Waiting times fall off as exp(-2 s t / S), which gives the
    s at which the percentile is the budget; the relaxation time is about S / s² (Kingman 1961; Abate and
    Whitt 1987).
    """
    if not candidate.ladder[-1].is_at_rate:
        return 0.0
    request_s = _TOP_RATE_SHARE / candidate.sample_levels[-1]
    decay = math.log(100 / (100 - goal.percentile))
    idle = min(1.0, max(1 - _TOP_RATE_SHARE, decay * request_s / (2 * goal.latency_budget_ms / 1e3)))
    return _RELAXATIONS * request_s / idle**2


def instance_counts(space: SearchSpace) -> list[int]:
    """The numbers of instances to try: powers of two within the device's limit, and the model's own."""
    if "instances" in space.fixed:
        return [space.own_deployment.instances]
    limit = _MAX_INSTANCES if space.device == "cuda" else min(_MAX_INSTANCES, space.cores)
    return sorted({space.own_deployment.instances, *(count for count in (1, 2, 4) if count <= limit)})


def basic_candidates(space: SearchSpace, goal: SearchGoal) -> list[Candidate]:
    """The candidates of the first round: for each number of instances, static batching and a dynamic batcher
    that never waits; and the model's own deployment. With static batching there are as many clients as
    instances on all GPUs, or twice as many, so that the next batch is ready when one ends. At a request rate
    each request has one sample, so static batching does not apply."""
    candidates, own = [], space.own_deployment
    for count in instance_counts(space):
        deployment, total_instances = structs.replace(own, instances=count), count * space.gpus
        online = _online(space, goal, deployment, (), 0)
        ladders: list[list[LoadPoint]] = []
        if not goal.is_for_rate and space.own_scenario is None:
            fitting = [batch for batch in space.batches or () if batch <= own.max_batch_size]
            batches = fitting or numbers_up_to(own.max_batch_size)
            clients = total_instances, 2 * total_instances
            ladders = [[LoadPoint("offline", batch, count) for batch in batches] for count in clients]
        elif space.own_scenario is not None and own.max_batch_size > 1:
            ladders = [[LoadPoint("offline", 1, point.concurrency) for point in online.ladder]]
        candidates += [Candidate(ConfigVariant("offline", deployment), tuple(ladder)) for ladder in ladders]
        candidates.append(online)
    candidates.append(_online(space, goal, own, tuple(own.preferred_batch_sizes), own.max_queue_delay_us))
    return list(dict.fromkeys(candidates))


def variations(space: SearchSpace, goal: SearchGoal, instances: int) -> list[Candidate]:
    """Candidates with this number of instances whose dynamic batcher waits, for a usual delay or a quarter of
    the budget. As Triton prefers the largest batch anyway, none prefers that size alone."""
    largest = space.own_deployment.max_batch_size
    if largest == 1:
        return []
    deployment = structs.replace(space.own_deployment, instances=instances)
    quarter_us = min(_MAX_DELAY_US, round(goal.latency_budget_ms * 250))
    preferred: list[tuple[int, ...]] = [(), (largest // 2, largest)]
    waits = itertools.product((min(_DELAY_US, quarter_us), quarter_us), preferred)
    return list(dict.fromkeys(_online(space, goal, deployment, sizes, delay_us) for delay_us, sizes in waits))


def _online(
    space: SearchSpace, goal: SearchGoal, own: Deployment, preferred: tuple[int, ...], delay_us: int
) -> Candidate:
    waiting = {"preferred_batch_sizes": preferred, "max_queue_delay_us": delay_us}
    changes = {name: value for name, value in waiting.items() if name not in space.fixed}
    largest = min(MAX_IN_FLIGHT, _BATCHES_IN_FLIGHT * own.max_batch_size * own.instances)
    chosen = None if goal.is_for_rate else space.concurrencies
    concurrencies = chosen or numbers_up_to(largest * space.gpus)
    variant = ConfigVariant("online", structs.replace(own, **changes))
    return Candidate(variant, tuple(LoadPoint("online", 1, count) for count in concurrencies))
