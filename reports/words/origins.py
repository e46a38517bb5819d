"""Where measurements come from, in words: host, commit and start of the run."""

from collections.abc import Iterable, Sequence

from reports.record.origins import origins_of
from reports.record.schema import Origin, Record

_LISTED = 4
"""How many hosts, commits and runs are listed; further ones are only counted."""
_COMMIT_LENGTH = 12


def commit_text(origin: Origin) -> str:
    """The commit, short, and whether the checkout was changed since; empty where it was of none."""
    if origin.commit is None:
        return ""
    return origin.commit[:_COMMIT_LENGTH] + ("" if origin.clean else ", changed")


def started_text(origin: Origin) -> str:
    """When the run began, to the minute: `2026-11-22 07:25 UTC`."""
    date, _, time = origin.started.partition("T")
    return f"{date} {time[:5]} UTC" if time else date


def days_text(times: Iterable[str]) -> str:
    """The days of some times in ISO 8601: `2026-03-04 to 2026-03-06`, the day of a single one; empty without any."""
    days = sorted({time[:10] for time in times} - {""})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def measured_text(records: Sequence[Record]) -> str:
    """`on node7, node8; commit c0ffee000000, changed; run began 2026-11-22 07:25 UTC`; empty where no record says. A host
    that was left out is left out."""
    found = [one for record in records for one in origins_of(record)]
    parts = (
        ("on ", [one.host for one in found]),
        ("commit ", map(commit_text, found)),
        ("run began ", sorted(map(started_text, found))),
    )
    texts = ((beginning, _listed(values)) for beginning, values in parts)
    return "; ".join(f"{beginning}{text}" for beginning, text in texts if text)


def origin_rows(record: Record) -> list[tuple[str, str]]:
    """What each run that the record has measurements of says of itself, for a table of two columns."""
    rows = []
    for one in origins_of(record):
        rows += [
            ("Run", f"{one.run}, began {started_text(one)}"),
            ("Host", one.host),
            ("Commit of the suite", commit_text(one)),
        ]
    return [row for row in rows if row[1]]


def _listed(values: Iterable[str]) -> str:
    """The values in a line, each once, and of many the first few and how many more there are."""
    found = list(dict.fromkeys(value for value in values if value))
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    separator = "; " if any(", " in value for value in found) else ", "
    return separator.join(found[:_LISTED]) + more
