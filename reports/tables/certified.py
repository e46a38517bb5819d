"""The table of percentiles one can sign: what p99 and p99.9 are at most."""

from reports.record.certificates import BY, certified_cell
from reports.record.quantities import COUNT, GIVEN_SHARE, LATENCY
from reports.record.schema import CertifiedPercentile
from reports.tables.points import loads_of
from reports.words.labels import point
from reports.words.markdown import markdown
from reports.words.shown import Shown


def certified_table(record: Shown, scenario: str) -> str:
    """A row per load point with each percentile and its bound; empty where no point has a bound."""
    loads = loads_of(record, scenario)
    found = [one for load in loads for one in load.certified.values()]
    if all(one.bound_ms is None for one in found):
        return ""
    names = list(dict.fromkeys(name for load in loads for name in load.certified))
    rows = [
        [
            point(load),
            COUNT.cell(load.requests),
            *(cell for name in names for cell in _cells(load.certified.get(name))),
        ]
        for load in loads
    ]
    columns = [heading for name in names for heading in (name, f"{name} at most")]
    levels = " or ".join(sorted({GIVEN_SHARE.text(one.confidence) for one in found}))
    said = (
        f"At most: with {levels} confidence, by the rule of {BY}, which counts requests as independent of each other. "
        "`--certify 99` measures until there is a bound."
    )
    table = markdown(("Load point", "Requests", *columns), rows, "l" + "r" * (1 + len(columns)))
    return f"{table}\n\n{said}"


def _cells(one: CertifiedPercentile | None) -> tuple[str, str]:
    return LATENCY.cell(one.value_ms if one else None), certified_cell(one)
