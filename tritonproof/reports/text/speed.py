"""Speed compared with other formats, the same artifact in process and the machine's peak; the price; and the
result of a search within a latency budget."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from tritonproof.record import quantities, schema
from tritonproof.record.quantities import LATENCY, LATENCY_BUDGET, RATIO, TOO_WIDE, is_narrow, is_shown
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.text.correctness import main_score
from tritonproof.reports.text.load_point import BUDGET_WORDS, mark_codes
from tritonproof.reports.text.phrases import counted, format_text, full_point_text, grouped, sentence


def rank_group(record: Publishable) -> tuple[str, str, int]:
    """Target, model and number of GPUs: formats are ranked within a group."""
    return record.case.target, record.case.model, record.case.gpus


def format_comparison(record: Publishable) -> schema.ReferenceComparison | None:
    """The best speed over that of the model's reference format, in turns; None if there is none."""
    measured = best_efficiency(record)
    return measured.reference if measured else None


def best_efficiency(record: Publishable) -> schema.Efficiency | None:
    """The cost of serving at the case's best point; None if a later run has found a better point."""
    best = best_point(record)
    return next((each for each in record.efficiency if best and each.point == best.point), None)


def ranked(records: Sequence[Publishable]) -> list[Publishable]:
    """Each model's formats by speed, the fastest first, those without a rank last; models stay in order."""
    order = {group: place for place, group in enumerate(dict.fromkeys(map(rank_group, records)))}

    def place(record: Publishable) -> tuple[int, float]:
        compared = format_comparison(record)
        return order[rank_group(record)], -compared.ratio.value if compared else 0.0

    return sorted(records, key=place)


def ranks(records: Sequence[Publishable]) -> Mapping[str, int]:
    """The ranks by name: one more than the number of formats that are shown to be faster, by intervals that
    do not overlap. Others share a rank; a hidden ratio has none, and counts among the others' faster ones."""
    rank_of = {}
    for group in grouped(records, rank_group).values():
        compared = {record.name: format_comparison(record) for record in group}
        ratios = {name: one.ratio for name, one in compared.items() if one}
        for name, ratio in ratios.items():
            if is_shown(ratio):
                rank_of[name] = 1 + sum(other.low > ratio.high for other in ratios.values())
    return rank_of


def best_point(record: Publishable) -> schema.PointResult | None:
    """The point of the highest throughput, if shown. A case that was measured at request rates alone has the
    highest of these."""
    at_rates = max(record.points, key=lambda result: result.throughput_per_s.value, default=None)
    return schema.best_of(record.points) or at_rates


def reference_names(records: Sequence[Publishable]) -> list[str]:
    """The cases' reference formats as a reader knows them, or the ids of those outside the records."""
    names = {record.name: f"{format_text(record)} {record.case.precision.upper()}" for record in records}
    references = (compared.case for record in records if (compared := format_comparison(record)))
    return list(dict.fromkeys(names.get(reference, reference) for reference in references))


# --- in process, at the peak, at a price and within a budget -----------------------------------------------


def efficiency_text(measurements: Sequence[schema.Efficiency], precision: str) -> str:
    """`97 % (95 to 99) of in-process throughput, 41 % of the machine's FP32 peak of 180 GFLOP/s, ratio 1.41
    (1.36 to 1.47) to cpu-resnet50-onnx-fp32`, after the scenario if there are several."""
    texts = []
    for efficiency in measurements:
        parts = [f"{quantities.SHARE_OF_SPEED.text_with_interval(efficiency.ratio)} of in-process throughput"]
        fraction = fraction_of_peak(efficiency)
        if fraction is not None and efficiency.peak_flops_per_s is not None:
            # INT8 has no floating point.
            rate = quantities.INTEGER_WORK_RATE if precision == "int8" else quantities.WORK_RATE
            peak = f"{precision.upper()} peak of {rate.text(efficiency.peak_flops_per_s.value)}"
            parts.append(f"{quantities.SHARE.text(fraction)} of the machine's {peak}")
        reference = efficiency.reference
        # That of the reference to itself has no interval.
        if reference is not None and reference.ratio.low < reference.ratio.high:
            parts.append(f"ratio {RATIO.text_with_interval(reference.ratio)} to {reference.case}")
        scenario = f"{efficiency.point.scenario} " if len(measurements) > 1 else ""
        texts.append(f"{scenario}{', '.join(parts)}{mark_codes(efficiency.marks)}")
    return "; ".join(texts)


def model_warmup_text(warm_up: schema.ModelWarmup) -> str:
    """The first request after a loading, and the slowest of those after it."""
    first, later = LATENCY.text(warm_up.first_ms[-1]), LATENCY.text(warm_up.later_ms[-1])
    again = "" if warm_up.passed else f"; slow after each of {len(warm_up.first_ms)} loadings"
    text = f"first request of batch {warm_up.batch} after a loading {first}"
    return f"{text}, the slowest of the next twenty {later}{again}"


def fraction_of_peak(efficiency: schema.Efficiency) -> float | None:
    """Operations per second over those of the peak; None if unknown, or if an interval is too wide."""
    if efficiency.flops_per_inference is None or efficiency.peak_flops_per_s is None:
        return None
    if not all(map(is_narrow, (efficiency.served_per_s, efficiency.peak_flops_per_s))):
        return None
    return efficiency.served_per_s.value * efficiency.flops_per_inference / efficiency.peak_flops_per_s.value


_LIBRARIES = {
    "onnxruntime": ("ONNX Runtime", "onnxruntime", "onnxruntime-gpu"),
    "pytorch": ("PyTorch", "torch"),
    "tensorrt": ("TensorRT", "tensorrt", "tensorrt-cu12", "tensorrt-cu13"),
    "tensorflow": ("TensorFlow", "tensorflow", "tensorflow-cpu"),
}
"""Each native backend's library: its name, and its PyPI distributions, the first as in Serving.versions."""


def version_note(record: schema.Record) -> str:
    """Why the ratio to in process does not show serving alone: the native backend has another version of its
    library than this machine's runtime, or an unknown one. Empty if equal, or for the suite's runtimes."""
    serving, local, notes = record.serving, record.machine.versions, []
    if serving is None or not record.efficiency or serving.backend not in _LIBRARIES:
        return ""
    for backend in dict.fromkeys([serving.backend, *(["tensorrt"] * (record.case.accelerator == "trt"))]):
        label, *distributions = _LIBRARIES[backend]
        in_server = serving.versions.get(distributions[0], "an unknown one")
        in_process = next((local[name] for name in distributions if name in local), "an unknown one")
        # Equal, or one extends the other: 10.5.0.18 and 10.5.0, 2.5.0+cu124 and 2.5.0.
        short, long = sorted((in_server, in_process), key=len)
        if "unknown" in long or not (long == short or long.startswith((f"{short}.", f"{short}+"))):
            versions = f"{in_server} in the server, {in_process} in process"
            notes.append(
                f"The ratio may also include the difference between two versions of {label}: {versions}."
            )
    return " ".join(notes)


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
    score = main_score(record)
    if score is None or score.better != "higher" or score.served <= 0:
        return Cost(amount, "inferences")
    return Cost(amount / score.served, "correct inferences")


def search_paragraph(record: Publishable) -> str:
    search = record.search
    if search is None:
        return ""
    if record.why_no_winner:
        return record.why_no_winner
    if search.verdict == "failed":
        return sentence(no_winner_text(search))
    proven = (
        "for which conversion and accuracy hold"
        if not record.build.from_repository
        else "with which no answer changes"
    )
    configurations = counted(search.configurations, "configuration")
    tried = f"{search.passes} passes of {configurations}, {quantities.DURATION.text(search.duration_s)}"
    return f"{search_text(search)}. Searched in {tried}. The configuration, {proven}: `{search.config}`."


def proposal_text(search: schema.Search) -> str:
    """The change to a repository model's config.pbtxt."""
    if not search.diff:
        return "no other settings are shown to be faster"
    change = f"a change of its config.pbtxt, by which no answer changes ({search.config}):"
    return f"{change}\n{search.diff.rstrip()}"


def search_text(search: schema.Search) -> str:
    """The winner: its throughput, or its rate with the percentile from the schedule."""
    result, latency = search.result, search.result.latency_ms[search.percentile]
    reached, due = quantities.THROUGHPUT.text(result.throughput_per_s.value), ""
    if (rate_per_s := result.point.request_rate_per_s) is not None:
        rate = quantities.REQUEST_RATE.cell(rate_per_s)
        reached, due = f"{rate} requests/s", " from when each was due"
    budget = f"{BUDGET_WORDS[search.verdict]} {LATENCY_BUDGET.text(search.latency_budget_ms)}"
    latency_text = LATENCY.text_with_interval(latency, search.latency_budget_ms)
    kept = f"{search.percentile} {latency_text} {budget}{due}"
    lead = lead_text(search.lead, "its own settings" if search.diff else "the runner-up")
    return f"{reached} with {kept}: {_configuration_text(search)}; {lead}"


def no_winner_text(search: schema.Search) -> str:
    """Why there is no winner: the lowest latency that any configuration reached."""
    latency = LATENCY.text_with_interval(search.result.latency_ms[search.percentile])
    budget = f"{search.percentile} within {LATENCY_BUDGET.text(search.latency_budget_ms)}"
    lowest = f"the lowest reached is {latency}: {_configuration_text(search)}"
    return f"none of {counted(search.configurations, 'configuration')} keeps {budget}; {lowest}"


def _configuration_text(search: schema.Search) -> str:
    """The load point, and the settings that a search varies; static batching has no sizes and no delay."""
    point, deployment = search.result.point, search.deployment
    instances = counted(deployment.instances, "instance")
    if point.scenario == "offline":
        return f"{full_point_text(point)}, concurrency {point.concurrency}, {instances}"
    sizes = " ".join(map(str, deployment.preferred_batch_sizes))
    delay = f"delay {deployment.max_queue_delay_us:,} µs" if deployment.max_queue_delay_us else "no delay"
    return ", ".join([full_point_text(point), instances, *([f"preferred {sizes}"] if sizes else []), delay])


def lead_text(lead: schema.Ratio | None, other: str) -> str:
    """How much faster the winner is than the other proven configuration."""
    if lead is None:
        return "no other configuration kept the budget"
    if not is_shown(lead):
        return f"its lead over {other} is {TOO_WIDE}"
    text = f"{RATIO.text_with_interval(lead, 1.0)} times as fast as {other}"
    return f"{text}, which is not shown to keep the budget" if lead.high < 1 else text
