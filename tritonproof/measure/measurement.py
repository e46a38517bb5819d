"""Makes the record's entry of a measured load point: estimates, passes, components; and marks for what was
the bottleneck, and for what disturbed the measurement."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from tritonproof.base.errors import ProofError
from tritonproof.host import activity, machine
from tritonproof.host.activity import CpuTime, GpuTime
from tritonproof.measure import comparison, estimates, point_state, stopping
from tritonproof.measure.estimates import SteadyPass
from tritonproof.measure.job import PassResult
from tritonproof.measure.point_state import PointState
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record import schema
from tritonproof.record.quantities import DURATION, GIVEN_SHARE, HALF_WIDTH
from tritonproof.record.schema import (
    CpuUse,
    Estimate,
    GpuUse,
    LoadPoint,
    LoadResult,
    Mark,
    Pass,
    VerifiedAnswers,
)


@dataclass(frozen=True)
class Measurement:
    """The result of a load point: the record's entry, and every latency from which it was computed."""

    load: LoadResult
    latencies_s: Sequence[float]
    """Seconds of every request that counts, [requests]."""


Outcome = Measurement | ProofError
"""A point's measurement, or why there is none."""


def outcomes(states: Sequence[PointState], plan: MeasuringPlan) -> Mapping[LoadPoint, Outcome]:
    """The result of each point. Points that are compared with a baseline are judged together."""
    results: dict[LoadPoint, Outcome] = {
        state.point: state.error or load_result(state, plan) for state in states
    }
    measured = [result for result in results.values() if isinstance(result, Measurement)]
    compared = [(result, before) for result in measured if (before := result.load.comparison) is not None]
    judged = comparison.with_verdicts([before for _, before in compared])
    for (result, _), after in zip(compared, judged, strict=True):
        load = structs.replace(result.load, comparison=after)
        results[load.point] = dataclasses.replace(result, load=load)
    return results


def load_result(state: PointState, plan: MeasuringPlan, *, finished: bool = True) -> Measurement:
    """The record's entry of a point with at least two passes, marked as unfinished unless `finished`."""
    side, point, data = state.current, state.point, state.current.job.data
    results, passes = side.passes, side.steady_passes
    latency_ms = estimates.latency_estimates(passes)
    latencies_ms = estimates.pooled_ms(passes)
    throughput_per_s = estimates.estimate(passes, estimates.throughput, scale=point.batch)
    slips_ms = [steady.slips_ms for steady in passes if steady.slips_ms is not None]
    load = LoadResult(
        **point._asdict(),
        throughput_per_s=throughput_per_s,
        latency_ms=latency_ms,
        components_ms=components(results, latency_ms["avg"]),
        passes=tuple(
            Pass(
                requests=len(steady.latencies_ms),
                duration_s=round(steady.duration_s, 6),
                throughput_per_s=steady.completed / steady.duration_s * point.batch,
                latency_ms=estimates.latency_summary(steady),
            )
            for steady in passes
        ),
        requests=len(latencies_ms),
        duration_s=round(sum(steady.duration_s for steady in passes), 3),
        warm_up_s=point_state.warm_up_s(side),
        slip_ms=float(np.percentile(np.concatenate(slips_ms), 99)) if slips_ms else None,
        cpu=cpu_use([result.cpu for result in results], machine.cores()),
        gpu=gpu_use([result.gpu for result in results if result.gpu is not None], throughput_per_s.value),
        comparison=point_state.compare(state),
        certified={
            f"p{percent:g}": estimates.certified(latencies_ms, percent) for percent in estimates.CERTIFIABLE
        },
        samples=data.count(point.batch) + sum(len(other.ids) for other in data.other_shapes_for(point.batch)),
        answers=summed(side.verified),
    )
    load = structs.replace(load, marks=_marks(state, load, plan, finished=finished))
    return Measurement(load, (latencies_ms / 1e3).tolist())


def summed(results: Sequence[VerifiedAnswers]) -> VerifiedAnswers | None:
    """Join the results of several verifications of one point; returns None if there are none."""
    if not results:
        return None
    return VerifiedAnswers(
        verified=sum(result.verified for result in results),
        wrong=sum(result.wrong for result in results),
        requests=sum(result.requests for result in results),
        duration_s=round(sum(result.duration_s for result in results), 3),
        first_wrong=next((result.first_wrong for result in results if result.first_wrong is not None), None),
        held_to=results[0].held_to,
        left_out=sum(result.left_out for result in results),
    )


def components(results: Sequence[PassResult], average_ms: Estimate) -> dict[str, float]:
    """The average latency in milliseconds, divided as perf_analyzer divides it. Its own means serve only as
    shares, since they include the start-up, which the average latency leaves out."""
    weights = [len(result.timeline.starts) for result in results]
    means_us = {
        name: float(np.average([result.components_us[name] for result in results], weights=weights))
        for name in schema.COMPONENTS
    }
    scale = average_ms.value / sum(means_us.values())
    return {name: mean_us * scale for name, mean_us in means_us.items()}


def cpu_use(times: Sequence[CpuTime], cores: int) -> CpuUse:
    """The mean use of the cores over several stretches of time."""
    elapsed_s = sum(stretch.elapsed_s for stretch in times)
    client = sum(stretch.children_s for stretch in times) / elapsed_s
    known = [stretch.server_s for stretch in times if stretch.server_s is not None]
    server = sum(known) / elapsed_s if len(known) == len(times) else None
    busy = sum(stretch.busy_s for stretch in times) / elapsed_s
    others = max(0.0, busy - client - (server or 0.0))
    stolen = sum(stretch.stolen_s for stretch in times) / elapsed_s
    rounded = [None if value is None else round(value, 3) for value in (client, server, others, stolen)]
    return CpuUse(cores, *rounded)  # type: ignore[arg-type]


def gpu_use(times: Sequence[GpuTime], throughput_per_s: float) -> GpuUse | None:
    """Use of the GPUs over several stretches, if any: energy and power of all, the sum of the server's most
    memory on each, mean use and clock."""
    if not times:
        return None
    readings = [reading for stretch in times for reading in stretch.readings]
    known = [(stretch.energy_j, stretch.duration_s) for stretch in times if stretch.energy_j is not None]
    power_w = sum(joules for joules, _ in known) / sum(seconds for _, seconds in known) if known else None
    used_mib = [
        [reading.memory_mib for reading in of_gpu if reading.memory_mib is not None]
        for of_gpu in activity.by_gpu(readings)
    ]
    return GpuUse(
        utilisation=_mean([reading.utilisation for reading in readings]),
        memory_mib=sum(map(max, used_mib)) if used_mib and all(used_mib) else None,
        power_w=power_w,
        energy_j_per_1000=None if power_w is None else 1000 * power_w / throughput_per_s,
        sm_clock_mhz=_mean([reading.sm_clock_mhz for reading in readings]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


# --- marks --------------------------------------------------------------------------------------------------

# By Little's law a share of the latency is a share of the requests in flight. Of the 16 online points in the
# README's records, with 8 or 32 requests in flight on 2 cores, each spent 11 to 32 % of its latency in the
# queue and at most 17 % outside of the server.
_MAX_OUTSIDE = 0.5
"""If more of the latency than this share passes elsewhere, most requests are not with the server: three
times those points' most."""
_MIN_QUEUED = 0.05
"""If a smaller share of the latency passes in the queue, it is almost empty: half of those points' least."""
_FULL = 0.9
"""From this share of the cores on, the machine counts as full. In the README's records 2 cores were in use to
92 % at most, with 83 % for the server."""
_MAX_CLIENT = 0.25
"""The largest share of the cores for the load generator on a full machine, where the server could use it. In
the README's records the load generator took 16 % at most."""
_MAX_OTHERS = 0.1
"""Share of the cores that other programs may use: half as much again as the 7 % that they took at most in the
README's records."""
_MAX_STOLEN = 0.05
"""The largest share of the cores for the host: as much as the default precision target, so hardly more than
noise. In the README's records it is 0."""
_MAX_SLIP = 0.1
"""The most that requests may be sent late, as a share of the median latency: later ones meet another queue
than was asked for. Latencies count from when a request was due, so they include it."""
_MAX_SLIP_MS = 1.0
"""Milliseconds by which requests may be sent late, however short the latency: chosen, not measured."""
_SHOWN = 120
"""Characters of the load generator's message in a mark."""


def marks_where(*possible: tuple[str, bool, str]) -> list[Mark]:
    """The marks of a point, from triples of a code, whether it applies, and a detail to add to its text."""
    return [
        Mark(code, f"{schema.MARKS[code]}: {detail}" if detail else schema.MARKS[code])
        for code, applies, detail in possible
        if applies
    ]


def _marks(state: PointState, load: LoadResult, plan: MeasuringPlan, *, finished: bool) -> tuple[Mark, ...]:
    """The marks of a point with this entry, which still lacks them."""
    side = state.current
    last_damage = "".join(side.damaged[-1:])[:_SHOWN]
    # Triton sets the threads of a model's instances back to normal priority if it may (in its core, r24.10,
    # src/backend_model_instance.cc), and ONNX Runtime's workers, which stay low, starve: a niced run showed
    # 0.72 of the throughput in process.
    nice = max(result.cpu.nice for result in side.passes)
    is_warm = all(map(point_state.is_warm, state.sides))
    is_wide = finished and not stopping.is_narrow(side, plan)
    width = HALF_WIDTH.text(estimates.relative_half_width(point_state.target_estimate(side)))
    target, spent = GIVEN_SHARE.text(plan.precision_target), DURATION.text(side.spent_s)
    marks = marks_where(
        ("unfinished", not finished, ""),
        ("damaged-passes", bool(side.damaged), f"{len(side.damaged)}, the last: {last_damage}"),
        ("few-requests", load.requests < stopping.FEW_REQUESTS, f"{load.requests} in all"),
        ("niced", nice > 0, f"nice {nice}; Triton sets some of its own threads back to 0"),
        ("not-warm", not is_warm, ""),
        ("wide-interval", is_wide, f"± {width} in place of {target}, after {spent}"),
    )
    if load.cpu is not None:
        marks += marks_of_cpu(load.cpu, load.components_ms, load.concurrency)
    if load.slip_ms is not None:
        marks += marks_of_schedule(side.steady_passes, load.slip_ms, load.latency_ms["p50"])
    return (*marks, *marks_of_gpu([result.gpu for result in side.passes if result.gpu is not None]))


def marks_of_cpu(use: CpuUse, components_ms: Mapping[str, float], concurrency: int) -> list[Mark]:
    """Marks for a client or other programs that took cores from the server.

    The client is the bottleneck if several requests are in flight, yet none waits in the server's queue and
    most of their time passes outside of it; or if all cores are busy, a quarter of them with the client.
    """
    total = sum(components_ms.values())
    queued = components_ms["server_queue"] / total
    inside = sum(value for name, value in components_ms.items() if name.startswith("server_")) / total
    waits = concurrency > 1 and queued < _MIN_QUEUED and 1 - inside > _MAX_OUTSIDE
    busy = use.load_generator + (use.server or 0.0) + use.others + use.stolen
    crowds = busy > _FULL * use.cores and use.load_generator > _MAX_CLIENT * use.cores
    reason = (
        f"{1 - inside:.0%} of the time passed outside of the server, whose queue was empty"
        if waits
        else f"all {use.cores} cores were busy, {use.load_generator:.2g} of them with the load generator"
    )
    is_shared = use.server is not None and use.others > _MAX_OTHERS * use.cores
    return marks_where(
        ("client-bound", waits or crowds, reason),
        ("cpu-shared", is_shared, f"{use.others:.2g} of {use.cores} cores"),
        ("cpu-stolen", use.stolen > _MAX_STOLEN * use.cores, f"{use.stolen:.2g} of {use.cores} cores"),
    )


def marks_of_schedule(passes: Sequence[SteadyPass], slip_ms: float, latency_ms: Estimate) -> list[Mark]:
    """Marks for a server that fell behind a schedule, and for a client that sent late."""
    answered = sum(steady.completed for steady in passes) / max(1, sum(steady.due or 0 for steady in passes))
    is_late = slip_ms > max(_MAX_SLIP_MS, _MAX_SLIP * latency_ms.value)
    return marks_where(
        ("overloaded", not estimates.keeps_up(passes), f"{answered:.0%} of it"),
        ("schedule-slipped", is_late, f"{slip_ms:.3g} ms at p99"),
    )


def marks_of_gpu(times: Sequence[GpuTime]) -> list[Mark]:
    """Marks for a GPU that was throttled, or that other processes used."""
    readings = [reading for stretch in times for reading in stretch.readings]
    reasons, others = ", ".join(activity.throttle_reasons(readings)), activity.count_strangers(readings)
    return marks_where(("gpu-throttled", bool(reasons), reasons), ("gpu-shared", others > 0, str(others)))
