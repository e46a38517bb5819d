"""Makes the record's entry of a measured load point: estimates, passes, components and marks."""

from collections.abc import Sequence

import numpy as np
from msgspec import structs

from tritonproof.accuracy.answer_comparison import merge_comparisons
from tritonproof.base.errors import ProofError
from tritonproof.host import machine, processor_use
from tritonproof.host.processor_use import CpuTime, GpuStretch
from tritonproof.measure import estimates, point_state, slowdown
from tritonproof.measure.called_models import called_models
from tritonproof.measure.marks import marks_of
from tritonproof.measure.passes import Pass
from tritonproof.measure.point_state import PointState
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record import fields, speed


def point_results(
    states: Sequence[PointState], plan: MeasuringPlan
) -> dict[speed.LoadPoint, speed.PointResult | ProofError]:
    """The result of each point, or why it has none. Comparisons with a baseline are judged together."""
    results = {state.point: state.error or point_result(state, plan) for state in states}
    measured = {point: result for point, result in results.items() if isinstance(result, speed.PointResult)}
    compared = {point: result.comparison for point, result in measured.items() if result.comparison}
    for point, judged in zip(compared, slowdown.with_verdicts([*compared.values()]), strict=True):
        results[point] = structs.replace(measured[point], comparison=judged)
    return results


def point_result(state: PointState, plan: MeasuringPlan, *, finished: bool = True) -> speed.PointResult:
    """The record's entry of a point with at least two passes, marked as unfinished unless `finished`."""
    current, point = state.current, state.point
    passes, parts, answers = current.passes, state.steady_parts, current.answers_under_load
    latency_ms = estimates.latency_estimates(parts)
    latencies_ms = estimates.pooled_ms(parts)
    throughput_per_s = estimates.estimate(parts, estimates.requests_per_s, scale=point.batch)
    slips_ms = [part.slips_ms for part in parts if part.slips_ms is not None]
    result = speed.PointResult(
        point=point,
        throughput_per_s=throughput_per_s,
        latency_ms=latency_ms,
        components_ms=components(passes, latency_ms["avg"]),
        passes=tuple(
            speed.PassSummary(
                requests=len(part.latencies_ms),
                duration_s=round(part.duration_s, 6),
                throughput_per_s=part.completed / part.duration_s * point.batch,
                latency_ms=estimates.latency_summary(part),
            )
            for part in parts
        ),
        requests=len(latencies_ms),
        duration_s=round(sum(part.duration_s for part in parts), 3),
        warm_up_s=point_state.warm_up_s(current),
        slip_ms=float(np.percentile(np.concatenate(slips_ms), 99)) if slips_ms else None,
        cpu=cpu_use([one_pass.cpu for one_pass in passes], machine.cores()),
        gpu=gpu_use([one_pass.gpu for one_pass in passes if one_pass.gpu], throughput_per_s.value),
        comparison=point_state.compare_speeds(state),
        certified={f"p{per:g}": estimates.certified(latencies_ms, per) for per in estimates.CERTIFIABLE},
        samples=current.job.served.data.sample_count(point.batch),
        answers_under_load=merge_comparisons(answers) if answers else None,
        called_models=called_models(current.job.served.name, passes),
    )
    return structs.replace(result, marks=marks_of(state, result, plan, finished=finished))


def components(passes: Sequence[Pass], average_ms: fields.Estimate) -> dict[str, float]:
    """The average latency in milliseconds, divided into components as perf_analyzer divides it. Its own means
    serve only as shares, since they include the start-up, which the average latency does not."""
    weights = [len(one_pass.all_latencies_ms) for one_pass in passes]
    means_us = {
        name: float(np.average([one_pass.components_us[name] for one_pass in passes], weights=weights))
        for name in speed.COMPONENTS
    }
    scale = average_ms.value / sum(means_us.values())
    return {name: mean_us * scale for name, mean_us in means_us.items()}


def cpu_use(times: Sequence[CpuTime], cores: int) -> speed.CpuUse:
    """The mean use of the cores over several stretches of time."""
    elapsed_s = sum(stretch.elapsed_s for stretch in times)
    load_generator = sum(stretch.children_s for stretch in times) / elapsed_s
    measured = [stretch.server_s for stretch in times if stretch.server_s is not None]
    server = sum(measured) / elapsed_s if len(measured) == len(times) else None
    busy = sum(stretch.busy_s for stretch in times) / elapsed_s
    return speed.CpuUse(
        cores,
        load_generator=round(load_generator, 3),
        server=None if server is None else round(server, 3),
        others=round(max(0.0, busy - load_generator - (server or 0.0)), 3),
        stolen=round(sum(stretch.stolen_s for stretch in times) / elapsed_s, 3),
    )


def gpu_use(stretches: Sequence[GpuStretch], throughput_per_s: float) -> speed.GpuUse | None:
    """The use of the GPUs over several stretches of time, if there are any: energy and power of all GPUs, the
    sum of the server's peak memory on each, mean utilisation and clock."""
    if not stretches:
        return None
    readings = [reading for stretch in stretches for reading in stretch.readings]
    energies = [
        (stretch.energy_j, stretch.duration_s) for stretch in stretches if stretch.energy_j is not None
    ]
    power_w = sum(joules for joules, _ in energies) / sum(s for _, s in energies) if energies else None
    used_mib = [
        [reading.memory_mib for reading in of_gpu if reading.memory_mib is not None]
        for of_gpu in processor_use.by_gpu(readings)
    ]
    return speed.GpuUse(
        utilisation=_mean([reading.utilisation for reading in readings]),
        memory_mib=sum(map(max, used_mib)) if used_mib and all(used_mib) else None,
        power_w=power_w,
        energy_j_per_1000=None if power_w is None else 1000 * power_w / throughput_per_s,
        sm_clock_mhz=_mean([reading.sm_clock_mhz for reading in readings]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return sum(measured) / len(measured) if measured else None
