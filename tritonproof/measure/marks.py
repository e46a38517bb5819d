"""Marks a measured load point with its bottleneck, and with what disturbed the measurement."""

from collections.abc import Mapping, Sequence

from tritonproof.host.processor_use import GpuStretch, count_strangers, throttle_reasons
from tritonproof.measure import estimates, point_state, stopping
from tritonproof.measure.passes import SteadyPart
from tritonproof.measure.point_state import PointState
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record.fields import Estimate
from tritonproof.record.quantities import DURATION, GIVEN_SHARE, HALF_WIDTH
from tritonproof.record.speed import MARKS, CpuUse, Mark, PointResult

# By Little's law a share of the latency is a share of the requests in flight. Of the 16 online points in the
# README's records, with 8 or 32 requests in flight on 2 cores, each spent 11 to 32 % of its latency in the
# queue and at most 17 % outside of the server.
_MAX_OUTSIDE = 0.5
"""If more latency is outside the server, most requests are there: three times those points' largest share."""
_MIN_QUEUED = 0.05
"""If a smaller share of the latency passes in the queue, it is almost empty: half of those points' least."""
_FULL_SHARE = 0.9
"""From this share of cores in use on, the machine is full; 92 % at most in README's records."""
_MAX_CLIENT = 0.25
"""The load generator's largest share of a full machine's cores. In README's records it is 16 % at most."""
_MAX_OTHERS = 0.1
"""The largest share of the cores for other programs: half as much again as the 7 % in README's records."""
_MAX_STOLEN = 0.05
"""The largest share of the cores that the host may keep for itself: as much as the default interval target,
so hardly more than noise. In the README's records it is 0."""
_MAX_SLIP = 0.1
"""How late requests may be sent, as a share of the median latency: later ones meet another queue than was
asked for. Latencies count from when a request was due, so they include the delay."""
_MAX_SLIP_MS = 1.0
"""Milliseconds by which requests may be sent late, however short the latency: chosen, not measured."""
_SHOWN = 120
"""Characters of the load generator's message that a mark shows."""


def marks_where(*possible: tuple[str, bool, str]) -> list[Mark]:
    """The marks of a point, from triples of a code, whether it applies, and a detail to add to the text."""
    return [
        Mark(code, f"{MARKS[code]}: {detail}" if detail else MARKS[code])
        for code, applies, detail in possible
        if applies
    ]


def mark_of_failed_attempts(failed_attempts: Sequence[str]) -> tuple[str, bool, str]:
    """For `marks_where`: the mark of failed attempts at passes, by the reason of each."""
    last = "".join(failed_attempts[-1:])
    return "damaged-passes", bool(failed_attempts), f"{len(failed_attempts)}, the last: {last[:_SHOWN]}"


def marks_of(
    state: PointState, result: PointResult, plan: MeasuringPlan, *, finished: bool
) -> tuple[Mark, ...]:
    """The marks of a measured point; `result` is its record's entry, still without marks."""
    # Triton sets the threads of a model's instances back to normal priority if it may (in its core, r24.10,
    # src/backend_model_instance.cc), and ONNX Runtime's workers, which stay low, starve: a niced run showed
    # 0.72 of the throughput in process.
    nice = max(one_pass.cpu.nice for one_pass in state.current.passes)
    is_spent = finished and stopping.is_spent(state.spent_s, len(state.current.passes), plan.point_budget_s)
    half_width = estimates.relative_half_width(point_state.main_estimate(state))
    is_wide, width = is_spent and half_width > plan.interval_target, HALF_WIDTH.text(half_width)
    of_what = " of the mean latency" if state.point.is_at_rate else ""
    target, spent = GIVEN_SHARE.text(plan.interval_target), DURATION.text(state.spent_s)
    marks = marks_where(
        ("unfinished", not finished, ""),
        mark_of_failed_attempts(state.current.failed_attempts),
        ("few-requests", result.requests < stopping.FEW_REQUESTS, f"{result.requests} in all"),
        ("niced", nice > 0, f"nice {nice}; Triton sets some of its own threads back to 0"),
        ("not-warm", not all(map(point_state.is_stationary, state.sides)), ""),
        ("wide-interval", is_wide, f"± {width}{of_what} in place of {target}, after {spent}"),
    )
    if result.cpu is not None:
        marks += marks_of_cpu(result.cpu, result.components_ms, result.point.concurrency)
    if result.slip_ms is not None:
        marks += marks_of_schedule(state.steady_parts, result.slip_ms, result.latency_ms["p50"])
    if "overloaded" in [mark.code for mark in marks]:  # then the server is the bottleneck
        marks = [mark for mark in marks if mark.code != "client-bound"]
    return (*marks, *marks_of_gpu([one_pass.gpu for one_pass in state.current.passes if one_pass.gpu]))


def marks_of_cpu(use: CpuUse, components_ms: Mapping[str, float], concurrency: int) -> list[Mark]:
    """Marks for a load generator or other programs that took cores from the server.

    The load generator is the bottleneck if several requests are in flight, yet none waits in the server's
    queue and most of their time passes outside of it; or if it takes a quarter of the cores, all busy.
    """
    total = sum(components_ms.values())
    queued = components_ms["server_queue"] / total
    inside = sum(value for name, value in components_ms.items() if name.startswith("server_")) / total
    waits = concurrency > 1 and queued < _MIN_QUEUED and 1 - inside > _MAX_OUTSIDE
    busy = use.load_generator + (use.server or 0.0) + use.others + use.stolen
    crowds = busy > _FULL_SHARE * use.cores and use.load_generator > _MAX_CLIENT * use.cores
    reason = f"all {use.cores} cores were busy, {use.load_generator:.2g} of them with the load generator"
    if waits:
        reason = f"{1 - inside:.0%} of the time passed outside of the server, whose queue was empty"
    is_shared = use.server is not None and use.others > _MAX_OTHERS * use.cores
    return marks_where(
        ("client-bound", waits or crowds, reason),
        ("cpu-shared", is_shared, f"{use.others:.2g} of {use.cores} cores"),
        ("cpu-stolen", use.stolen > _MAX_STOLEN * use.cores, f"{use.stolen:.2g} of {use.cores} cores"),
    )


def marks_of_schedule(parts: Sequence[SteadyPart], slip_ms: float, latency_ms: Estimate) -> list[Mark]:
    """Marks for a server that fell behind a schedule, and for a load generator that sent late."""
    due = sum(part.due or 0 for part in parts)
    answered = sum(part.completed for part in parts) / max(1, due)
    is_late = slip_ms > max(_MAX_SLIP_MS, _MAX_SLIP * latency_ms.value)
    return marks_where(
        ("overloaded", not estimates.keeps_up(parts), f"{answered:.0%} of it"),
        ("schedule-slipped", is_late, f"{slip_ms:.3g} ms at p99"),
    )


def marks_of_gpu(stretches: Sequence[GpuStretch]) -> list[Mark]:
    """Marks for a GPU that was throttled, or that other processes used."""
    readings = [reading for stretch in stretches for reading in stretch.readings]
    reasons, others = ", ".join(throttle_reasons(readings)), count_strangers(readings)
    return marks_where(("gpu-throttled", bool(reasons), reasons), ("gpu-shared", others > 0, str(others)))
