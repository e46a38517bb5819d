"""What changed from one set of records to another, as values: setup, accuracy and speed."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from reports.compare.paired_scores import Paired, paired
from reports.compare.setup import Setting, differing
from reports.record import files, per_sample, schema
from reports.record.arguments import ACCURACY, SPEED, UsageError
from reports.record.files import RecordError
from reports.record.ratio import (
    FALSE_ALARMS,
    FEWEST_PASSES,
    shown_by_holm,
    speeds,
    unpaired_chance,
    unpaired_ratio,
)
from reports.sources import Source, Stored
from reports.text.correctness import unmeasured
from reports.text.labels import first_of
from reports.text.publishable import Publishable


@dataclass(frozen=True)
class PointChange:
    """One load point that both records measured."""

    before: schema.Load
    after: schema.Load
    ratio: schema.Estimate | None
    """Speed after over before, which at a request rate is the inverse of the mean latency; None of too few
    passes."""
    verdict: schema.Verdict = "not shown"
    """Whether, among all points of both, this one is shown to be faster (passed) or slower (failed)."""
    chances: tuple[float, float] = (1.0, 1.0)
    """The chance of a point as slow, and as fast, as this one if nothing has changed."""


@dataclass(frozen=True)
class ScoreChange:
    """One metric of the served model; a score is None if the record lacks the metric."""

    metric: str
    better: Literal["higher", "lower"]
    before: schema.Score | None
    after: schema.Score | None
    pairs: Paired | str
    """The samples that both scored; or why the scores are not compared sample by sample."""


@dataclass(frozen=True)
class CaseChange:
    """One case that both sets of records have."""

    before: Stored
    after: Stored
    setup: Sequence[Setting]
    scores: Sequence[ScoreChange]
    points: Sequence[PointChange]
    """The load points that both measured; empty if either may show no speed."""
    only_before: Sequence[schema.LoadSetting]
    only_after: Sequence[schema.LoadSetting]


@dataclass(frozen=True)
class Changes:
    """The comparison of one source with the first, with the names of cases that only one of them has."""

    before: Source
    after: Source
    cases: Sequence[CaseChange]
    only_before: Sequence[str]
    only_after: Sequence[str]


def compare(before: Source, after: Source, allowed_slowdown: float = 0.0) -> Changes:
    """Compare every case that both have, or two single records of one model. A point is slower if it is shown
    to be slower by more than the fraction `allowed_slowdown`. Raises RecordError if there is nothing to
    compare, or a file of samples is damaged."""
    if before.is_file and after.is_file:
        pairs = [_single(before, after)]
    else:
        pairs = [(one, after.records[name]) for name, one in before.records.items() if name in after.records]
    if not pairs:
        names, others = (first_of([*source.records], 3) for source in (after, before))
        raise RecordError(
            f"{after.name}: has no case in common with {before.name}. It has {names}; {before.name} has "
            f"{others}. To compare different cases of one model, give two record files."
        )
    cases = [_case(first, second, 1 - allowed_slowdown) for first, second in pairs]
    paired_names = {schema.case_id(one.record.case) for pair in pairs for one in pair}
    return Changes(
        before,
        after,
        _judged(cases),
        [name for name in before.records if name not in paired_names],
        [name for name in after.records if name not in paired_names],
    )


def _single(before: Source, after: Source) -> tuple[Stored, Stored]:
    (first,), (second,) = before.records.values(), after.records.values()
    models = first.record.case.model, second.record.case.model
    if models[0] != models[1]:
        raise RecordError(
            f"{second.path}: is of the model {models[1]}, {first.path} of {models[0]}. Give records of one "
            "model."
        )
    return first, second


def _case(before: Stored, after: Stored, slowest: float) -> CaseChange:
    first, second = ({schema.place(at): at for at in side.record.loads} for side in (before, after))
    every, others = (_measured(side.record) for side in (before, after))
    return CaseChange(
        before,
        after,
        setup=differing(before.record, after.record),
        scores=_score_changes(before, after),
        points=[_point(first[at], second[at], slowest) for at in sorted(first.keys() & second.keys())],
        only_before=[every[at] for at in sorted(every.keys() - others.keys())],
        only_after=[others[at] for at in sorted(others.keys() - every.keys())],
    )


def _measured(record: Publishable) -> dict[schema.Place, schema.LoadSetting]:
    """Every load point that was measured, shown or hidden."""
    points: tuple[schema.LoadSetting, ...] = (*record.loads, *record.hidden)
    return {schema.place(at): at for at in points}


def _point(before: schema.Load, after: schema.Load, slowest: float) -> PointChange:
    mine, theirs = speeds(after), speeds(before)
    if min(len(mine), len(theirs)) < FEWEST_PASSES:
        return PointChange(before, after, None)
    chances = unpaired_chance(mine, theirs, slowest), unpaired_chance(theirs, mine, 1.0)
    return PointChange(before, after, unpaired_ratio(mine, theirs), chances=chances)


def _judged(cases: Sequence[CaseChange]) -> list[CaseChange]:
    """The cases with what each point shows among all: of slower points and of faster ones, any is wrong in at
    most FALSE_ALARMS of all comparisons."""
    measured = [point for case in cases for point in case.points if point.ratio is not None]
    slower, faster = (shown_by_holm([one.chances[side] for one in measured], FALSE_ALARMS) for side in (0, 1))
    verdicts: dict[int, schema.Verdict] = {id(one): "passed" for one in itertools.compress(measured, faster)}
    verdicts |= {id(one): "failed" for one in itertools.compress(measured, slower)}
    found = []
    for case in cases:
        points = [replace(one, verdict=verdicts.get(id(one), one.verdict)) for one in case.points]
        found.append(replace(case, points=points))
    return found


def _score_changes(before: Stored, after: Stored) -> list[ScoreChange]:
    """Every metric of either record, with the samples that both scored in pairs. Raises RecordError if a file
    of samples is damaged."""
    first, second = (
        {score.metric: score for score in stored.record.accuracy.scores} if stored.record.accuracy else {}
        for stored in (before, after)
    )
    served = [_served(stored) for stored in (before, after)]
    found = []
    for metric in dict.fromkeys((*first, *second)):
        better = (first.get(metric) or second[metric]).better
        pairs = _paired(metric, better, served, (before, after))
        found.append(ScoreChange(metric, better, first.get(metric), second.get(metric), pairs))
    return found


Served = Mapping[str, Mapping[str, float]] | str
"""The served score of each sample, by metric and id; or why there are none."""


def _paired(metric: str, better: str, served: Sequence[Served], stored: Sequence[Stored]) -> Paired | str:
    """The samples of a metric in pairs, or why they cannot be compared so."""
    by_id: list[Mapping[str, float]] = []
    for one, found in zip(stored, served, strict=True):
        if isinstance(found, str):
            return found
        if metric not in found:
            return f"{one.letter} has no {metric} of each sample"
        by_id.append(found[metric])
    first, second = by_id
    return paired(first, second, better) if first.keys() & second.keys() else "no sample is in both"


def _served(stored: Stored) -> Served:
    record, letter = stored.record, stored.letter
    if record.accuracy is None:
        return f"accuracy of {letter} was {unmeasured(record)}"
    path = stored.path.with_name(stored.path.name.removesuffix(".json") + files.SAMPLES_SUFFIX)
    if not os.path.lexists(path):
        return f"{letter} has no samples (CASE{files.SAMPLES_SUFFIX}) beside its record"
    found = per_sample.of_ledger(record, record.accuracy, path)
    if found is None:
        return f"the samples beside the record of {letter} are of another build or ledger"
    served = {metric: stages["served"] for metric, stages in found.scores.items() if "served" in stages}
    return {metric: dict(zip(found.ids, scores, strict=True)) for metric, scores in served.items()}


_MAY_DIFFER = ("machine.gpu_driver", "machine.gpu_uuids")
"""What one changes of a machine to see the effect."""


def exit_status(changes: Changes) -> int:
    """The exit status by what changed. Raises UsageError if the records allow no verdict, as to compare
    nothing would look like finding nothing worse."""
    names = f"{changes.before.name} and {changes.after.name}"
    setup = {one.name for case in changes.cases for one in case.setup} - {*_MAY_DIFFER}
    if any(name.startswith("machine.") for name in setup):
        raise UsageError(f"compare: {names} are of different machines, whose speeds say nothing of a change")
    points = [point for case in changes.cases for point in case.points if point.ratio is not None]
    pairs = [one.pairs for case in changes.cases for one in case.scores if isinstance(one.pairs, Paired)]
    fails_now = any(one.after.record.no_speed and not one.before.record.no_speed for one in changes.cases)
    if fails_now or any(one.verdict == "failed" for one in pairs):
        return ACCURACY
    if not points and not pairs:
        raise UsageError(f"compare: {names} have no load point and no sample in common to compare")
    return SPEED if any(point.verdict == "failed" for point in points) else 0
