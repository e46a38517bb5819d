"""The table of what grew in a soak: memory, shared memory, open files and threads of the server."""

from collections.abc import Sequence

from reports.record.quantities import COUNT, GROWTH, SIZE
from reports.record.schema import Growth, Soak
from reports.words.labels import full_point
from reports.words.markdown import markdown, text
from reports.words.shown import Shown, name_of
from reports.words.soaking import VERDICT_WORDS, confidence_text, length_text, speed_text, time_until_text

COLUMNS = ("Case", "What", "At first", "At last", "Growth", "1 GiB more in", "Verdict")


def soak_table(records: Sequence[Shown]) -> str:
    """A row for each thing that a case's soak watched; empty where there was no soak."""
    rows = [
        [f"`{name_of(record)}`", *_cells(one, record.soak)]
        for record in records
        if record.soak is not None
        for one in record.soak.growth
    ]
    return markdown(COLUMNS, rows, "llrrrrl") if rows else ""


def soak_section(record: Shown) -> str:
    """Heading, table and what is said beside it, of one case; empty where there was no soak."""
    soak = record.soak
    if soak is None:
        return ""
    said = [
        f"{full_point(soak)}: {length_text(soak)}. What was used is read between passes, with no request in flight; growth is "
        f"of the second half of the requests, of the last two thirds of the loadings, with its {confidence_text(soak)} interval."
        if soak.growth
        else f"{full_point(soak)}: {length_text(soak)}. Nothing was watched.",
        *filter(None, [speed_text(soak)]),
        *soak.not_watched,
    ]
    sentences = " ".join(f"{one[0].upper()}{one[1:].removesuffix('.')}." for one in said)
    return "\n\n".join(filter(None, ["#### Soak", soak_table([record]), text(sentences)]))


def _cells(one: Growth, soak: Soak) -> list[str]:
    return [
        f"{one.what}, by {one.per}",
        _used(one, one.first),
        _used(one, one.last),
        GROWTH[one.unit, one.per].text_with_interval(one.slope),
        time_until_text(one, soak),
        VERDICT_WORDS[one.verdict],
    ]


def _used(one: Growth, value: float) -> str:
    return SIZE.text(value / 2**20) if one.unit == "bytes" else COUNT.text(value)
