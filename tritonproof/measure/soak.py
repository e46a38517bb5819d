"""Keeps a load point under load for a long time, then reloads the model repeatedly, and tells growth of what
the server uses from warm-up, an allocator's plateaus and noise.

The use is read between the passes, without requests in flight, so the figures include neither what serving
requests takes nor the load generator's shared memory.

Successive samples are not independent: at worst, memory is a random walk, of which only the steps are. So
after the warm-up the samples are cut into blocks, and the growth from each block's median to the next is one
observation. If nothing leaks, half of the observations are not above zero, however large single ones are, as
when an allocator takes a piece. The interval of their median comes from the sign test, which assumes nothing
about their distribution. A leak shows in nearly all of them.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from tritonproof.accuracy.answer_comparison import merge_comparisons
from tritonproof.measure import perf_analyzer, point_state
from tritonproof.measure.called_models import counts_by_model
from tritonproof.measure.passes import LoadJob, RunPass, pass_window_s, warm_up_window_s
from tritonproof.measure.usage import Usage
from tritonproof.measure.verifying import verifying
from tritonproof.ratios import unpaired_ratio
from tritonproof.record import RESOURCE_UNITS, Growth, Soak, correctness, speed
from tritonproof.record.fields import Ratio, Slope, Verdict
from tritonproof.record.quantities import DURATION
from tritonproof.spec import OnProgress

Per = Literal["request", "loading"]
_PASSES, _MAX_S = 120, 600.0
"""Passes of a soak of up to ten minutes: the second half has at least two for each step of the growth. A
longer soak has more passes, of 5 s each: the load generator's record of a pass is read as a whole."""
LOADINGS = 120
"""The most loadings of the model, if malloc has few heaps: loading a small model takes a second."""
_SHARE_OF_LOADINGS = 1 / 3
"""The most seconds of loading the model repeatedly, for each second of the soak."""
_PARTS_OF_A_QUARTER = 5
"""Parts of a quarter whose mean speeds are compared: successive passes share the machine's state."""


@dataclass(frozen=True)
class SoakedPoint:
    """What was measured at a load point that was under load for a long time."""

    used: Sequence[Usage]
    """What the server used after each pass."""
    requests: Sequence[float]
    """How many requests the server had answered after each pass."""
    speeds: Sequence[float]
    """The speed in each pass but the first."""
    answers_under_load: Sequence[correctness.AnswerComparison]
    failed_attempt_count: int
    """How many attempts at passes were repeated."""
    duration_s: float
    """Seconds from the first pass to the end of the last."""


def keep_under_load(
    job: LoadJob,
    duration_s: float,
    read: Callable[[], Usage],
    *,
    run_pass: RunPass = perf_analyzer.run_pass,
    on_progress: OnProgress = lambda _now: None,
) -> SoakedPoint:
    """Keep a load point under load for `duration_s` seconds, in passes, between which it reads the server's
    use and verifies answers; at least for as many passes as growth needs, however long these take.
    `on_progress` gets the time so far; the requests would tell the speed.
    """

    def answered() -> int:
        """How many requests of the model the server has answered since it was loaded."""
        return int(counts_by_model(job.served.server)[job.served.name][0])

    run_pass = verifying(run_pass)
    started = time.monotonic()
    before = answered()
    one_pass = run_pass(job, warm_up_window_s(job.point, job.request_s))
    used = [read()]
    requests = [float(answered() - before)]
    speeds = []
    answers = [one_pass.answers_under_load]
    failed_attempt_count = 0
    while time.monotonic() - started < duration_s or len(used) < MIN_SAMPLES["request"]:
        on_progress(f"{DURATION.text(time.monotonic() - started)} of {DURATION.text(duration_s)}")
        latency_s = point_state.pass_latency_s(one_pass)
        one_pass = run_pass(job, pass_window_s(job.point, latency_s, min(duration_s, _MAX_S), _PASSES))
        failed_attempt_count += len(one_pass.failed_attempts)
        speeds.append(point_state.speed(one_pass.steady, job.point))
        answers.append(one_pass.answers_under_load)
        requests.append(float(answered() - before))
        used.append(read())
    return SoakedPoint(
        used, requests, speeds, [*filter(None, answers)], failed_attempt_count, time.monotonic() - started
    )


def reload_repeatedly(
    reload: Callable[[], object],
    soak_s: float,
    read: Callable[[], Usage],
    *,
    most: int = LOADINGS,
    on_progress: OnProgress = lambda _now: None,
) -> list[Usage]:
    """What the server uses after each `reload` of the model, which also asks it once: `most` times, or as
    often as fits into a third of the time under load."""
    started = time.monotonic()
    used: list[Usage] = []
    while len(used) < most:
        elapsed_s = time.monotonic() - started
        if used and elapsed_s * (len(used) + 1) / len(used) > _SHARE_OF_LOADINGS * soak_s:
            break
        on_progress(f"load the model again, {len(used) + 1}")
        reload()
        used.append(read())
    return used


def soak_entry(
    point: speed.LoadPoint,
    under_load: SoakedPoint,
    loadings: Sequence[Usage],
    not_watched: Sequence[str] = (),
    heaps: int = 0,
) -> Soak:
    """The record's entry of a soak and of the loadings after it; `heaps` is as in `growths`."""
    growth = growths(under_load.used, under_load.requests, "request")
    answers, missing = under_load.answers_under_load, list(not_watched)
    samples = [*under_load.used, *loadings]
    for name in RESOURCE_UNITS:
        if 0 < (lacking := sum(name not in sample for sample in samples)) < len(samples):
            missing.append(f"{name} was not watched throughout: {lacking} of {len(samples)} readings lack it")
    if len(loadings) >= MIN_SAMPLES["loading"]:
        growth += growths(loadings, range(1, len(loadings) + 1), "loading", heaps)
    else:
        fit = f"only {len(loadings)} of {MIN_SAMPLES['loading']} fit into a third of the soak's time"
        missing.append(f"what a loading leaves behind was not watched: {fit}")
    return Soak(
        point=point,
        duration_s=round(under_load.duration_s, 3),
        requests=round(under_load.requests[-1]),
        pass_count=len(under_load.used),
        growth=growth,
        loadings=len(loadings),
        not_watched=tuple(missing),
        end_over_begin=end_over_begin(under_load.speeds),
        requests_per_s=under_load.requests[-1] / under_load.duration_s,
        answers_under_load=merge_comparisons(answers) if answers else None,
        failed_attempt_count=under_load.failed_attempt_count,
    )


def end_over_begin(speeds: Sequence[float]) -> Ratio | None:
    """The speed in the last quarter of the passes over that in the second, as the first is the warm-up; None
    if there are too few. The interval, from parts of each quarter, includes changes of the machine."""
    quarter = len(speeds) // 4
    if quarter < _PARTS_OF_A_QUARTER:
        return None
    begin, end = (
        [float(np.mean(part)) for part in np.array_split(np.array(quarter_speeds), _PARTS_OF_A_QUARTER)]
        for quarter_speeds in (speeds[quarter : 2 * quarter], speeds[-quarter:])
    )
    return unpaired_ratio(end, begin)


_CONFIDENCE = 0.99
"""The confidence of each interval. A soak has at most twelve figures: if all are random walks, one interval
lies above zero by chance in 6 of 100 soaks; far fewer exceed the least growth that counts as a leak."""
_STEPS = (20, 12, 8)
"""Numbers of steps to test: of twenty, three may be of any size. A leak in large pieces, as of a GPU's
memory, shows in nearly all of fewer, longer steps. With seven the sign test falls short of _CONFIDENCE."""
_WARM_UP: Mapping[Per, float] = {"request": 1 / 2, "loading": 1 / 3}
"""The share of the samples at the beginning that does not count. A server under load touches new memory for
minutes; repeated loading has touched all of it after a few times."""
MIN_SAMPLES: Mapping[Per, int] = {
    per: math.ceil((min(_STEPS) + 1) / (1 - share)) for per, share in _WARM_UP.items()
}
"""The fewest samples of which the part that counts has one for each block."""


@dataclass(frozen=True)
class _Limits:
    """Which growth of a resource is a leak, in bytes or numbers (docs/soak.md)."""

    least: float
    """The growth per request or loading from which it is a leak. For bytes it is 1/8 of `must_find` per
    request, and 1/4 per loading."""
    must_find: float
    """The leak that a soak must find, in the same unit; a figure passes only if shown to be less."""
    least_in_all: float = math.inf
    """A growth over all counted requests that is a leak too, even below `least` for each. A server of 24.10
    that leaks nothing grew by half a byte a request, 50 KiB, in half a minute at 2,900 requests a second."""


_LIMITS: Mapping[tuple[str, Per], _Limits] = {
    ("bytes", "request"): _Limits(128.0, 1024.0, 4.0 * 2**20),
    ("number", "request"): _Limits(0.01, 0.01, 4.0),
    ("bytes", "loading"): _Limits(2.0**20, 4.0 * 2**20),
    ("number", "loading"): _Limits(0.5, 0.5),
}
"""Of open files and threads, a growth by one in a hundred requests, or in two loadings, is a leak."""
ARENAS_OF_A_CPU = 8
"""The most heaps of glibc's malloc for each CPU (mallopt(3), M_ARENA_MAX, on 64 bits). Each loading runs in a
new thread, in another heap, which keeps its memory: on two CPUs the server of 24.10 grew by 12 MiB with each
of 20 loadings of an ONNX model of 1.6 MiB, and then no more."""
_LASTING = 0.5
"""The share of a leak that must last to the end: what a collector frees grows in most steps too."""


def growths(used: Sequence[Usage], counts: Sequence[float], per: Per, heaps: int = 0) -> tuple[Growth, ...]:
    """The growth of each figure that is in every sample of `used`, in the order of time; `counts` has the
    requests or loadings before each. Needs MIN_SAMPLES[per] samples. In the first `heaps` samples, each of
    which may be another heap's, no growth of memory counts as a leak."""
    return tuple(
        _growth(name, per, np.array([sample[name] for sample in used]), np.array(counts), heaps)
        for name in RESOURCE_UNITS
        if all(name in sample for sample in used)
    )


def _growth(name: str, per: Per, used: np.ndarray, counts: np.ndarray, heaps: int) -> Growth:
    unit, begin = RESOURCE_UNITS[name], int(len(used) * _WARM_UP[per])
    heaps = heaps if name in speed.PROCESS_MEMORY else 0
    are_too_few = len(used) - heaps <= min(_STEPS)
    begin = begin if are_too_few else max(begin, heaps)
    counted = int(counts[-1] - counts[begin])
    limits = _LIMITS[unit, per]
    least = min(limits.least, limits.least_in_all / max(1, counted))
    looks = [_slope(used[begin:], counts[begin:], steps) for steps in _STEPS]
    leaking = [slope for slope, lasting in looks if slope.low > least and lasting > _LASTING * slope.low]
    slope = leaking[0] if leaking else looks[0][0]
    verdict: Verdict = "inconclusive"
    if leaking and not are_too_few:
        verdict = "failed"
    elif not leaking and slope.high < limits.must_find:
        verdict = "passed"
    return Growth(name, unit, per, slope, float(used[0]), float(used[-1]), counted, verdict)


def _slope(used: np.ndarray, counts: np.ndarray, steps: int) -> tuple[Slope, float]:
    """The growth for each request or loading, with its interval; and from the first third to the last."""
    from scipy import stats

    blocks = np.array_split(np.arange(len(used)), min(steps + 1, len(used)))
    levels = np.array([median(used[block].tolist()) for block in blocks])
    when = np.array([counts[block].mean() for block in blocks])
    grown = np.sort(np.diff(levels) / np.diff(when))
    # How many ordered figures lie outside of the interval of their median, at each end.
    outside = max(0, int(stats.binom.ppf((1 - _CONFIDENCE) / 2, len(grown), 0.5)) - 1)
    third = len(blocks) // 3
    first, last = slice(None, third), slice(-third, None)
    lasting = (np.median(levels[last]) - np.median(levels[first])) / (when[last].mean() - when[first].mean())
    slope = Slope(float(np.median(grown)), float(grown[outside]), float(grown[-1 - outside]), _CONFIDENCE)
    return slope, float(lasting)
