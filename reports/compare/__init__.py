"""The changes from one set of records to another, as values, and as tables and sentences: settings, accuracy
and speed. Worse is bold, better in italics."""

import itertools
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import structs

from reports.compare.paired_scores import PairedScores, pair_scores
from reports.record import files, per_sample, schema
from reports.record.commands import ACCURACY, SPEED, UsageError, no_case
from reports.record.files import RecordError
from reports.record.quantities import GIVEN_SHARE, LATENCY, METRIC_CHANGES, P_VALUE, RATIO, THROUGHPUT
from reports.record.ratio import (
    FALSE_ALARMS,
    FEWEST_PASSES,
    shown_by_holm,
    speed_of_pass,
    unpaired_chance,
    unpaired_ratio,
)
from reports.record.sanitize import bold, code, italic, join_markdown
from reports.record.schema import Load, Mark, Record, Score
from reports.tables.table import Block, Bullets, Column, Heading, Table, figure, table
from reports.text.correctness import metric_text, missing_score_reason
from reports.text.phrases import counted, days_text, first_of, full_point_text, grouped, setting_text
from reports.text.publishable import Publishable, name_of, publishable

_BUILD = ("digest", "weights", "format", "engine")
"""The fields of a build that are settings; its time and size are results."""
_DIGEST_LENGTH = 12


class StoredRecord(NamedTuple):
    """A record as a reader may see it, and its file; the case's other files lie beside that."""

    record: Publishable
    path: Path


class Source(NamedTuple):
    """One of the two sides that are compared, A and B."""

    name: str
    """The argument as given."""
    is_file: bool
    """Whether it is a single record."""
    records: Mapping[str, StoredRecord]
    """By case, sorted."""


def sources(arguments: Sequence[Path], substring: str = "") -> tuple[Source, Source]:
    """The records of two arguments, for cases whose name contains `substring`. Raises RecordError if any is
    unreadable or an argument has none, UsageError if no case has such a name."""
    before, after = (_source(argument, files.read_argument(argument), substring) for argument in arguments)
    return before, after


def _source(argument: Path, records: Mapping[Path, Record], substring: str) -> Source:
    stored = [StoredRecord(publishable(record), path) for path, record in records.items()]
    by_name = {name_of(one.record): one for one in stored}
    chosen = {name: one for name, one in by_name.items() if substring in name}
    if not chosen:
        raise no_case(argument, substring, by_name)
    return Source(str(argument), argument.is_file(), chosen)


class Setting(NamedTuple):
    """A setting that differs, such as `versions.torch`."""

    name: str
    before: str
    after: str


def differing(before: Record, after: Record) -> list[Setting]:
    first, second = _setup(before), _setup(after)
    return [
        Setting(name, first.get(name, "none"), second.get(name, "none"))
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


def _setup(record: Record) -> Mapping[str, str]:
    machine = structs.asdict(record.machine)
    serving = structs.asdict(record.serving) if record.serving else {}
    build = structs.asdict(record.build)
    parts: dict[str, Mapping[str, Any]] = {
        "case": structs.asdict(record.case),
        "versions": machine.pop("versions"),
        "machine": machine,
        "serving.versions": serving.pop("versions", {}),
        "serving": serving,
        "deployment": structs.asdict(record.deployment),
        "build": {name: build[name] for name in _BUILD} | {"digest": record.build.digest[:_DIGEST_LENGTH]},
    }
    return {
        f"{part}.{name}": setting_text(value)
        for part, values in parts.items()
        for name, value in values.items()
    }


class PointChange(NamedTuple):
    """One load point that both records measured."""

    before: Load
    after: Load
    ratio: schema.Estimate | None
    """Speed after over speed before, at a request rate the inverse of the mean latency; None with too few
    passes."""
    verdict: schema.Verdict = "not shown"
    """Whether the point, among all points of both, is shown to be faster (passed) or slower (failed)."""
    chances: tuple[float, float] = (1.0, 1.0)
    """The chance of a point this slow, and of one this fast, if nothing has changed."""


class ScoreChange(NamedTuple):
    """One metric of the served model; a score is None if the record lacks the metric."""

    metric: str
    better: Literal["higher", "lower"]
    before: Score | None
    after: Score | None
    pairs: PairedScores | str
    """The samples that both scored; or why the scores are not compared sample by sample."""


@dataclass(frozen=True)
class CaseChange:
    """One case that both sets of records have."""

    before: StoredRecord
    after: StoredRecord
    setup: Sequence[Setting]
    scores: Sequence[ScoreChange]
    points: Sequence[PointChange]
    """The load points that both measured; empty if either may show no speed."""
    only_before: Sequence[Load]
    only_after: Sequence[Load]


@dataclass(frozen=True)
class Changes:
    """The comparison of two sources, with the names of cases that only one of them has."""

    before: Source
    after: Source
    cases: Sequence[CaseChange]
    only_before: Sequence[str]
    only_after: Sequence[str]


def compare(before: Source, after: Source, allowed_slowdown: float = 0.0) -> Changes:
    """Compare every case that both have, or two single records of one model. A point counts as slower if it
    is shown to be slower by more than the fraction `allowed_slowdown`. Raises RecordError if there is nothing
    to compare, or a file of samples is damaged."""
    names = before.records.keys() & after.records.keys()
    pairs = [(stored, after.records[name]) for name, stored in before.records.items() if name in names]
    if before.is_file and after.is_file:
        first, second = (next(iter(source.records.values())) for source in (before, after))
        pairs = [(first, second)]
        models = first.record.case.model, second.record.case.model
        if models[0] != models[1]:
            raise RecordError(
                f"{second.path}: is of the model {models[1]}, {first.path} of {models[0]}. Give records of "
                "one model."
            )
    if not pairs:
        examples, others = (first_of([*source.records], 3) for source in (after, before))
        raise RecordError(
            f"{after.name}: has no case in common with {before.name}. It has {examples}; {before.name} has "
            f"{others}. To compare different cases of one model, give two record files."
        )
    cases = [_case_change(first, second, 1 - allowed_slowdown) for first, second in pairs]
    paired_names = {name_of(stored.record) for pair in pairs for stored in pair}
    only_before, only_after = ([*source.records.keys() - paired_names] for source in (before, after))
    return Changes(before, after, _with_verdicts(cases), sorted(only_before), sorted(only_after))


def _case_change(before: StoredRecord, after: StoredRecord, slowest: float) -> CaseChange:
    first, second = ({schema.point_key(at): at for at in side.record.loads} for side in (before, after))
    all_before, all_after = (_points_by_key(side) for side in (before, after))
    return CaseChange(
        before,
        after,
        setup=differing(before.record, after.record),
        scores=_score_changes(before, after),
        points=[_point_change(first[at], second[at], slowest) for at in sorted(first.keys() & second.keys())],
        only_before=[all_before[at] for at in sorted(all_before.keys() - all_after.keys())],
        only_after=[all_after[at] for at in sorted(all_after.keys() - all_before.keys())],
    )


def _points_by_key(stored: StoredRecord) -> dict[schema.PointKey, Load]:
    """Every load point that was measured, shown or hidden."""
    return {schema.point_key(load): load for load in (*stored.record.loads, *stored.record.hidden)}


def _point_change(before: Load, after: Load, slowest: float) -> PointChange:
    earlier, later = (
        [
            speed_of_pass(one.throughput_per_s, one.latency_ms["avg"], load.request_rate_per_s)
            for one in load.passes
        ]
        for load in (before, after)
    )
    if min(len(earlier), len(later)) < FEWEST_PASSES:
        return PointChange(before, after, None)
    chances = unpaired_chance(later, earlier, slowest), unpaired_chance(earlier, later, 1.0)
    return PointChange(before, after, unpaired_ratio(later, earlier), chances=chances)


def _with_verdicts(cases: Sequence[CaseChange]) -> list[CaseChange]:
    """The cases with the verdict on each point among all points: chance alone calls any point slower, or any
    point faster, in at most FALSE_ALARMS of all comparisons."""
    measured = [point for case in cases for point in case.points if point.ratio is not None]
    verdicts: dict[int, schema.Verdict] = {}
    sides: Sequence[tuple[int, schema.Verdict]] = ((1, "passed"), (0, "failed"))
    for side, verdict in sides:
        shown = shown_by_holm([point.chances[side] for point in measured], FALSE_ALARMS)
        verdicts |= {id(point): verdict for point in itertools.compress(measured, shown)}
    return [
        replace(
            case,
            points=[point._replace(verdict=verdicts.get(id(point), "not shown")) for point in case.points],
        )
        for case in cases
    ]


def _score_changes(before: StoredRecord, after: StoredRecord) -> list[ScoreChange]:
    """Every metric of either record, with pairs of the samples that both scored. Raises RecordError if a file
    of samples is damaged."""
    first, second = (
        {score.metric: score for score in stored.record.accuracy.scores} if stored.record.accuracy else {}
        for stored in (before, after)
    )
    served = [_served_scores("A", before), _served_scores("B", after)]
    changes = []
    for metric in dict.fromkeys((*first, *second)):
        better = (first.get(metric) or second[metric]).better
        pairs = _paired(metric, better, served)
        changes.append(ScoreChange(metric, better, first.get(metric), second.get(metric), pairs))
    return changes


ServedScores = Mapping[str, Mapping[str, float]] | str
"""The served score of each sample, by metric and id; or why there are none."""


def _paired(metric: str, better: str, served: Sequence[ServedScores]) -> PairedScores | str:
    """The samples of a metric in pairs, or why they cannot be paired."""
    by_id: list[Mapping[str, float]] = []
    for letter, scores in zip("AB", served, strict=True):
        if isinstance(scores, str):
            return scores
        if metric not in scores:
            return f"{letter} has no {metric} of each sample"
        by_id.append(scores[metric])
    first, second = by_id
    return pair_scores(first, second, better) if first.keys() & second.keys() else "no sample is in both"


def _served_scores(letter: str, stored: StoredRecord) -> ServedScores:
    record = stored.record
    if record.accuracy is None:
        return f"accuracy of {letter} was {missing_score_reason(record)}"
    path = stored.path.with_name(stored.path.name.removesuffix(".json") + files.SAMPLES_SUFFIX)
    if not os.path.lexists(path):
        return f"{letter} has no samples (CASE{files.SAMPLES_SUFFIX}) beside its record"
    samples = per_sample.samples_at(path, record)
    if samples is None:
        return f"the samples beside the record of {letter} are of another build or ledger"
    return {
        metric: dict(zip(samples.ids, stages["served"], strict=True))
        for metric, stages in samples.scores.items()
        if "served" in stages
    }


_MAY_DIFFER = ("machine.gpu_driver", "machine.gpu_uuids")
"""Parts of a machine that people change to see the effect."""


def exit_status(changes: Changes) -> int:
    """The exit status for these changes. Raises UsageError if the records allow no verdict, because comparing
    nothing would look like finding nothing worse."""
    names = f"{changes.before.name} and {changes.after.name}"
    setup = {setting.name for case in changes.cases for setting in case.setup} - {*_MAY_DIFFER}
    if any(name.startswith("machine.") for name in setup):
        raise UsageError(f"compare: {names} are of different machines, whose speeds say nothing of a change")
    points = [point for case in changes.cases for point in case.points if point.ratio is not None]
    pairs = [
        score.pairs
        for case in changes.cases
        for score in case.scores
        if isinstance(score.pairs, PairedScores)
    ]
    fails_now = any(case.after.record.no_speed and not case.before.record.no_speed for case in changes.cases)
    if fails_now or any(pair.verdict == "failed" for pair in pairs):
        return ACCURACY
    if not points and not pairs:
        raise UsageError(f"compare: {names} have no load point and no sample in common to compare")
    return SPEED if any(point.verdict == "failed" for point in points) else 0


# --- as tables and sentences -------------------------------------------------------------------------------

_SHOWN_IDS = 5
_SPEED = {"failed": bold("slower"), "passed": italic("faster"), "not shown": "no difference shown"}
_ACCURACY = {"failed": bold("worse"), "passed": italic("better"), "not shown": "no difference shown"}
_SPEEDS = (bold("slower"), italic("faster"), "too few passes")
"""The words that a case's cell counts among its load points, in this order."""
_SCORES = (bold("worse"), italic("better"), "not paired", "no difference shown", "no sample changed")
"""The words for a metric; a case's cell has the first that applies to any of its metrics."""


def comparison_blocks(changes: Changes) -> list[Block]:
    cases = changes.cases
    first = cases[0].setup if len(cases) > 1 else []
    common = [setting for setting in first if all(setting in case.setup for case in cases)]
    sections = [block for case in cases for block in _case_section(case, common)]
    return [*_overview(changes, common), *sections]


def _overview(changes: Changes, common: Sequence[Setting]) -> list[Block]:
    """The sources, the settings that all cases share, a row for each case, and the meanings of the words."""
    before, after, cases = changes.before, changes.after, changes.cases
    origins = []
    for letter, source in (("A", before), ("B", after)):
        days = days_text(stored.record.updated for stored in source.records.values())
        measured = f", measured {days}" if days else ""
        origins.append(f"{letter}: {source.name}, {counted(len(source.records), 'case')}{measured}")
    shared: list[Block] = []
    machines = [setting for case in cases for setting in case.setup if setting.name.startswith("machine.")]
    if machines:
        differ = f": {_settings_text(dict.fromkeys(machines))}. The ratios of speed hold that too."
        shared.append(join_markdown([bold("The machines differ"), differ], ""))
    if others := [setting for setting in common if setting not in machines]:
        shared.append(f"Differs in all {len(cases)} cases: {_settings_text(others)}.")

    def setup(case: CaseChange) -> str | None:
        return ", ".join(setting.name for setting in case.setup if setting not in common) or None

    columns: list[Column[CaseChange]] = [
        Column("Case", _case_name),
        Column("Setup", setup),
        Column("Accuracy", _accuracy_cell),
        Column("Speed", _speed_cell),
    ]
    return [
        Heading("B against A", 1),
        Bullets(origins),
        *shared,
        table(columns, cases),
        *_legend(changes),
        *_one_sided(", ", map(code, changes.only_before), map(code, changes.only_after)),
    ]


def _one_sided(between: str, only_before: Iterable[str], only_after: Iterable[str]) -> list[str]:
    listed = [("A", between.join(only_before)), ("B", between.join(only_after))]
    return [f"Only in {letter}: {names}." for letter, names in listed if names]


def _settings_text(settings: Iterable[Setting]) -> str:
    """Each setting with its value before and after: `versions.torch 2.12.0 → 2.13.0; ...`."""
    return "; ".join(f"{setting.name} {setting.before} → {setting.after}" for setting in settings)


def _accuracy_cell(case: CaseChange) -> str:
    """The worst change of any metric, and whether the case began or ceased to pass."""
    words = set()
    for pairs in (score.pairs for score in case.scores):
        if isinstance(pairs, str):
            words.add("not paired")
        else:
            words.add(_ACCURACY[pairs.verdict] if pairs.lost or pairs.gained else "no sample changed")
    worst = next((word for word in _SCORES if word in words), "not measured")
    passes = [not stored.record.no_speed for stored in (case.before, case.after)]
    if passes == [True, False]:
        return join_markdown([bold("passes no longer"), worst], ", ")
    return join_markdown([worst, italic("passes now")], ", ") if passes == [False, True] else worst


def _speed_cell(case: CaseChange) -> str:
    words = [_speed_word(point) for point in case.points]
    if not words:
        return "not shown" if _reasons_for_no_speed(case) else "no point in both"
    counts = [join_markdown([str(words.count(word)), word], " ") for word in _SPEEDS if word in words]
    return (
        join_markdown([join_markdown(counts, ", "), f"of {len(words)}"], " ")
        if counts
        else "no difference shown"
    )


def _speed_word(point: PointChange) -> str:
    return "too few passes" if point.ratio is None else _SPEED[point.verdict]


def _legend(changes: Changes) -> list[str]:
    points = [point for case in changes.cases for point in case.points]
    blocks = []
    if points:
        blocks.append(
            "Speed: the ratio is B over A, with Welch's 95 % interval of the passes on record, of each point "
            f"by itself; slower and faster are what is shown among {len(points)} points, so that chance "
            "alone calls any of them slower, or any of them faster, in at most "
            f"{GIVEN_SHARE.text(FALSE_ALARMS)} of all comparisons (Holm's correction). It covers what varied "
            "while each was measured, not what the machine changed in between: `--against` measures both in "
            "turns."
        )
    if any(isinstance(score.pairs, PairedScores) for case in changes.cases for score in case.scores):
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


def _case_section(case: CaseChange, common: Sequence[Setting]) -> list[Block]:
    specific = [setting for setting in case.setup if setting not in common]
    missing = [missing_score_reason(stored.record) for stored in (case.before, case.after)]
    scores = [_score_text(score, case) for score in case.scores]
    scores = scores or [f"Accuracy: A {missing[0]}, B {missing[1]}"]
    before, after = (map(full_point_text, loads) for loads in (case.only_before, case.only_after))
    return [
        Heading(_case_name(case), 2),
        Bullets([*([f"Setup: {_settings_text(specific)}"] if specific else []), *scores]),
        *_reasons_for_no_speed(case),
        _points_table(case),
        *_one_sided("; ", before, after),
    ]


def _case_name(case: CaseChange) -> str:
    """The case's name, or both names where the sides differ."""
    return " → ".join(dict.fromkeys(name_of(stored.record) for stored in (case.before, case.after)))


def _reasons_for_no_speed(case: CaseChange) -> list[str]:
    sides = (("A", case.before.record), ("B", case.after.record))
    return [f"{letter}: {record.no_speed}" for letter, record in sides if record.no_speed]


def _score_text(change: ScoreChange, case: CaseChange) -> str:
    """`top-1: 98.2 % → 97.8 %, ...`, and the ids of samples that changed."""
    sides = ((change.before, case.before), (change.after, case.after))
    values = [
        metric_text(score, score.served) if score else missing_score_reason(stored.record)
        for score, stored in sides
    ]
    line, pairs = f"{change.metric}: {' → '.join(values)}", change.pairs
    if isinstance(pairs, str):
        return line
    if pairs.lost or pairs.gained:
        difference = METRIC_CHANGES[change.better].text_with_interval(pairs.difference)
        p_value = "p < 0.001" if pairs.p_value < 0.001 else f"p = {P_VALUE.text(pairs.p_value)}"
        counts = f"of {pairs.samples} samples in both {len(pairs.lost)} lost and {len(pairs.gained)} gained"
        parts = [f"{line}; {counts}, difference {difference}, {p_value}:", _ACCURACY[pairs.verdict]]
    else:
        parts = [f"{line}; the same on each of {pairs.samples} samples in both"]
    ids = {"lost": list(map(code, pairs.lost)), "gained": list(map(code, pairs.gained))}
    unmatched = ((pairs.only_before, "A"), (pairs.only_after, "B"))
    remarks = [f"{outcome} {first_of(names, _SHOWN_IDS)}" for outcome, names in ids.items() if names]
    remarks += [f"{count} only in {letter}" for count, letter in unmatched if count]
    return join_markdown([*parts, *([f"({'; '.join(remarks)})"] if remarks else [])], " ")


def _both_marks(point: PointChange) -> list[Mark]:
    sides = (("A", point.before), ("B", point.after))
    return [
        Mark(f"{letter}-{mark.code}", f"{letter}: {mark.text}")
        for letter, load in sides
        for mark in load.marks
    ]


_POINTS: Sequence[Column[PointChange]] = (
    Column("Load point", lambda point: full_point_text(point.before), narrow="Load point"),
    Column("infer/s, A", lambda point: point.before.throughput_per_s, THROUGHPUT, narrow="infer/s, A"),
    Column("infer/s, B", lambda point: point.after.throughput_per_s, THROUGHPUT, narrow="infer/s, B"),
    Column("B / A", lambda point: figure(RATIO, point.ratio, "interval", 1.0), RATIO, narrow="B / A"),
    Column("p99 (ms), A", lambda point: point.before.latency_ms.get("p99"), LATENCY),
    Column("p99 (ms), B", lambda point: point.after.latency_ms.get("p99"), LATENCY),
    Column("Speed", _speed_word, narrow="Speed"),
)


def _points_table(case: CaseChange) -> Table:
    return table(_POINTS, case.points, marks=_both_marks)
