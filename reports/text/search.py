"""Sentences on the result of a search within a latency budget."""

from reports.record.quantities import DURATION, LATENCY, LATENCY_BUDGET, RATIO, REQUEST_RATE, THROUGHPUT
from reports.record.schema import Deployment, Estimate, Search, verdict_of
from reports.record.verdicts import BUDGET_WORDS, too_wide
from reports.text.labels import counted, schedule, sentence
from reports.text.publishable import Publishable


def search_paragraph(record: Publishable) -> str:
    search = record.search
    if search is None:
        return ""
    if verdict_of(search) == "failed":
        return sentence(beyond_text(search))
    if record.no_winner:
        return record.no_winner
    proven = "with which no answer changes" if search.varied else "for which conversion and accuracy hold"
    tried = f"{search.passes} passes of {_tried_text(search)}, {DURATION.text(search.duration_s)}"
    return f"{found_text(search)}. Searched in {tried}. The configuration, {proven}: `{search.config}`."


def proposal_text(search: Search) -> str:
    """The change to a repository model's config.pbtxt, and where the time of its requests goes then."""
    called = [
        f"{one.model}: {LATENCY.text(one.queue_ms)} queued and "
        f"{LATENCY.text(one.compute_ms)} computed in a request"
        for one in search.load.composing
    ]
    if not search.diff:
        return "\n".join([*called, f"no other settings of {search.varied} are shown to be faster"])
    change = f"a change of its config.pbtxt, by which no answer changes ({search.config}):"
    return "\n".join([*called, change, search.diff.rstrip()])


def found_text(search: Search) -> str:
    lead = lead_text(search.lead, "its own settings" if search.diff else "the runner-up")
    if search.load.request_rate_per_s is not None:
        settings = settings_text(search.load.scenario, search.deployment)
        return f"{rate_text(search)}: {search.load.scenario}, {settings}; {lead}"
    throughput = THROUGHPUT.text(search.load.throughput_per_s.value)
    return f"{throughput} with {budget_text(search)}: {winner_text(search)}; {lead}"


def rate_text(search: Search) -> str:
    """The highest rate, the percentile from the schedule, and the goodput."""
    rate = REQUEST_RATE.cell(search.load.request_rate_per_s)
    found = f"{rate} requests/s, {search.load.arrivals}, with {budget_text(search)} from when each was due"
    if search.goodput_per_s is None:
        return found
    return f"{found}, goodput {THROUGHPUT.text_with_interval(search.goodput_per_s)}"


def _tried_text(search: Search) -> str:
    configurations = counted(search.configurations, "configuration")
    return configurations if not search.rates else f"{configurations} at {counted(search.rates, 'rate')}"


def beyond_text(search: Search) -> str:
    """Why there is no winner: the lowest latency that was reached."""
    latency = search.load.latency_ms[search.percentile]
    budget = f"{search.percentile} within {LATENCY_BUDGET.text(search.budget_ms)}"
    lowest = f"the lowest reached is {LATENCY.text_with_interval(latency)}: {winner_text(search)}"
    text = f"none of {_tried_text(search)} keeps {budget}; {lowest}"
    median = search.load.latency_ms.get("p50")
    if search.rates is None or median is None or median.value <= search.budget_ms:
        return text
    return (
        f"{text}. A request takes {LATENCY.text(median.value)} (p50) there, so that no rate keeps the budget"
    )


def budget_text(search: Search) -> str:
    """The percentile with its interval, and the verdict on the budget."""
    latency = search.load.latency_ms[search.percentile]
    measured = f"{search.percentile} {LATENCY.text_with_interval(latency, search.budget_ms)}"
    return f"{measured} {BUDGET_WORDS[verdict_of(search)]} {LATENCY_BUDGET.text(search.budget_ms)}"


def winner_text(search: Search) -> str:
    load, settings = search.load, settings_text(search.load.scenario, search.deployment)
    if load.request_rate_per_s is not None:
        return f"{load.scenario}, {schedule(load)}, {settings}"
    batch = f"batch {load.batch}, " if load.scenario == "offline" else ""
    return f"{load.scenario}, {batch}concurrency {load.concurrency}, {settings}"


def settings_text(scenario: str, deployment: Deployment) -> str:
    """The settings that a search varies; static batching has neither preferred sizes nor a delay."""
    parts = [counted(deployment.instances, "instance")]
    if scenario == "online":
        sizes = " ".join(map(str, deployment.preferred_batch_sizes))
        parts += [f"preferred {sizes}"] if sizes else []
        delay = deployment.max_queue_delay_us
        parts.append(f"delay {delay:,} µs" if delay else "no delay")
    return ", ".join(parts)


def lead_text(lead: Estimate | None, other: str = "the runner-up") -> str:
    """How much faster the winner is than the other proven configuration."""
    if lead is None:
        return "no other configuration kept the budget"
    if not RATIO.is_shown(lead):
        return too_wide(other)
    said = f"{RATIO.text_with_interval(lead, 1.0)} times as fast as {other}"
    return f"{said}, which is not shown to keep the budget" if lead.high < 1 else said
