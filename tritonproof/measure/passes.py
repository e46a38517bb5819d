"""One pass of the load generator, `run_pass(job, window_s)`: its job, its length, and its steady part.

`perf_analyzer.run_pass` is the real one. All that measures speed only decides when to take another pass, so a
function that invents passes suffices to test it without a server.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tritonproof.accuracy.answer_comparison import ExpectedAnswers
from tritonproof.client.requests import ServedModel, SharedMemory
from tritonproof.host.processor_use import CpuTime, GpuStretch
from tritonproof.record.correctness import AnswerComparison
from tritonproof.record.speed import LoadPoint

WINDOWS = 3
"""Windows of a pass, perf_analyzer's least number: it judges stability over three."""
MIN_WARM_UP_WINDOW_S = 0.06
"""The shortest window of a warm-up, in seconds. perf_analyzer kept to windows of 0.05 s and more."""
MIN_PASS_WINDOW_S = 0.12
"""The shortest window of a pass, in seconds: in a pass's first 0.2 s a server was 4 % slower than later."""
START_S = 0.1
"""Seconds that a pass takes beyond its windows; starting perf_analyzer alone takes about 0.06."""
LATENCIES_PER_WINDOW = 2.2
"""perf_analyzer refuses a window in which no request both starts and ends; a window of two latencies always
holds one. The three windows of a pass are long enough to cut off start-up and tail."""
_DUE_PER_PASS = 20
"""The fewest requests due in a pass at a rate: 15 without its first quarter, which does not count."""
SLOW_REQUEST_S = 1.0
"""A request that takes longer is slow: a pass of slow ones exceeds twice the default point budget, 3 s."""


@dataclass(frozen=True)
class LoadJob:
    """The load generator's task at a load point, but for the length of a pass."""

    served: ServedModel
    point: LoadPoint
    shared_memory: SharedMemory
    request_s: float = 0.0
    """Seconds of one request on an idle server; 0 if unknown."""
    expected_answers: ExpectedAnswers | None = None
    """The expected answers; None to verify none, as of a baseline, whose answers may differ."""
    output_bytes: Sequence[int] = ()
    """The bytes of each sample's largest output of no fixed size, 0 without one, by which the memory for
    outputs is sized; empty if unknown."""

    def __str__(self) -> str:
        return f"{self.served.name}, {self.point}"


@dataclass(frozen=True)
class SteadyPart:
    """A pass without its start-up and tail: the part by which speed is measured."""

    completed: float
    """Completed requests; in a closed loop by Little's law, so mostly no whole number."""
    duration_s: float
    latencies_ms: np.ndarray
    """Latencies of requests sent after the start-up, [requests]; in an open loop from when each was due."""
    slips_ms: np.ndarray | None = None
    """Open loop: how much later than due each request of `latencies_ms` was sent, [requests]."""
    due: int | None = None
    """Open loop: how many requests were due while the completed ones were answered."""


@dataclass(frozen=True)
class Pass:
    """One pass of the load generator: its steady part, its length, and what was read meanwhile."""

    steady: SteadyPart
    all_latencies_ms: np.ndarray
    """Latencies of all requests, the start-up's too, from when each was sent, in order of the answers."""
    under_load_s: float
    """Seconds from the first request to the last answer."""
    components_us: Mapping[str, float]
    """The mean microseconds of a request in each of tritonproof.record.speed.COMPONENTS."""
    cpu: CpuTime
    gpu: GpuStretch | None
    """What the server's GPU did during the windows; None if unknown."""
    elapsed_s: float
    """Seconds that the pass took, including the start of the load generator and reading its files."""
    window_s: float
    """Seconds of each window, more than asked for if no request ended in one of an earlier attempt."""
    failed_attempts: tuple[str, ...] = ()
    """Why each earlier attempt did not count."""
    answers_under_load: AnswerComparison | None = None
    """The comparison of answers that were sent after the pass, if any were."""
    counts_by_model: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By model, the caller and each that it calls: its requests, ns in its queue and ns of computing."""


RunPass = Callable[[LoadJob, float], Pass]
"""`run_pass(job, window_s)`: one pass, of windows of `window_s` seconds. Raises ProofError if it fails."""


def least_window_s(point: LoadPoint) -> float:
    """The seconds of the shortest window of a pass that counts. At a request rate it holds several requests,
    because a queue takes longer to become stationary."""
    if not point.is_at_rate:
        return MIN_PASS_WINDOW_S
    return max(2 * MIN_PASS_WINDOW_S, _DUE_PER_PASS / point.level / WINDOWS)


def warm_up_window_s(point: LoadPoint, request_s: float) -> float:
    """The seconds of a window of a warm-up pass, for requests of `request_s` seconds; 0 if unknown."""
    least_s = least_window_s(point) if point.is_at_rate else MIN_WARM_UP_WINDOW_S
    return max(least_s, LATENCIES_PER_WINDOW * request_s)


def pass_window_s(point: LoadPoint, latency_s: float, total_s: float = 0.0, most_passes: int = 1) -> float:
    """The seconds of a window of a pass that counts: at least several latencies, and long enough that
    `total_s`, such as the point's budget, does not hold more than `most_passes`."""
    share_s = (total_s / most_passes - START_S) / WINDOWS
    return max(least_window_s(point), share_s, LATENCIES_PER_WINDOW * latency_s)


def cut_closed_loop(
    starts_ns: np.ndarray, ends_ns: np.ndarray, windows_ns: tuple[int, int], concurrency: int
) -> SteadyPart:
    """The steady part of a pass with these starts and ends of requests, [requests] each, `concurrency` of
    them in flight at any time: the next one starts when one ends. `windows_ns` are the open and the close of
    all windows, between which the generator kept to its load, and recorded each request that ended.

    The steady part begins when every client has its first answer: the first requests met an empty server.
    It ends one longest latency before the close, so that requests in flight at the close, which are not in
    the record, lie outside. If a pass is too short to cut, all of it counts.

    Completed requests are, by Little's law, the time spent in flight over the mean latency. With long
    requests, or ones that end in groups, this has less noise than counting ends. If some are much longer than
    others, it has less bias than counting the part of each inside, as the end depends on the longest.

    The latencies are those of each client's requests, from its second on, that were sent before the end. When
    a request is sent depends only on the requests before it, so its own latency does not decide whether it
    counts (Wald's identity). Whether it ends in time does depend on its latency: the close falls into long
    requests more often than into short ones, and a percentile of those that ended would be too low.
    """
    (opened_ns, closed_ns), latencies_ns = windows_ns, ends_ns - starts_ns
    order = np.argsort(starts_ns, kind="stable")
    first_answers = ends_ns[order[:concurrency]]
    begin_ns = max(opened_ns, int(first_answers.max()))
    longest_ns = int(latencies_ns[ends_ns > begin_ns].max(initial=0))
    end_ns = closed_ns - longest_ns
    counted = np.ones(len(latencies_ns), bool)
    counted[order[:concurrency]] = False
    counted &= starts_ns <= end_ns
    if not counted.any() or end_ns - begin_ns < longest_ns:
        begin_ns, end_ns = int(starts_ns.min()), int(ends_ns.max())
        counted = np.ones(len(latencies_ns), bool)
    inside_ns = np.clip(np.minimum(ends_ns, end_ns) - np.maximum(starts_ns, begin_ns), 0, None)
    return SteadyPart(
        completed=float(inside_ns.sum() / latencies_ns[counted].mean()),
        duration_s=(end_ns - begin_ns) / 1e9,
        latencies_ms=latencies_ns[counted] / 1e6,
    )


def cut_open_loop(
    starts_ns: np.ndarray, ends_ns: np.ndarray, windows_ns: tuple[int, int], offsets_ns: np.ndarray
) -> SteadyPart:
    """The steady part of a scheduled pass with these starts and ends, [requests] each: `offsets_ns` says how
    long after the first each is due, ascending, [requests or more]. `windows_ns` is as in `cut_closed_loop`.

    Latencies count from when a request was due, so that a generator that waits for a slow server hides
    nothing (coordinated omission). No request is sent early: the schedule begins as late as that allows. If a
    request is in flight at the close, those that overtook it seem due earlier, and slower, than they were.

    The first quarter does not count: it met an empty server. Latencies count for requests due one longest
    latency before the close, since a slow one due later may not be in the record. The throughput is that of
    answers, which stays the server's own if the rate is too high for it.
    """
    opened_ns, closed_ns = windows_ns
    order = np.argsort(starts_ns, kind="stable")
    sent_ns, answered_ns = starts_ns[order], ends_ns[order]
    zero_ns = int((sent_ns - offsets_ns[: len(sent_ns)]).min())
    due_ns = offsets_ns[: len(sent_ns)] + zero_ns
    slips_ns = sent_ns - due_ns
    latencies_ns = answered_ns - due_ns
    begin_ns = max(opened_ns + (closed_ns - opened_ns) // 4, int(answered_ns.min()))
    counted = (due_ns >= begin_ns) & (due_ns <= closed_ns - int(latencies_ns.max()))
    if not counted.any():
        counted = np.ones(len(due_ns), bool)
    answered = int((answered_ns > begin_ns).sum())
    return SteadyPart(
        completed=float(max(answered, 1)),
        duration_s=max(closed_ns - begin_ns, 1) / 1e9,
        latencies_ms=latencies_ns[counted] / 1e6,
        slips_ms=slips_ns[counted] / 1e6,
        due=int(((offsets_ns > begin_ns - zero_ns) & (offsets_ns <= closed_ns - zero_ns)).sum()),
    )
