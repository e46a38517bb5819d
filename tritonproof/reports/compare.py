"""The changes from one set of records to another, as values: in settings, accuracy by sample, and speed."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from tritonproof import ratios
from tritonproof.base.commands import EXIT_ACCURACY, EXIT_SPEED, no_case
from tritonproof.base.errors import InputError
from tritonproof.record import Record, correctness, fields, record_files, sample_files, speed
from tritonproof.record.sample_files import SampleScores
from tritonproof.reports.correctness_text import unmeasured_text
from tritonproof.reports.phrases import first_of, setting_text, setup_facts
from tritonproof.reports.publishable import Publishable, publishable


class RecordSet(NamedTuple):
    """One of the two sets that are compared, `before` and `after`."""

    argument: Path
    """A folder of records, or the file of one."""
    records: Mapping[str, Publishable]
    """The records by case name, sorted."""
    paths: Mapping[str, Path]
    """The file of each record, beside which the case's other files lie."""

    def samples(self, name: str) -> SampleScores | None:
        """The scores of a case's samples; None without a file of them for the same build."""
        return sample_files.scores_of(self.records[name], self.paths[name])


def read_record_sets(arguments: Sequence[Path], substring: str = "") -> list[RecordSet]:
    """The records of each argument of the cases whose name contains `substring`. Raises RecordError if one is
    unreadable or an argument has none, and InputError if no case has such a name."""
    record_sets = []
    records_of = record_files.read_each(record_files.read_argument, arguments)
    for argument in arguments:
        paths = {record.name: path for path, record in records_of[argument].items()}
        records = {record.name: publishable(record) for record in records_of[argument].values()}
        chosen = {name: record for name, record in records.items() if substring in name}
        if not chosen:
            raise no_case(argument, substring, records)
        record_sets.append(RecordSet(argument, chosen, paths))
    return record_sets


Outcome = Literal["better", "worse", "unclear"]
"""Whether a figure is shown to be better or worse after than before; else it is unclear."""


class SettingChange(NamedTuple):
    """A setting that differs, such as `versions.torch`."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class PointChange:
    """One load point that both records measured."""

    before: speed.PointResult
    after: speed.PointResult
    ratio: fields.Ratio | None
    """Speed after over speed before (at a rate, of inverse mean latencies); None with too few passes."""
    outcome: Outcome = "unclear"
    """better: significantly faster among all points of both; worse: significantly slower than allowed."""
    allowed_slowdown: float = 0.0
    """The slow-down that is allowed, as a fraction of the speed before."""


@dataclass(frozen=True)
class PairedScores:
    """A metric before and after on the samples that both have: their number, and how their scores differ."""

    samples: int
    only_before: int
    only_after: int
    difference: float
    """The mean score after minus that before."""
    p_value: float
    """The probability of such a difference if chance decided which run each score came from."""
    lost: Sequence[str]
    """The ids of samples with a worse score after, the largest changes first."""
    gained: Sequence[str]
    outcome: Outcome


class ScoreChange(NamedTuple):
    """One metric of the served model; a score is None if the record lacks the metric."""

    metric: str
    better: fields.Better
    before: correctness.Score | None
    after: correctness.Score | None
    pairs: PairedScores | str
    """The comparison sample by sample, or why there is none."""

    @property
    def why_unknown(self) -> str:
        """Why the records leave open whether the score is worse, in words; empty if they do not."""
        if self.before is None:
            return ""
        if self.after is None:
            return "has a score before alone"
        if correctness.meets(self.better, self.after.served, self.before.served):
            return ""
        if isinstance(self.pairs, str):
            return f"is worse, and not paired by sample: {self.pairs}"
        leaves_out = self.pairs.only_before or self.pairs.only_after
        is_open = leaves_out and self.pairs.outcome != "worse"
        return "is worse, which the samples that are in both do not show" if is_open else ""


@dataclass(frozen=True)
class CaseChange:
    """One case that both sets of records have."""

    before: Publishable
    after: Publishable
    setup: Sequence[SettingChange]
    scores: Sequence[ScoreChange]
    points: Sequence[PointChange]
    """The load points that both measured; none if either record may show no speed."""
    only_before: Sequence[speed.LoadPoint]
    only_after: Sequence[speed.LoadPoint]


def compare_records(before: RecordSet, after: RecordSet, allowed_slowdown: float = 0) -> list[CaseChange]:
    """The changes of the cases that both sets have, or from one record to another of the same model. A point
    is slower if it is shown so by more than `allowed_slowdown`. Raises InputError if nothing is comparable,
    or RecordError if a file of samples is damaged."""
    pairs = [(name, name) for name in before.records if name in after.records]
    fix = "to compare different cases of one model, give two record files"
    if before.argument.is_file() and after.argument.is_file():
        (one,), (other,) = before.records.values(), after.records.values()
        pairs = [(one.name, other.name)] if one.case.model == other.case.model else []
        fix = "compare cases of one model"
    if not pairs:
        examples, others = (first_of([*source.records], 3) for source in (after, before))
        what = f"no case in common with {before.argument}: that has {others}, this has {examples}"
        raise InputError(what, where=after.argument, fix=fix)
    cases = [
        _case_change(before.records[old], after.records[new], (before.samples(old), after.samples(new)))
        for old, new in pairs
    ]
    return _with_outcomes(cases, allowed_slowdown)


def _case_change(
    before: Publishable, after: Publishable, samples: Sequence[SampleScores | None]
) -> CaseChange:
    results_before, results_after = (
        {result.point: result for result in (*side.points, *side.hidden)} for side in (before, after)
    )
    may_show_speed = not (before.why_no_speed or after.why_no_speed)
    in_both = sorted(results_before.keys() & results_after.keys()) if may_show_speed else []
    return CaseChange(
        before,
        after,
        setup=setting_changes(before, after),
        scores=_score_changes(before, after, samples),
        points=[_point_change(results_before[at], results_after[at]) for at in in_both],
        only_before=sorted(results_before.keys() - results_after.keys()),
        only_after=sorted(results_after.keys() - results_before.keys()),
    )


def setting_changes(before: Record, after: Record) -> list[SettingChange]:
    """The settings of machine, server, deployment and build that are not the same."""
    setups = map(setup_facts, (before, after))
    old, new = ({name: setting_text(value) for name, value in setup.items()} for setup in setups)
    return [
        SettingChange(name, old.get(name, "none"), new.get(name, "none"))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def machine_changes(cases: Sequence[CaseChange]) -> list[SettingChange]:
    """The settings of the machine that make speeds incomparable, each once: all that differ, except the GPU's
    driver and which of equal GPUs it is, as users compare speeds of these on purpose."""
    on_purpose = ("machine.gpu_driver", "machine.gpu_uuids")
    setup = dict.fromkeys(setting for case in cases for setting in case.setup)
    return [one for one in setup if one.name.startswith("machine.") and one.name not in on_purpose]


def _point_change(before: speed.PointResult, after: speed.PointResult) -> PointChange:
    has_variation = min(len(before.passes), len(after.passes)) >= ratios.MIN_PASSES
    ratio = ratios.unpaired_ratio(_speeds(after), _speeds(before)) if has_variation else None
    return PointChange(before, after, ratio)


def _speeds(result: speed.PointResult) -> list[float]:
    return [
        ratios.speed_of_pass(each.throughput_per_s, each.latency_ms["avg"], at_rate=result.point.is_at_rate)
        for each in result.passes
    ]


def _with_outcomes(cases: Sequence[CaseChange], allowed: float) -> list[CaseChange]:
    """The cases with the outcome of each point, corrected for all points: in at most ratios.FALSE_ALARM_RATE
    of all comparisons chance alone makes any point slower, or any point faster."""
    measured = [point for case in cases for point in case.points if point.ratio is not None]
    speeds = [(_speeds(point.before), _speeds(point.after)) for point in measured]
    faster = [ratios.unpaired_p_value(before, after, 1.0) for before, after in speeds]
    slower = [ratios.unpaired_p_value(after, before, 1 - allowed) for before, after in speeds]
    outcomes: dict[int, Outcome] = {}
    tested: Sequence[tuple[Outcome, Sequence[float]]] = (("better", faster), ("worse", slower))
    for outcome, p_values in tested:
        is_shown = ratios.significant_by_holm(p_values, ratios.FALSE_ALARM_RATE)
        for point in itertools.compress(measured, is_shown):
            outcomes[id(point)] = outcome

    def judged(point: PointChange) -> PointChange:
        return replace(point, outcome=outcomes.get(id(point), "unclear"), allowed_slowdown=allowed)

    return [replace(case, points=[*map(judged, case.points)]) for case in cases]


def _score_changes(
    before: Publishable, after: Publishable, samples: Sequence[SampleScores | None]
) -> list[ScoreChange]:
    """Every metric of either record, compared sample by sample."""
    old, new = (
        {score.metric: score for score in side.accuracy.scores} if side.accuracy else {}
        for side in (before, after)
    )
    return [
        ScoreChange(
            metric, one.better, old.get(metric), new.get(metric), _paired(metric, one.better, samples)
        )
        for metric, one in (old | new).items()
    ]


def _paired(metric: str, better: str, samples: Sequence[SampleScores | None]) -> PairedScores | str:
    """The samples of a metric, paired, or the reason why they cannot be paired."""
    served = []
    for when, side in zip(("before", "after"), samples, strict=True):
        scores = side.scores.get(metric, {}).get("served") if side else None
        if side is None or scores is None:
            file = f"CASE{record_files.SAMPLES_SUFFIX}"
            return f"the record {when} has no scores of single samples ({file} of the same build)"
        served.append(dict(zip(side.ids, scores, strict=True)))
    before, after = served
    return pair_scores(before, after, better) if before.keys() & after.keys() else "no sample is in both"


def pair_scores(before: Mapping[str, float], after: Mapping[str, float], better: str) -> PairedScores:
    """Compare scores by sample id, at least one of which is in both; `better` is `higher` or `lower`."""
    ids = [name for name in before if name in after]
    change = np.array([after[name] - before[name] for name in ids])
    p_value = sign_flips(change)
    gain = change if better == "higher" else -change
    order = np.argsort(-np.abs(gain), kind="stable")
    outcome: Outcome = "better" if gain.mean() > 0 else "worse"
    return PairedScores(
        samples=len(ids),
        only_before=len(before) - len(ids),
        only_after=len(after) - len(ids),
        difference=float(change.mean()),
        p_value=p_value,
        lost=tuple(ids[i] for i in order if gain[i] < 0),
        gained=tuple(ids[i] for i in order if gain[i] > 0),
        outcome=outcome if p_value < 1 - fields.CONFIDENCE else "unclear",
    )


def sign_flips(change: np.ndarray) -> float:
    """The p-value of a permutation test of the mean paired difference: all sign flips of up to 13 samples,
    else a fixed draw. For scores of 0 and 1 it is McNemar's. Wilcoxon's ranks may disagree with the mean."""
    from scipy import stats

    differences = change[change != 0]
    if len(differences) < 2:  # flipping a single difference changes nothing
        return 1.0
    test = stats.permutation_test(
        (differences,),
        lambda x, axis: x.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=9999,
        batch=max(1, 4_000_000 // len(differences)),  # the signs drawn at a time, which bounds the memory
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def exit_status(cases: Sequence[CaseChange], where: str) -> int:
    """The exit status for these changes; accuracy is compared on different machines too. Raises InputError,
    which names `where` the records are, if they allow no verdict, as comparing nothing would look like
    finding nothing worse."""
    points: list[PointChange] = []
    pairs: list[PairedScores] = []
    unknown: list[str] = []
    for case in cases:
        name, failed = case.after.name, {failure.point for failure in case.after.failures}
        measured = [point for point in case.points if point.ratio is not None]
        paired = [score.pairs for score in case.scores if isinstance(score.pairs, PairedScores)]
        had_figures = case.before.points or any(score.before for score in case.scores)
        if had_figures and not measured and not paired:
            unknown.append(f"{name}: no load point and no sample is in both")
        elif case.before.points and case.after.hidden:
            unknown.append(f"{name}: {case.after.why_no_speed}")
        elif not failed.isdisjoint(case.only_before):
            unknown.append(f"{name}: {unmeasured_text(case.after)}")
        open_scores = [score for score in case.scores if score.why_unknown]
        unknown += [f"{name}: {score.metric} {score.why_unknown}" for score in open_scores]
        points += measured
        pairs += paired
    fails_now = (case.after.is_wrong and not case.before.is_wrong for case in cases)
    if any(fails_now) or any(pair.outcome == "worse" for pair in pairs):
        return EXIT_ACCURACY
    if machine_changes(cases):
        raise InputError("the machines differ, so their speeds say nothing of a change", where=where)
    if unknown or not (points or pairs):
        why = "; ".join(unknown) or "no load point and no sample is in both"
        raise InputError(f"the records allow no verdict: {why}", where=where)
    return EXIT_SPEED if any(point.outcome == "worse" for point in points) else 0
