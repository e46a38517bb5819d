"""The changes between two sets of records as tables and sentences; worse is bold, better italic."""

from collections.abc import Iterable, Sequence

from tritonproof.ratios import FALSE_ALARM_RATE
from tritonproof.record.quantities import GIVEN_SHARE, LATENCY, METRIC_CHANGES, P_VALUE, RATIO, THROUGHPUT
from tritonproof.record.speed import Mark
from tritonproof.reports import compare
from tritonproof.reports.compare import CaseChange, PairedScores, PointChange, RecordSet, ScoreChange
from tritonproof.reports.correctness_text import metric_text, no_score_text, unmeasured_text
from tritonproof.reports.phrases import counted, days_text, first_of, full_point_text
from tritonproof.reports.tables.rendering import bold, code, italic, join_markdown
from tritonproof.reports.tables.table import Block, Bullets, Cell, Column, Heading, cell_of, table

_SPEED = {"worse": bold("slower"), "better": italic("faster"), "unclear": "no difference shown"}
_ACCURACY = {"worse": bold("worse"), "better": italic("better"), "unclear": "no difference shown"}
_SPEEDS = (bold("slower"), italic("faster"), "too few passes")
"""The words that a case's cell counts among its load points, in their order."""
_SCORES = (bold("worse"), italic("better"), "not paired", "no difference shown", "no sample changed")
"""The words for a metric; a case's cell has the first that is true of any of its metrics."""


def comparison_blocks(before: RecordSet, after: RecordSet, cases: Sequence[CaseChange]) -> list[Block]:
    """The comparison of two sets of records: an overview, then a section for each case that both have."""
    first = cases[0].setup if len(cases) > 1 else []
    common = [setting for setting in first if all(setting in case.setup for case in cases)]
    sections = [block for case in cases for block in _case_section(case, common)]
    paired = {record.name for case in cases for record in (case.before, case.after)}
    unpaired = [map(code, sorted(source.records.keys() - paired)) for source in (before, after)]
    return [
        Heading("Before and after", 1),
        _origins(before, after),
        *_overview(cases, common),
        *_one_sided(", ", *unpaired),
        *sections,
    ]


def _origins(before: RecordSet, after: RecordSet) -> Bullets:
    """Where each set's records are, how many they are, and when they were measured."""
    origins = []
    for when, source in (("before", before), ("after", after)):
        days = days_text(record.updated for record in source.records.values())
        measured = f", measured {days}" if days else ""
        origins.append(f"{when}: {source.argument}, {counted(len(source.records), 'case')}{measured}")
    return Bullets(origins)


def _overview(cases: Sequence[CaseChange], common: Sequence[compare.SettingChange]) -> list[Block]:
    """The settings that differ in all cases, a row for each case, and the meanings of the words."""
    shared: list[Block] = []
    if machines := compare.machine_changes(cases):
        differ = f": {_settings_text(machines)}. The ratios of speed hold that too."
        shared.append(join_markdown([bold("The machines differ"), differ], ""))
    if others := [setting for setting in common if setting not in machines]:
        shared.append(f"Differs in all {len(cases)} cases: {_settings_text(others)}.")
    columns: list[Column[CaseChange]] = [
        Column("Case", _case_name),
        Column("Setup", lambda case: ", ".join(one.name for one in case.setup if one not in common) or None),
        Column("Accuracy", _accuracy_cell),
        Column("Speed", _speed_cell),
    ]
    return [*shared, table(columns, cases), *_legend(cases)]


def _one_sided(between: str, only_before: Iterable[str], only_after: Iterable[str]) -> list[str]:
    listed = [("before", between.join(only_before)), ("after", between.join(only_after))]
    return [f"Only {when}: {names}." for when, names in listed if names]


def _settings_text(settings: Iterable[compare.SettingChange]) -> str:
    """Each setting with its value before and after: `versions.torch 2.12.0 → 2.13.0; ...`."""
    return "; ".join(f"{setting.name} {setting.before} → {setting.after}" for setting in settings)


def _accuracy_cell(case: CaseChange) -> str:
    """The gravest word for any metric, and whether the case passes now or no longer."""
    words = set()
    for score in case.scores:
        pairs = score.pairs
        if isinstance(pairs, str) or score.why_unknown:
            words.add("not paired")
        else:
            words.add(_ACCURACY[pairs.outcome] if pairs.lost or pairs.gained else "no sample changed")
    worst = next((word for word in _SCORES if word in words), "not measured")
    passes = [not record.is_wrong for record in (case.before, case.after)]
    if passes == [True, False]:
        return join_markdown([bold("passes no longer"), worst], ", ")
    return join_markdown([worst, italic("passes now")], ", ") if passes == [False, True] else worst


def _speed_cell(case: CaseChange) -> str:
    words = [_speed_word(point) for point in case.points]
    if not words:
        is_hidden = case.before.why_no_speed or case.after.why_no_speed
        return "not shown" if is_hidden else "no point in both"
    counts = [join_markdown([str(words.count(word)), word], " ") for word in _SPEEDS if word in words]
    return join_markdown([join_markdown(counts, ", "), f"of {len(words)}"], " ") if counts else words[0]


def _speed_word(point: PointChange) -> str:
    if point.ratio is not None and point.outcome == "unclear" and point.allowed_slowdown:
        return f"not shown slower than the {GIVEN_SHARE.text(point.allowed_slowdown)} allowed"
    return "too few passes" if point.ratio is None else _SPEED[point.outcome]


def _legend(cases: Sequence[CaseChange]) -> list[str]:
    points = [point for case in cases for point in case.points]
    sentences = []
    if points:
        allowed, tested = points[0].allowed_slowdown, sum(point.ratio is not None for point in points)
        slower = f"slower (by more than the {GIVEN_SHARE.text(allowed)} allowed)" if allowed else "slower"
        sentences.append(
            "Speed: the ratio is the speed after divided by that before, with Welch's 95 % interval of the "
            f"passes on record, of each point by itself; {slower} and faster are what is shown among "
            f"{tested} points, so that chance alone calls any of them slower, or any of them faster, in at "
            f"most {GIVEN_SHARE.text(FALSE_ALARM_RATE)} of all comparisons (Holm's correction). It covers "
            "what varied while each was measured, not what the machine changed in between: `--against` "
            "measures both in turns."
        )
    if any(isinstance(score.pairs, PairedScores) for case in cases for score in case.scores):
        sentences.append(
            "Accuracy: of the samples that both scored. Lost are those scored worse. p is the chance of a "
            "difference this large if chance decided which run each score came from (the permutation test, "
            "of scores of 0 and 1 McNemar's); below 5 % a difference is shown."
        )
    return sentences


def _case_section(case: CaseChange, common: Sequence[compare.SettingChange]) -> list[Block]:
    specific = [setting for setting in case.setup if setting not in common]
    missing = [no_score_text(record) for record in (case.before, case.after)]
    scores = [_score_text(score, case) for score in case.scores]
    scores = scores or [f"Accuracy: before {missing[0]}, after {missing[1]}"]
    before, after = (map(full_point_text, points) for points in (case.only_before, case.only_after))
    return [
        Heading(_case_name(case), 2),
        Bullets([*([f"Setup: {_settings_text(specific)}"] if specific else []), *scores]),
        *_reasons_for_missing_figures(case),
        table(_POINTS, case.points, marks=_both_marks),
        *_one_sided("; ", before, after),
    ]


def _case_name(case: CaseChange) -> str:
    """The case's name, or both names where the sides differ."""
    return " → ".join(dict.fromkeys((case.before.name, case.after.name)))


def _reasons_for_missing_figures(case: CaseChange) -> list[str]:
    sides = (("before", case.before), ("after", case.after))
    reasons = ((when, record.why_no_speed or unmeasured_text(record)) for when, record in sides)
    return [f"{when}: {reason}" for when, reason in reasons if reason]


def _score_text(change: ScoreChange, case: CaseChange) -> str:
    """`top-1: 98.2 % → 97.8 %, ...`, and the ids of samples that changed."""
    sides = ((change.before, case.before), (change.after, case.after))
    values = [metric_text(score, score.served) if score else no_score_text(record) for score, record in sides]
    line, pairs = f"{change.metric}: {' → '.join(values)}", change.pairs
    if isinstance(pairs, str):
        return f"{line}; not paired by sample: {pairs}"
    if pairs.lost or pairs.gained:
        difference = METRIC_CHANGES[change.better].text(pairs.difference)
        p_value = "p < 0.001" if pairs.p_value < 0.001 else f"p = {P_VALUE.text(pairs.p_value)}"
        counts = f"of {pairs.samples} samples in both {len(pairs.lost)} lost and {len(pairs.gained)} gained"
        parts = [f"{line}; {counts}, difference {difference}, {p_value}:", _ACCURACY[pairs.outcome]]
    else:
        parts = [f"{line}; the same on each of {pairs.samples} samples in both"]
    ids = {"lost": list(map(code, pairs.lost)), "gained": list(map(code, pairs.gained))}
    unmatched = ((pairs.only_before, "before"), (pairs.only_after, "after"))
    remarks = [f"{change} {first_of(names, 5)}" for change, names in ids.items() if names]
    remarks += [f"{count} only {when}" for count, when in unmatched if count]
    return join_markdown([*parts, *([f"({'; '.join(remarks)})"] if remarks else [])], " ")


def _ratio_cell(point: PointChange) -> Cell:
    return cell_of(RATIO, point.ratio, "interval", 1.0, 1 - point.allowed_slowdown)


_POINTS: Sequence[Column[PointChange]] = (
    Column("Load point", lambda point: full_point_text(point.before.point), narrow="Load point"),
    Column("infer/s, before", lambda point: point.before.throughput_per_s, THROUGHPUT, narrow="/s before"),
    Column("infer/s, after", lambda point: point.after.throughput_per_s, THROUGHPUT, narrow="/s after"),
    Column("after / before", _ratio_cell, RATIO, narrow="after / before"),
    Column("p99 (ms), before", lambda point: point.before.latency_ms.get("p99"), LATENCY),
    Column("p99 (ms), after", lambda point: point.after.latency_ms.get("p99"), LATENCY),
    Column("Speed", _speed_word, narrow="Speed"),
)


def _both_marks(point: PointChange) -> list[Mark]:
    sides = (("before", point.before), ("after", point.after))
    return [
        Mark(f"{when}-{mark.code}", f"{when}: {mark.text}") for when, result in sides for mark in result.marks
    ]
