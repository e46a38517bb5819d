"""Figures that follow from a record's: its fastest point, its rank, price and share of the peak."""

from collections.abc import Mapping, Sequence

from tritonproof.record.quantities import is_narrow, is_shown
from tritonproof.record.speed import Efficiency, PointResult, ReferenceComparison, fastest_closed_loop
from tritonproof.reports.phrases import format_text, grouped
from tritonproof.reports.publishable import Publishable, comparable_setup


def rank_group(record: Publishable) -> tuple[str, str, int]:
    """The target, the model and the number of GPUs: formats with these in common are ranked."""
    return record.case.target, record.case.model, record.case.gpus


def reference_comparison(record: Publishable) -> ReferenceComparison | None:
    """The case's best speed over the model's reference format's, measured in turns; None without one."""
    measured = efficiency_at_fastest(record)
    return measured.reference if measured else None


def efficiency_at_fastest(record: Publishable) -> Efficiency | None:
    """The efficiency of serving at the case's fastest point; None if a later run has found a faster one."""
    fastest = fastest_point(record)
    return next((entry for entry in record.efficiency if fastest and entry.point == fastest.point), None)


def ranked(records: Sequence[Publishable]) -> list[Publishable]:
    """The records with each model's formats by speed, the fastest first, and those without a speed last."""
    order = {group: index for index, group in enumerate(dict.fromkeys(map(rank_group, records)))}

    def sort_key(record: Publishable) -> tuple[int, float]:
        compared = reference_comparison(record)
        return order[rank_group(record)], -compared.ratio.value if compared else 0.0

    return sorted(records, key=sort_key)


def ranks(records: Sequence[Publishable]) -> Mapping[str, int]:
    """The rank by case name: one more than the number of formats that are shown to be faster, as the
    intervals do not overlap. Formats may share a rank. A format whose ratio is hidden has no rank, but counts
    as faster than others. Ratios from several machines or servers give no ranks."""
    rank_of = {}
    for group in grouped(records, rank_group).values():
        compared = {record.name: reference_comparison(record) for record in group}
        ratios = {name: comparison.ratio for name, comparison in compared.items() if comparison}
        places = {comparable_setup(record) for record in group if record.name in ratios}
        for name, ratio in ratios.items():
            if is_shown(ratio) and len(places) == 1:
                rank_of[name] = 1 + sum(each.low > ratio.high for each in ratios.values())
    return rank_of


def fastest_point(record: Publishable) -> PointResult | None:
    """The shown point of the highest throughput; one at a request rate only if there is no other."""
    at_rates = max(record.points, key=lambda result: result.throughput_per_s.value, default=None)
    return fastest_closed_loop(record.points) or at_rates


def reference_names(records: Sequence[Publishable]) -> list[str]:
    """The cases' reference formats as a reader knows them, or the ids of those outside the records."""
    names = {record.name: f"{format_text(record)} {record.case.precision.upper()}" for record in records}
    references = (compared.case_id for record in records if (compared := reference_comparison(record)))
    return list(dict.fromkeys(names.get(reference, reference) for reference in references))


def fraction_of_peak(efficiency: Efficiency) -> float | None:
    """The operations per second over the peak's; None if unknown, or if an interval is too wide."""
    if efficiency.flops_per_inference is None or efficiency.peak_flops_per_s is None:
        return None
    if not all(map(is_narrow, (efficiency.served_per_s, efficiency.peak_flops_per_s))):
        return None
    return efficiency.served_per_s.value * efficiency.flops_per_inference / efficiency.peak_flops_per_s.value


def correct_share(record: Publishable) -> float | None:
    """The share of inferences that are correct: the first metric's served score, if that is a share, as top-1
    is; otherwise None."""
    score = record.main_score
    return score.served if score and score.better == "higher" and score.served > 0 else None


def cost_per_million(record: Publishable, result: PointResult) -> float | None:
    """The cost of a million inferences at a load point, in the currency of Record.price_per_hour: of correct
    inferences if their share is known, which also pay for the wrong ones. None without a price."""
    if record.price_per_hour is None:
        return None
    amount = record.price_per_hour / 3600 / result.throughput_per_s.value * 1e6
    return amount / (correct_share(record) or 1.0)
