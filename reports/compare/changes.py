"""The changes from one set of records to another, as values: settings, accuracy and speed."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from msgspec import structs

from reports.compare.paired_scores import Paired, paired
from reports.record import files, per_sample, schema
from reports.record.commands import ACCURACY, SPEED, UsageError
from reports.record.files import RecordError
from reports.record.ratio import (
    FALSE_ALARMS,
    FEWEST_PASSES,
    shown_by_holm,
    speeds,
    unpaired_chance,
    unpaired_ratio,
)
from reports.record.schema import Record
from reports.sources import Source, Stored
from reports.text.correctness import unmeasured
from reports.text.labels import first_of
from reports.text.publishable import Publishable

_BUILD = ("digest", "weights", "format", "engine")
"""The fields of a build that are settings; its time and size are results."""
_DIGEST_LENGTH = 12


@dataclass(frozen=True)
class Setting:
    """A setting that differs."""

    name: str
    """Such as `versions.torch`."""
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


def setting_text(value: Any) -> str:
    """A setting as text: `on` or `off`, parts joined by spaces, or `none`."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, int | str) else " ".join(map(str, value)) or "none"


@dataclass(frozen=True)
class PointChange:
    """One load point that both records measured."""

    before: schema.Load
    after: schema.Load
    ratio: schema.Estimate | None
    """Speed after over speed before, at a request rate the inverse of the mean latency; None with too few
    passes."""
    verdict: schema.Verdict = "not shown"
    """Whether the point, among all points of both, is shown to be faster (passed) or slower (failed)."""
    chances: tuple[float, float] = (1.0, 1.0)
    """The chance of a point this slow, and of one this fast, if nothing has changed."""


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
    """Compare every case that both have, or two single records of one model. A point counts as slower if it
    is shown to be slower by more than the fraction `allowed_slowdown`. Raises RecordError if there is nothing
    to compare, or a file of samples is damaged."""
    if before.is_file and after.is_file:
        pairs = [_single(before, after)]
    else:
        pairs = [
            (stored, after.records[name]) for name, stored in before.records.items() if name in after.records
        ]
    if not pairs:
        names, others = (first_of([*source.records], 3) for source in (after, before))
        raise RecordError(
            f"{after.name}: has no case in common with {before.name}. It has {names}; {before.name} has "
            f"{others}. To compare different cases of one model, give two record files."
        )
    cases = [_case(first, second, 1 - allowed_slowdown) for first, second in pairs]
    paired_names = {schema.case_id(stored.record.case) for pair in pairs for stored in pair}
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
    all_before, all_after = (_measured(side.record) for side in (before, after))
    return CaseChange(
        before,
        after,
        setup=differing(before.record, after.record),
        scores=_score_changes(before, after),
        points=[_point(first[at], second[at], slowest) for at in sorted(first.keys() & second.keys())],
        only_before=[all_before[at] for at in sorted(all_before.keys() - all_after.keys())],
        only_after=[all_after[at] for at in sorted(all_after.keys() - all_before.keys())],
    )


def _measured(record: Publishable) -> dict[schema.Place, schema.LoadSetting]:
    """Every load point that was measured, shown or hidden."""
    settings: tuple[schema.LoadSetting, ...] = (*record.loads, *record.hidden)
    return {schema.place(setting): setting for setting in settings}


def _point(before: schema.Load, after: schema.Load, slowest: float) -> PointChange:
    new_speeds, old_speeds = speeds(after), speeds(before)
    if min(len(new_speeds), len(old_speeds)) < FEWEST_PASSES:
        return PointChange(before, after, None)
    chances = unpaired_chance(new_speeds, old_speeds, slowest), unpaired_chance(old_speeds, new_speeds, 1.0)
    return PointChange(before, after, unpaired_ratio(new_speeds, old_speeds), chances=chances)


def _judged(cases: Sequence[CaseChange]) -> list[CaseChange]:
    """The cases with the verdict on each point among all points: chance alone calls any point slower, or any
    point faster, in at most FALSE_ALARMS of all comparisons."""
    measured = [point for case in cases for point in case.points if point.ratio is not None]
    slower, faster = (
        shown_by_holm([point.chances[side] for point in measured], FALSE_ALARMS) for side in (0, 1)
    )
    verdicts: dict[int, schema.Verdict] = {
        id(point): "passed" for point in itertools.compress(measured, faster)
    }
    verdicts |= {id(point): "failed" for point in itertools.compress(measured, slower)}
    judged = []
    for case in cases:
        points = [replace(point, verdict=verdicts.get(id(point), point.verdict)) for point in case.points]
        judged.append(replace(case, points=points))
    return judged


def _score_changes(before: Stored, after: Stored) -> list[ScoreChange]:
    """Every metric of either record, with pairs of the samples that both scored. Raises RecordError if a file
    of samples is damaged."""
    first, second = (
        {score.metric: score for score in stored.record.accuracy.scores} if stored.record.accuracy else {}
        for stored in (before, after)
    )
    served = [_served(stored) for stored in (before, after)]
    changes = []
    for metric in dict.fromkeys((*first, *second)):
        better = (first.get(metric) or second[metric]).better
        pairs = _paired(metric, better, served, (before, after))
        changes.append(ScoreChange(metric, better, first.get(metric), second.get(metric), pairs))
    return changes


Served = Mapping[str, Mapping[str, float]] | str
"""The served score of each sample, by metric and id; or why there are none."""


def _paired(metric: str, better: str, served: Sequence[Served], stored: Sequence[Stored]) -> Paired | str:
    """The samples of a metric in pairs, or why they cannot be paired."""
    by_id: list[Mapping[str, float]] = []
    for side, scores in zip(stored, served, strict=True):
        if isinstance(scores, str):
            return scores
        if metric not in scores:
            return f"{side.letter} has no {metric} of each sample"
        by_id.append(scores[metric])
    first, second = by_id
    return paired(first, second, better) if first.keys() & second.keys() else "no sample is in both"


def _served(stored: Stored) -> Served:
    record, letter = stored.record, stored.letter
    if record.accuracy is None:
        return f"accuracy of {letter} was {unmeasured(record)}"
    path = stored.path.with_name(stored.path.name.removesuffix(".json") + files.SAMPLES_SUFFIX)
    if not os.path.lexists(path):
        return f"{letter} has no samples (CASE{files.SAMPLES_SUFFIX}) beside its record"
    sample_scores = per_sample.of_ledger(record, record.accuracy, path)
    if sample_scores is None:
        return f"the samples beside the record of {letter} are of another build or ledger"
    served = {
        metric: stages["served"] for metric, stages in sample_scores.scores.items() if "served" in stages
    }
    return {metric: dict(zip(sample_scores.ids, scores, strict=True)) for metric, scores in served.items()}


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
        score.pairs for case in changes.cases for score in case.scores if isinstance(score.pairs, Paired)
    ]
    fails_now = any(case.after.record.no_speed and not case.before.record.no_speed for case in changes.cases)
    if fails_now or any(pair.verdict == "failed" for pair in pairs):
        return ACCURACY
    if not points and not pairs:
        raise UsageError(f"compare: {names} have no load point and no sample in common to compare")
    return SPEED if any(point.verdict == "failed" for point in points) else 0
