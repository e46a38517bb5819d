"""A soak in sentences and as a table: what grows, how soon by 1 GiB, and whether speed drops."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tritonproof.record import Growth, Soak, speed
from tritonproof.record.fields import Verdict
from tritonproof.record.quantities import COUNT, DURATION, GIVEN_SHARE, GROWTH, MEMORY, RATIO
from tritonproof.reports import phrases
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.tables.table import Block, Cell, Column, Heading, Table, cell_of, table

_VERDICTS: Mapping[Verdict, str] = {"passed": "no leak", "failed": "leak", "inconclusive": "inconclusive"}


def leak_sentences(soak: Soak) -> list[str]:
    return [
        f"{growth.resource} grows by {_growth_text(growth)}"
        + (f", 1 GiB in {time} at this rate" if (time := _time_until_text(growth, soak)) else "")
        for growth in soak.growth
        if growth.verdict == "failed"
    ]


def undecided_growth(soak: Soak, per: str) -> list[str]:
    """A sentence for each resource whose leak per request, or per loading, is neither shown nor ruled out."""
    return [
        f"{growth.resource} is not shown to leak, nor not to: {_growth_text(growth)}"
        for growth in soak.growth
        if growth.verdict == "inconclusive" and growth.per == per
    ]


def soak_text(soak: Soak) -> str:
    """The result of a soak that found no leak, beside its test's outcome: `no leak in 312,000 requests in
    600 s, and 24 loadings; memory of the server 2.1 B a request (-0.6 to 4.8); ...`."""
    memory = [
        f"{growth.resource} {_growth_text(growth)}"
        for growth in soak.growth
        if growth.resource in speed.PROCESS_MEMORY and growth.verdict == "passed"
    ]
    undecided = undecided_growth(soak, "loading")
    parts = [f"no leak in {_length_text(soak)}", *memory, *undecided, _speed_text(soak)]
    return "; ".join(filter(None, [*parts, *soak.not_watched]))


def _length_text(soak: Soak) -> str:
    requests = f"{COUNT.text(soak.requests)} requests"
    if soak.requests_per_s is not None:
        requests += f" in {DURATION.text(soak.duration_s)}"
    if repeated := soak.failed_attempt_count:
        attempts = "attempt at a pass" if repeated == 1 else "attempts at passes"
        requests += f", {COUNT.text(repeated)} failed {attempts}"
    return requests + (f", and {soak.loadings} loadings" if soak.loadings else "")


def _speed_text(soak: Soak) -> str:
    """The speed at the end over that at the beginning; empty if it is unknown or hidden."""
    if soak.end_over_begin is None:
        return ""
    return f"speed at the end over the beginning {RATIO.text_with_interval(soak.end_over_begin, 1.0)}"


def _growth_text(growth: Growth) -> str:
    """The growth with its interval: `1,034 B a request (1,029 to 1,041)`."""
    return GROWTH[growth.unit, growth.per].text_with_interval(growth.slope)


def _time_until_text(growth: Growth, soak: Soak) -> str:
    """The time until 1 GiB more is used at this rate; empty if nothing grows or the speed is hidden."""
    per_s, is_memory = soak.requests_per_s, (growth.unit, growth.per) == ("bytes", "request")
    if not is_memory or per_s is None or growth.slope.low <= 0:
        return ""
    hours = 2.0**30 / (growth.slope.value * per_s) / 3600
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:,.1f} days"


class _GrowthRow(NamedTuple):
    record: Publishable
    soak: Soak
    growth: Growth


def _used(growth: Growth, value: float) -> Cell:
    return cell_of(MEMORY if growth.unit == "bytes" else COUNT, value, with_unit=True)


def _slope(row: _GrowthRow) -> Cell:
    return cell_of(GROWTH[row.growth.unit, row.growth.per], row.growth.slope, "interval", with_unit=True)


_SOAK: Sequence[Column[_GrowthRow]] = (
    Column("Case", lambda row: f"`{row.record.name}`"),
    Column("What", lambda row: f"{row.growth.resource}, by {row.growth.per}"),
    Column("At first", lambda row: _used(row.growth, row.growth.first), right_aligned=True),
    Column("At last", lambda row: _used(row.growth, row.growth.last), right_aligned=True),
    Column("Growth", _slope, right_aligned=True),
    Column("1 GiB more in", lambda row: _time_until_text(row.growth, row.soak) or None, right_aligned=True),
    Column("Verdict", lambda row: _VERDICTS[row.growth.verdict]),
)


def soak_table(records: Sequence[Publishable]) -> Table:
    soaks = [(record, record.soak) for record in records if record.soak is not None]
    rows = [_GrowthRow(record, soak, growth) for record, soak in soaks for growth in soak.growth]
    return table(_SOAK, rows)


def soak_section(record: Publishable) -> list[Block]:
    """Heading, table and notes of one case; empty if there was no soak."""
    soak = record.soak
    if soak is None:
        return []
    how = "nothing was watched"
    if soak.growth:
        levels = dict.fromkeys(GIVEN_SHARE.text(growth.slope.confidence) for growth in soak.growth)
        how = (
            "what was used is read between passes, with no request in flight; growth is of the second half of"
            f" the requests, of the last two thirds of the loadings, with its {' or '.join(levels)} interval"
        )
    length = f"{phrases.full_point_text(soak.point)}: {_length_text(soak)}"
    sentences = map(phrases.sentence, (length, how, _speed_text(soak), *soak.not_watched))
    return [Heading("Soak", 4), soak_table([record]), " ".join(filter(None, sentences))]
