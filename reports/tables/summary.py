"""The summary of a target, one row per case: is it right, how fast is it at its best, and beside what is that."""

import operator
from collections.abc import Mapping, Sequence

from reports.published.matching import published_ratio
from reports.record.quantities import NOT_SHOWN, NOTHING, RATIO, THROUGHPUT, WIDEST_RATIO
from reports.record.schema import MARKS, Estimate, Load, case_id
from reports.tables.provenance import serving_sentence
from reports.tables.resources import cost_cell, price_sentence
from reports.words.grouping import grouped
from reports.words.labels import (
    confidence_levels,
    format_text,
    kind_of_device,
    latency,
    letter,
    point,
    size,
)
from reports.words.latency_budget import search_paragraph
from reports.words.markdown import markdown, text
from reports.words.ranking import best_load, ranked, ranks, ratio_to_reference, reference_names, reference_of
from reports.words.rightness import (
    has_random_weights,
    main_score,
    metric_text,
    tightest,
    unmeasured,
    unscored,
)
from reports.words.serving_cost import version_note
from reports.words.shown import Shown, name_of

RATE, P99, RANK, BESIDE, PUBLISHED, IN_PROCESS = (
    "Inferences/second",
    "P99 (ms)",
    "Rank",
    "Ratio to reference",
    "Ratio to published",
    "Ratio to in process",
)
COST = "Cost per million correct"

SUMMARY_COLUMNS = (
    "Model",
    "Format",
    "Precision",
    "Machine",
    "Accuracy",
    "Floor",
    RATE,
    "At",
    P99,
    RANK,
    BESIDE,
    PUBLISHED,
    IN_PROCESS,
    COST,
    "Note",
)
"""A column without any figure is left out."""
OPEN = "+"
"""The sign of a p99 latency whose interval is open above."""
_OPEN_P99 = f", with a {OPEN} where the requests were too few for an upper bound of it"
_ALIGNMENT = "llllllrlrrrrrrl"


Note = tuple[str, str]
"""What a reader should know about a row and its cells cannot hold: its kind, which is the code of a mark or the sentence
itself, and the sentence. Notes of one kind share a letter."""


def summary_table(records: Sequence[Shown]) -> str:
    """A table per target, one row per case; below it what its columns mean, who served, and what to be careful of."""
    targets = grouped(records, lambda record: record.case.target)
    if len(targets) == 1:
        return _target_table(records)
    return "\n\n".join(
        f"Target `{target}`, {text(kind_of_device(group[0]))}:\n\n{_target_table(group)}"
        for target, group in targets.items()
    )


def noted_rows(records: Sequence[Shown]) -> tuple[list[dict[str, str]], list[str]]:
    """The cells of each case of one target by column, and the notes below them: those that letters stand for, and what
    searches found."""
    placed = ranks(records)
    notes = [_notes(record) for record in records]
    sentences = _sentences([note for of_case in notes for note in of_case])
    letters = {kind: letter(place) for place, kind in enumerate(sentences)}
    rows = [
        summary_row(record, placed) | {"Note": ", ".join(letters[kind] for kind, _ in of_case)}
        for record, of_case in zip(records, notes, strict=True)
    ]
    remarks = [f"{letters[kind]}: {text(sentence)}" for kind, sentence in sentences.items()]
    found = ((name_of(record), search_paragraph(record)) for record in records)
    return rows, remarks + [f"`{case}`: {text(paragraph)}" for case, paragraph in found if paragraph]


def _target_table(of_target: Sequence[Shown]) -> str:
    records = ranked(of_target)
    rows, notes = noted_rows(records)
    columns = [name for name in SUMMARY_COLUMNS if any(cells[name] not in ("-", "") for cells in rows)]
    alignment = dict(zip(SUMMARY_COLUMNS, _ALIGNMENT, strict=True))
    blocks = [
        markdown(
            columns,
            [[cells[name] for name in columns] for cells in rows],
            "".join(alignment[name] for name in columns),
        ),
        *summary_remarks(columns, records, rows),
        "\n".join(f"- {note}" for note in notes),
    ]
    return "\n\n".join(filter(None, blocks))


def summary_row(record: Shown, placed: Mapping[str, int]) -> dict[str, str]:
    """The cells of a case by column; `-` where there is no figure, or none may be shown. `placed` is what `ranks` gives."""
    case, score, best = record.case, main_score(record), best_load(record)
    limit = tightest(score) if score else None
    ceiling = "≤ " if score and score.better == "lower" else ""
    published = published_ratio(record, best) if best else None
    return {
        "Model": case.model,
        "Format": format_text(record),
        "Precision": case.precision.upper(),
        "Machine": record.of_machine or "-",
        "Accuracy": f"{score.metric} {metric_text(score, score.served)}" if score else unscored(record),
        "Floor": f"{ceiling}{metric_text(score, limit.value)}" if score and limit else "-",
        RATE: THROUGHPUT.cell_with_half_width(best.throughput_per_s) if best else "-",
        "At": point(best) if best else "-",
        P99: _p99(best) if best else "-",
        RANK: str(placed.get(name_of(record), "-")),
        BESIDE: _beside(record),
        PUBLISHED: _published(published),
        IN_PROCESS: _in_process(record, best) if best else "-",
        COST: cost_cell(record, best),
    }


def _p99(best: Load) -> str:
    """The p99 latency of a point, with a sign where nothing says how high it may be."""
    p99 = best.latency_ms.get("p99")
    return latency(best, "p99") + (OPEN if p99 and p99.open_above else "")


def _beside(record: Shown) -> str:
    ratio = ratio_to_reference(record)
    if ratio is None:
        return "-"
    is_reference = reference_of(record) == case_id(record.case)
    return "reference" if is_reference else RATIO.cell_with_interval(ratio)


def _published(ratio: Estimate | None) -> str:
    if ratio is None:
        return NOTHING
    return RATIO.cell(ratio.value) if RATIO.is_shown(ratio) else NOT_SHOWN


def _in_process(record: Shown, best: Load) -> str:
    """The ratio at the best point, else at another that it was measured at, which it then names."""
    here = (best.scenario, best.batch, best.concurrency)
    found = {(one.scenario, one.batch, one.concurrency): one.ratio for one in record.efficiency}
    if not found:
        return "-"
    where = here if here in found else next(iter(found))
    ratio = RATIO.cell_with_interval(found[where])
    return ratio if where == here else f"{ratio}, {size(*where)}"


def _notes(record: Shown) -> list[Note]:
    sentences = []
    if record.no_speed and (record.hidden or not search_paragraph(record)):
        sentences.append(record.no_speed)
    if main_score(record) is None and has_random_weights(record):
        sentences.append(f"{unmeasured(record)}.")
    if note := version_note(record):
        sentences.append(note)
    best = best_load(record)
    marks = best.marks if best else ()
    return [(sentence, sentence) for sentence in sentences] + [(mark.code, mark.text) for mark in marks]


def _sentences(notes: Sequence[Note]) -> Mapping[str, str]:
    """One sentence for each kind, in the order of the table: what all say alike, else what the code means."""
    found = {}
    for kind, alike in grouped(notes, operator.itemgetter(0)).items():
        sentences = list(dict.fromkeys(sentence for _, sentence in alike))
        found[kind] = sentences[0] if len(sentences) == 1 else MARKS.get(kind, "; ".join(sentences))
    return found


def _legend(columns: Sequence[str], records: Sequence[Shown], rows: Sequence[Mapping[str, str]]) -> str:
    """What the columns that are there mean; empty where no case shows a speed."""
    bests = [best for record in records if (best := best_load(record))]
    if not bests:
        return ""
    sentences = [
        f"{RATE}: the best of a case's load points, ± half the width of its {confidence_levels(bests)} confidence interval; "
        f"P99 is the latency there{_OPEN_P99 if any(OPEN in cells[P99] for cells in rows) else ''}. A batch is of the offline "
        "scenario, a concurrency of the online one."
    ]
    if BESIDE in columns:
        sentences.append(
            f"{BESIDE}: over {text(' or '.join(reference_names(records)))} of the same model, each at its best, measured in turns, "
            f"with its 95 % interval. {RANK}: one more than how many formats of the model are shown to be faster; those "
            "whose intervals meet share it."
        )
    if PUBLISHED in columns:
        sentences.append(
            f"{PUBLISHED}: over NVIDIA's figure for the same GPU, format, precision and load point; what else differs: "
            "`python -m reports published`."
        )
    if IN_PROCESS in columns:
        sentences.append(
            f"{IN_PROCESS}: over the same artifact without a server, measured in turns, with its 95 % interval."
        )
    if any(cells[name].startswith(NOT_SHOWN) for cells in rows for name in (BESIDE, PUBLISHED, IN_PROCESS)):
        sentences.append(f"A ratio whose interval is wider than a factor of {WIDEST_RATIO:g} is not shown.")
    return " ".join(sentences)


def summary_remarks(
    columns: Sequence[str], records: Sequence[Shown], rows: Sequence[Mapping[str, str]]
) -> list[str]:
    """What the columns that are there mean, at what price, and who served; `rows` are the records' cells."""
    found = (
        _legend(columns, records, rows),
        price_sentence(records) if COST in columns else "",
        serving_sentence(records),
    )
    return [one for one in found if one]
