"""What a search within a latency budget found, in words."""

import dataclasses

from reports.record.schema import Deployment, Estimate, Load, Record, Search, has_passed
from reports.words.rightness import why_no_speed


def search_paragraph(record: Record) -> str:
    """What the search found and how; empty where there was none. A winner that is not proven shows no speed."""
    search = record.search
    if search is None:
        return ""
    if search.verdict == "beyond":
        text = beyond_text(search)
        return f"{text[0].upper()}{text[1:]}."
    # The gate is the winner's own ledger, whatever the case's own settings give.
    proven = dataclasses.replace(record, accuracy=search.accuracy)
    if not has_passed(proven):
        return f"The winner within {_number(search.budget_ms)} ms is not proven. {why_no_speed(proven)}"
    return (
        f"{found_text(search)}. Searched in {search.passes} passes of {search.configurations} configurations, "
        f"{search.duration_s:.0f} s. The configuration, for which conversion and accuracy hold: `{search.config}`."
    )


def found_text(search: Search) -> str:
    """The figure, where it was reached, and how sure it is."""
    rate = search.load.throughput_per_s.value
    return f"{rate:,.{0 if rate >= 10 else 2}f} infer/s with {budget_text(search)}: {winner_text(search)}{_lead(search)}"


def beyond_text(search: Search) -> str:
    """Why there is no winner."""
    latency = search.load.latency_ms[search.percentile]
    return (
        f"none of {search.configurations} configurations keeps {search.percentile} within "
        f"{_number(search.budget_ms)} ms; the lowest reached is {_number(latency.value)} ms "
        f"({_interval(latency)}): {winner_text(search)}"
    )


def budget_text(search: Search) -> str:
    """The percentile with its interval, and whether it is shown to keep the budget."""
    latency = search.load.latency_ms[search.percentile]
    shown = {"within": "within", "not shown": "not shown to be within", "beyond": "beyond"}[search.verdict]
    measured = f"{search.percentile} {_number(latency.value)} ms ({_interval(latency)})"
    return f"{measured} {shown} {_number(search.budget_ms)} ms"


def winner_text(search: Search) -> str:
    """Load and configuration."""
    scenario, load = search.load.scenario, _load(search.load)
    return f"{scenario}, {load}, {settings_text(scenario, search.deployment)}"


def settings_text(scenario: str, deployment: Deployment) -> str:
    """What the search chooses of a deployment; static batching has neither preferred sizes nor a delay."""
    parts = [_counted(deployment.instances, "instance")]
    if scenario == "online":
        sizes = " ".join(map(str, deployment.preferred_batch_sizes))
        parts += [f"preferred {sizes}"] if sizes else []
        delay = deployment.max_queue_delay_us
        parts.append(f"delay {delay:,} µs" if delay else "no delay")
    return ", ".join(parts)


def lead_text(lead: Estimate | None) -> str:
    """How much faster than the second best configuration, if that is shown."""
    if lead is None:
        return "no other configuration kept the budget"
    interval = f"{100 * (lead.low - 1):.0f} to {100 * (lead.high - 1):.0f} %"
    if lead.low > 1:
        return f"{100 * (lead.value - 1):.0f} % faster than the runner-up ({interval})"
    if lead.high < 1:  # and yet it is no winner
        gain = f"{100 * (1 / lead.value - 1):.0f} % faster ({100 * (1 / lead.high - 1):.0f} to {100 * (1 / lead.low - 1):.0f} %)"
        return f"one that is {gain} is not shown to keep the budget"
    return f"no different from the runner-up ({interval})"


def _lead(search: Search) -> str:
    return f"; {lead_text(search.lead)}"


def _load(load: Load) -> str:
    batch = f"batch {load.batch}, " if load.scenario == "offline" else ""
    return f"{batch}concurrency {load.concurrency}"


def _interval(one: Estimate) -> str:
    return f"{_number(one.low)} to {_number(one.high)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _number(value: float) -> str:
    """Three significant digits."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
