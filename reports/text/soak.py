"""Sentences on a soak: what grows, by how much, how soon it uses 1 GiB more, and whether speed drops."""

from collections.abc import Mapping

from reports.record.quantities import COUNT, DURATION, GIVEN_SHARE, GROWTH, NOTHING, RATIO
from reports.record.schema import Growth, Soak, Verdict
from reports.record.verdicts import too_wide

_GIB = 2.0**30
VERDICT_WORDS: Mapping[Verdict, str] = {"passed": "no leak", "failed": "leak", "not shown": "not shown"}


def leaks(soak: Soak) -> list[str]:
    """A sentence for each leak that is shown."""
    return [
        f"{resource.what} grows by {growth_text(resource)}{_until(resource, soak)}"
        for resource in soak.growth
        if resource.verdict == "failed"
    ]


def unknown(soak: Soak, per: str) -> list[str]:
    """A sentence for each resource whose leak per request, or per loading, is neither shown nor ruled out."""
    return [
        f"{resource.what} is not shown to leak, nor not to: {growth_text(resource)}"
        for resource in soak.growth
        if resource.verdict == "not shown" and resource.per == per
    ]


def soak_text(soak: Soak) -> str:
    """The result beside the test's outcome: `no leak in 312,000 requests in 600 s, and 24 loadings; memory of
    the server 2.1 B a request (-0.6 to 4.8); speed at the end 1.01 (0.99 to 1.03) of the beginning`."""
    title = "; ".join([*leaks(soak), *unknown(soak, "request")]) or "no leak"
    memory = [
        resource
        for resource in soak.growth
        if resource.what.startswith("memory") and resource.verdict == "passed"
    ]
    parts = [
        f"{title} in {length_text(soak)}",
        *(f"{resource.what} {growth_text(resource)}" for resource in memory),
    ]
    parts += unknown(soak, "loading") + unknown(soak, "failed_loading")
    return "; ".join([*parts, *filter(None, [speed_text(soak)]), *soak.not_watched])


def length_text(soak: Soak) -> str:
    requests = f"{COUNT.text(soak.requests)} requests"
    if soak.requests_per_s is not None:
        requests += f" in {DURATION.text(soak.duration_s)}"
    loadings = f", and {soak.loadings} loadings" if soak.loadings else ""
    return requests + loadings + (f", and {soak.failed_loadings} that failed" if soak.failed_loadings else "")


def speed_text(soak: Soak) -> str:
    """The speed at the end over that at the beginning; empty if unknown or hidden."""
    if soak.end_over_begin is None:
        return ""
    if not RATIO.is_shown(soak.end_over_begin):
        return f"speed at the end over the beginning: {too_wide()}"
    return f"speed at the end {RATIO.text_with_interval(soak.end_over_begin, 1.0)} of the beginning"


def growth_text(growth: Growth) -> str:
    """The growth with its interval: `1,034 B a request (1,029 to 1,041)`."""
    return GROWTH[growth.unit, growth.per].text_with_interval(growth.slope)


def confidence_text(soak: Soak) -> str:
    return " or ".join(dict.fromkeys(GIVEN_SHARE.text(resource.slope.confidence) for resource in soak.growth))


def time_until_text(growth: Growth, soak: Soak) -> str:
    """How long until 1 GiB more is used at this rate; `-` if nothing grows, or for a hidden speed."""
    if (
        growth.unit != "bytes"
        or growth.per != "request"
        or soak.requests_per_s is None
        or growth.slope.low <= 0
    ):
        return NOTHING
    hours = _GIB / (growth.slope.value * soak.requests_per_s) / 3600
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:,.1f} days"


def _until(growth: Growth, soak: Soak) -> str:
    time = time_until_text(growth, soak)
    return "" if time == NOTHING else f", 1 GiB in {time} at this rate"
