"""The changes between records, as tables and sentences: worse in bold, better in italics."""

import operator
from collections.abc import Callable, Iterable, Sequence

from reports.compare.changes import CaseChange, Changes, PointChange, ScoreChange, Setting
from reports.compare.paired_scores import Paired
from reports.record.quantities import GIVEN_SHARE, LATENCY, METRIC_CHANGES, P_VALUE, RATIO, THROUGHPUT
from reports.record.ratio import FALSE_ALARMS
from reports.record.schema import Estimate, Load, Mark, Record, Score
from reports.sources import Source, Stored
from reports.tables.table import Block, Bullets, Cell, Column, Heading, Table, figure, table
from reports.text.correctness import metric_text, unmeasured
from reports.text.inline import bold, code, italic, joined
from reports.text.labels import counted, days_text, first_of, full_point, grouped
from reports.text.publishable import name_of

_SHOWN_IDS = 5
_SPEED = {"failed": bold("slower"), "passed": italic("faster"), "not shown": "no difference shown"}
_ACCURACY = {"failed": bold("worse"), "passed": italic("better"), "not shown": "no difference shown"}
_SPEEDS = (bold("slower"), italic("faster"), "too few passes")
"""The words that a case's cell counts among its load points, in this order."""
_SCORES = (bold("worse"), italic("better"), "not paired", "no difference shown", "no sample changed")
"""The words for a metric; a case's cell has the first that applies to any of its metrics."""


def document(changes: Sequence[Changes]) -> list[Block]:
    return [block for comparison in changes for block in _part(comparison)]


def _part(changes: Changes) -> list[Block]:
    before, after = changes.before, changes.after
    first = changes.cases[0].setup if len(changes.cases) > 1 else []
    common = [setting for setting in first if all(setting in case.setup for case in changes.cases)]
    return [
        Heading(f"{after.letter} against {before.letter}", 1),
        Bullets([_origin(source) for source in (before, after)]),
        *_shared(changes, common),
        _summary(changes.cases, common),
        *_legend(changes),
        *_only(", ", (before, map(code, changes.only_before)), (after, map(code, changes.only_after))),
        *(block for case in changes.cases for block in _case(case, common)),
    ]


def _origin(source: Source) -> str:
    """`A: folder, 20 cases, measured 2026-03-04`."""
    days = days_text(stored.record.updated for stored in source.records.values())
    measured = f", measured {days}" if days else ""
    return f"{source.letter}: {source.name}, {counted(len(source.records), 'case')}{measured}"


def _only(between: str, *sides: tuple[Source | Stored, Iterable[str]]) -> list[str]:
    listed = [(side.letter, between.join(names)) for side, names in sides]
    return [f"Only in {letter}: {names}." for letter, names in listed if names]


# --- all cases ---------------------------------------------------------------------------------------------


def _shared(changes: Changes, common: Sequence[Setting]) -> list[str]:
    blocks: list[str] = []
    machines = [
        setting for case in changes.cases for setting in case.setup if setting.name.startswith("machine.")
    ]
    if machines:
        differ = f": {_settings(dict.fromkeys(machines))}. The ratios of speed hold that too."
        blocks.append(joined([bold("The machines differ"), differ], ""))
    others = [setting for setting in common if setting not in machines]
    if others:
        blocks.append(f"Differs in all {len(changes.cases)} cases: {_settings(others)}.")
    return blocks


def _settings(settings: Iterable[Setting]) -> str:
    """Each setting with its value before and after: `versions.torch 2.12.0 → 2.13.0; ...`."""
    return "; ".join(f"{setting.name} {setting.before} → {setting.after}" for setting in settings)


def _summary(cases: Sequence[CaseChange], common: Sequence[Setting]) -> Table:
    def setup(case: CaseChange) -> str | None:
        return ", ".join(setting.name for setting in case.setup if setting not in common) or None

    columns: list[Column[CaseChange]] = [
        Column("Case", _case_name),
        Column("Setup", setup),
        Column("Accuracy", _accuracy_cell),
        Column("Speed", _speed_cell),
    ]
    return table(columns, cases)


def _accuracy_cell(case: CaseChange) -> str:
    """The worst change of any metric, and whether the case began or ceased to pass."""
    words = [_score_word(score.pairs) for score in case.scores]
    worst = next((word for word in _SCORES if word in words), "not measured")
    passes = [not stored.record.no_speed for stored in (case.before, case.after)]
    if passes == [True, False]:
        return joined([bold("passes no longer"), worst], ", ")
    return joined([worst, italic("passes now")], ", ") if passes == [False, True] else worst


def _score_word(pairs: Paired | str) -> str:
    if isinstance(pairs, str):
        return "not paired"
    return _ACCURACY[pairs.verdict] if pairs.lost or pairs.gained else "no sample changed"


def _speed_cell(case: CaseChange) -> str:
    words = [_speed_word(point) for point in case.points]
    if not words:
        return "not shown" if _hidden(case) else "no point in both"
    counts = [joined([str(words.count(word)), word], " ") for word in _SPEEDS if word in words]
    return joined([joined(counts, ", "), f"of {len(words)}"], " ") if counts else "no difference shown"


def _speed_word(point: PointChange) -> str:
    return "too few passes" if point.ratio is None else _SPEED[point.verdict]


def _legend(changes: Changes) -> list[str]:
    """The meaning of the words that the tables use."""
    before, after = changes.before.letter, changes.after.letter
    points = [point for case in changes.cases for point in case.points]
    blocks = []
    if points:
        blocks.append(
            f"Speed: the ratio is {after} over {before}, with Welch's 95 % interval of the passes on record, "
            f"of each point by itself; slower and faster are what is shown among {len(points)} points, so "
            "that chance alone calls any of them slower, or any of them faster, in at most "
            f"{GIVEN_SHARE.text(FALSE_ALARMS)} of all comparisons (Holm's correction). It covers what varied "
            "while each was measured, not what the machine changed in between: `--against` measures both in "
            "turns."
        )
    if any(isinstance(score.pairs, Paired) for case in changes.cases for score in case.scores):
        blocks.append(
            "Accuracy: of the samples that both scored. Lost are those scored worse; the difference has a 95 "
            "% interval (Newcombe's of scores of 0 and 1, else Student's), p is that of the exact test by "
            "McNemar or of flipped signs, and a difference is shown where both say so."
        )
    reasons = [(change.pairs, f"`{_case_name(case)}`") for case in changes.cases for change in case.scores]
    for reason, unpaired in grouped(reasons, operator.itemgetter(0)).items():
        if isinstance(reason, str):
            names = dict.fromkeys(name for _, name in unpaired)
            which = "all cases" if len(names) == len(changes.cases) else ", ".join(names)
            blocks.append(f"Not paired by sample, so that the scores alone are shown: {reason}: {which}.")
    return blocks


# --- one case ----------------------------------------------------------------------------------------------


def _case(case: CaseChange, common: Sequence[Setting]) -> list[Block]:
    specific = [setting for setting in case.setup if setting not in common]
    unscored = [f"{stored.letter} {unmeasured(stored.record)}" for stored in (case.before, case.after)]
    scores = [_score(score, case) for score in case.scores] or [f"Accuracy: {', '.join(unscored)}"]
    before, after = (map(full_point, loads) for loads in (case.only_before, case.only_after))
    return [
        Heading(_case_name(case), 2),
        Bullets([*([f"Setup: {_settings(specific)}"] if specific else []), *scores]),
        *_hidden(case),
        _points(case),
        *_only("; ", (case.before, before), (case.after, after)),
    ]


def _case_name(case: CaseChange) -> str:
    """The case's name, or both names where the sides differ."""
    return " → ".join(dict.fromkeys(name_of(stored.record) for stored in (case.before, case.after)))


def _hidden(case: CaseChange) -> list[str]:
    sides = (case.before, case.after)
    return [f"{side.letter}: {side.record.no_speed}" for side in sides if side.record.no_speed]


def _score(change: ScoreChange, case: CaseChange) -> str:
    """`top-1: 98.2 % → 97.8 %, ...`, and the ids of samples that changed."""
    values = [_value(change.before, case.before.record), _value(change.after, case.after.record)]
    line = f"{change.metric}: {' → '.join(values)}"
    pairs = change.pairs
    if isinstance(pairs, str):
        return line
    ids = {"lost": list(map(code, pairs.lost)), "gained": list(map(code, pairs.gained))}
    unmatched = ((pairs.only_first, case.before), (pairs.only_second, case.after))
    remarks = [f"{outcome} {first_of(names, _SHOWN_IDS)}" for outcome, names in ids.items() if names]
    remarks += [f"{count} only in {stored.letter}" for count, stored in unmatched if count]
    listed = [f"({'; '.join(remarks)})"] if remarks else []
    return joined([f"{line};", _paired(change, pairs), *listed], " ")


def _value(score: Score | None, record: Record) -> str:
    return unmeasured(record) if score is None else metric_text(score, score.served)


def _paired(change: ScoreChange, pairs: Paired) -> str:
    if not pairs.lost and not pairs.gained:
        return f"the same on each of {pairs.samples} samples in both"
    difference = METRIC_CHANGES[change.better].text_with_interval(pairs.difference)
    p_value = "p < 0.001" if pairs.p_value < 0.001 else f"p = {P_VALUE.text(pairs.p_value)}"
    counts = f"of {pairs.samples} samples in both {len(pairs.lost)} lost and {len(pairs.gained)} gained"
    return joined([f"{counts}, difference {difference}, {p_value}:", _ACCURACY[pairs.verdict]], " ")


def _points(case: CaseChange) -> Table:
    before, after = case.before.letter, case.after.letter
    columns: list[Column[PointChange]] = [
        Column("Load point", lambda point: full_point(point.before), narrow="Load point"),
        _throughput(before, lambda point: point.before),
        _throughput(after, lambda point: point.after),
        Column(f"{after} / {before}", _ratio, RATIO, narrow=f"{after} / {before}"),
        _p99(before, lambda point: point.before),
        _p99(after, lambda point: point.after),
        Column("Speed", _speed_word, narrow="Speed"),
    ]

    def marks(point: PointChange) -> list[Mark]:
        sides = ((before, point.before), (after, point.after))
        return [Mark(mark.code, f"{letter}: {mark.text}") for letter, load in sides for mark in load.marks]

    return table(columns, case.points, name=lambda point: full_point(point.before), marks=marks)


def _throughput(letter: str, side: Callable[[PointChange], Load]) -> Column[PointChange]:
    def take(point: PointChange) -> Estimate:
        return side(point).throughput_per_s

    title = f"infer/s, {letter}"
    return Column(title, take, THROUGHPUT, is_starred=True, narrow=title)


def _p99(letter: str, side: Callable[[PointChange], Load]) -> Column[PointChange]:
    return Column(f"p99 (ms), {letter}", lambda point: side(point).latency_ms.get("p99"), LATENCY)


def _ratio(point: PointChange) -> Cell:
    return figure(RATIO, point.ratio, "interval", 1.0)
