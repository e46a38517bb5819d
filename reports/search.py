"""What a search within a latency budget found, in words."""

from reports.record import Estimate, Load, Search


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
    deployment = search.deployment
    parts = [_load(search.load), _counted(deployment.instances, "instance")]
    if search.load.scenario == "online":
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
    if lead.high < 1:
        return f"{100 * (1 - lead.value):.0f} % slower than the runner-up ({interval})"
    return f"no different from the runner-up ({interval})"


def _lead(search: Search) -> str:
    return f"; {lead_text(search.lead)}"


def _load(load: Load) -> str:
    batch = f"batch {load.batch}, " if load.scenario == "offline" else ""
    return f"{load.scenario}, {batch}concurrency {load.concurrency}"


def _interval(one: Estimate) -> str:
    return f"{_number(one.low)} to {_number(one.high)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _number(value: float) -> str:
    """Three significant digits."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
