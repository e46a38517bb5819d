"""Results as flat figures, name to value with the unit in the name: for CSV, JUnit's XML and pytest-benchmark."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from reports.record.quantities import RATIO
from reports.record.schema import (
    Accuracy,
    AnswerGate,
    Efficiency,
    Estimate,
    Load,
    Parity,
    Score,
    Search,
    Soak,
    soak_verdict,
)

Figures = dict[str, float | int | str]


def of_conversion(conversion: Parity) -> Figures:
    """How far the converted model is from the framework, with the limits that hold."""
    return _known(
        compared_samples=conversion.samples,
        relative_error=conversion.relative_error,
        relative_error_limit=conversion.relative_error_limit,
        agreement=conversion.agreement,
        agreement_limit=conversion.agreement_limit,
        precision_cost=conversion.precision_cost,
        error_in_costs=conversion.error_in_costs,
        error_in_costs_limit=conversion.error_in_costs_limit,
    )


def of_accuracy(accuracy: Accuracy) -> Figures:
    """Each metric after each stage with its tightest limit, `top-1_served_percent` and so on, and the decisions
    that differ between stages."""
    found: Figures = {"evaluated_samples": accuracy.samples}
    for score in accuracy.scores:
        found |= _of_score(score)
    for one in accuracy.disagreements:
        found[f"{'_'.join(one.between)}_differ"] = one.count
    if accuracy.same_answers is not None:
        found |= _known(largest_difference=accuracy.same_answers.relative_difference)
    return found


def of_gate(gate: AnswerGate) -> Figures:
    """What a gate that needs no ground truth sent, and how far answers to one sample were apart."""
    found: Figures = {"requests": gate.requests}
    if gate.same is not None:
        found |= _known(answers_compared=gate.same.answers, largest_difference=gate.same.relative_difference)
    return found


def of_point(load: Load) -> Figures:
    """The setting of a load point, and the amount of measuring there."""
    found: Figures = {
        "scenario": load.scenario,
        "batch": load.batch,
        "concurrency": load.concurrency,
        "passes": len(load.passes),
        "requests": load.requests,
    }
    answers = load.answers
    return found | _known(
        request_rate_per_s=load.request_rate_per_s,
        arrivals=load.arrivals,
        samples=load.samples,
        answers_verified=answers.verified if answers else None,
        answers_wrong=answers.wrong if answers else None,
    )


def of_load(load: Load) -> Figures:
    """A load point: throughput and latencies with their bounds, and where the time went.

    What only some points have, such as marks or a comparison, is left out of the others.
    """
    use = structs.asdict(load.gpu) if load.gpu else {}
    found = of_point(load) | bounds("throughput", "_per_s", load.throughput_per_s)
    for name, value in load.latency_ms.items():
        found |= bounds(f"latency_{name}", "_ms", value)
    found |= {f"{name}_ms": value for name, value in load.components_ms.items()}
    for name, one in load.certified.items():
        found |= _known(**{f"certified_{name}_ms": one.bound_ms})
    found |= _known(
        slip_ms=load.slip_ms,
        marks=" ".join(mark.code for mark in load.marks) or None,
        **{f"gpu_{name}": value for name, value in use.items()},
    )
    if load.repeated_speed is not None:
        found |= bounds("repeated_sample_ratio", "", load.repeated_speed)
    if load.budget is not None:
        found |= {
            f"budget_{load.budget.percentile}_ms": load.budget.budget_ms,
            "budget_verdict": load.budget.verdict,
        }
    if load.comparison is not None:
        found |= ratio_bounds("comparison_ratio", load.comparison.ratio)
        found |= {
            "comparison_method": load.comparison.method,
            "comparison_verdict": load.comparison.verdict,
        }
    return found


def of_efficiency(found: Sequence[Efficiency]) -> Figures:
    """What serving costs, of each scenario: `offline_in_process_ratio`, served over in process, and so on."""
    figures: Figures = {}
    for one in found:
        figures |= ratio_bounds(f"{one.scenario}_in_process_ratio", one.ratio)
        figures |= bounds(f"{one.scenario}_in_process", "_per_s", one.in_process_per_s)
    return figures


def of_soak(soak: Soak) -> Figures:
    """How long a soak was, and by how much each thing that it watched grows: `growth_open_files_per_request` and so on."""
    found: Figures = {
        "soak_verdict": soak_verdict(soak),
        "soak_requests": soak.requests,
        "soak_loadings": soak.loadings,
    }
    if soak.requests_per_s is not None:  # where no speed may be shown, both together would tell it
        found["soak_s"] = soak.duration_s
    for one in soak.growth:
        unit = "_bytes" if one.unit == "bytes" else ""
        found |= bounds(f"growth_{one.what.replace(' ', '_')}_per_{one.per}", unit, one.slope)
    if soak.end_over_begin is not None:
        found |= ratio_bounds("speed_end_over_begin", soak.end_over_begin)
    return found


def of_search(search: Search) -> Figures:
    """The winner of a search: its configuration, and the load point that was measured last."""
    settings = structs.asdict(search.deployment) | {
        "preferred_batch_sizes": " ".join(map(str, search.deployment.preferred_batch_sizes))
    }
    return {
        "latency_budget_ms": search.budget_ms,
        "latency_percentile": search.percentile,
        "budget_verdict": search.verdict,
        **settings,
        **of_load(search.load),
        **(bounds("goodput", "_per_s", search.goodput_per_s) if search.goodput_per_s else {}),
        **(of_accuracy(search.accuracy) if search.accuracy else {}),
    }


def percent(share: float) -> float:
    """A fraction in percent, without the rounding of doubles: 0.98 is 98, not 97.99999999999999."""
    return round(100 * share, 12)


def of_served(score: Score) -> Figures:
    """The served score alone: `top-1_served_percent`, or `mel_MSE_served`, an error."""
    return _named(score, {"served": score.served})


def _of_score(score: Score) -> Figures:
    stages = {"served": score.served, "converted": score.converted, "framework": score.framework}
    values = {stage: value for stage, value in stages.items() if value is not None}
    limits = [limit.value for limit in score.limits]
    if limits:
        values |= {"floor": max(limits)} if score.better == "higher" else {"ceiling": min(limits)}
    return _named(score, values)


def _named(score: Score, values: Mapping[str, float]) -> Figures:
    name = score.metric.replace(" ", "_")
    if score.better == "lower":
        return {f"{name}_{stage}": value for stage, value in values.items()}
    return {f"{name}_{stage}_percent": percent(value) for stage, value in values.items()}


def bounds(name: str, unit: str, estimate: Estimate) -> Figures:
    """A value with its interval: `throughput_per_s`, `throughput_low_per_s` and `throughput_high_per_s`; without the last
    where the interval is open above."""
    return {
        f"{name}{unit}": estimate.value,
        f"{name}_low{unit}": estimate.low,
        **({} if estimate.open_above else {f"{name}_high{unit}": estimate.high}),
    }


def ratio_bounds(name: str, ratio: Estimate) -> Figures:
    """A ratio with its interval, as `bounds` has them; nothing where the interval is too wide for it to be shown."""
    return bounds(name, "", ratio) if RATIO.is_shown(ratio) else {}


def _known(**values: float | int | str | None) -> Figures:
    return {name: value for name, value in values.items() if value is not None}
