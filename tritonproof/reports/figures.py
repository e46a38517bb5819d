"""Figures that follow from those of a record: its fastest point, its rank, price and share of the peak."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from tritonproof.record import schema
from tritonproof.record.quantities import is_narrow, is_shown
from tritonproof.reports.publishable import Publishable, place_of
from tritonproof.reports.text.phrases import format_text, grouped


def rank_group(record: Publishable) -> tuple[str, str, int]:
    """Target, model and number of GPUs: formats are ranked within a group."""
    return record.case.target, record.case.model, record.case.gpus


def format_comparison(record: Publishable) -> schema.ReferenceComparison | None:
    """The best speed over that of the model's reference format, in turns; None if there is none."""
    measured = efficiency_at_fastest(record)
    return measured.reference if measured else None


def efficiency_at_fastest(record: Publishable) -> schema.Efficiency | None:
    """The cost of serving at the case's fastest point; None if a later run has found a faster one."""
    fastest = fastest_point(record)
    return next((cost for cost in record.efficiency if fastest and cost.point == fastest.point), None)


def ranked(records: Sequence[Publishable]) -> list[Publishable]:
    """Each model's formats by speed, the fastest first, those without a rank last; models stay in order."""
    order = {group: index for index, group in enumerate(dict.fromkeys(map(rank_group, records)))}

    def sort_key(record: Publishable) -> tuple[int, float]:
        compared = format_comparison(record)
        return order[rank_group(record)], -compared.ratio.value if compared else 0.0

    return sorted(records, key=sort_key)


def ranks(records: Sequence[Publishable]) -> Mapping[str, int]:
    """The ranks by name: one more than the number of formats that are shown to be faster, by intervals that
    do not overlap. Others share a rank; a hidden ratio has none, and counts among the others' faster ones.
    Ratios from several machines or servers give no ranks."""
    rank_of = {}
    for group in grouped(records, rank_group).values():
        ratios = {record.name: one.ratio for record in group if (one := format_comparison(record))}
        places = {place_of(record) for record in group if record.name in ratios}
        for name, ratio in ratios.items():
            if is_shown(ratio) and len(places) == 1:
                rank_of[name] = 1 + sum(other.low > ratio.high for other in ratios.values())
    return rank_of


def fastest_point(record: Publishable) -> schema.PointResult | None:
    """The point of the highest throughput, if shown; that at a request rate only if there is no other."""
    at_rates = max(record.points, key=lambda result: result.throughput_per_s.value, default=None)
    return schema.fastest_closed_loop(record.points) or at_rates


def reference_names(records: Sequence[Publishable]) -> list[str]:
    """The cases' reference formats as a reader knows them, or the ids of those outside the records."""
    names = {record.name: f"{format_text(record)} {record.case.precision.upper()}" for record in records}
    references = (compared.case for record in records if (compared := format_comparison(record)))
    return list(dict.fromkeys(names.get(reference, reference) for reference in references))


def fraction_of_peak(efficiency: schema.Efficiency) -> float | None:
    """Operations per second over those of the peak; None if unknown, or if an interval is too wide."""
    if efficiency.flops_per_inference is None or efficiency.peak_flops_per_s is None:
        return None
    if not all(map(is_narrow, (efficiency.served_per_s, efficiency.peak_flops_per_s))):
        return None
    return efficiency.served_per_s.value * efficiency.flops_per_inference / efficiency.peak_flops_per_s.value


class Cost(NamedTuple):
    """A million inferences in the currency of Record.price_per_hour."""

    amount: float
    unit: Literal["correct inferences", "inferences"]
    """correct inferences: they pay for the wrong ones; inferences: all."""


def cost_per_million(record: Publishable, result: schema.PointResult) -> Cost | None:
    """What a million inferences cost at a load point; None without a price. The share of correct ones is the
    served score of the first metric, unless that is an error or missing."""
    if record.price_per_hour is None:
        return None
    amount = record.price_per_hour / 3600 / result.throughput_per_s.value * 1e6
    score = record.main_score
    if score is None or score.better != "higher" or score.served <= 0:
        return Cost(amount, "inferences")
    return Cost(amount / score.served, "correct inferences")
