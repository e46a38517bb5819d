"""Compares the accuracy in two records of a case, metric by metric, and sample by sample where both have the samples."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from reports.compare.paired_scores import Paired, paired
from reports.record import files, per_sample
from reports.record.schema import Score
from reports.words.rightness import unmeasured
from reports.words.sources import Stored


@dataclass(frozen=True)
class ScoreChange:
    """One metric of the served model; a score is None where the record does not have the metric."""

    metric: str
    better: Literal["higher", "lower"]
    before: Score | None
    after: Score | None
    pairs: Paired | None
    why_unpaired: str
    """Why the scores are not compared sample by sample; empty where they are."""


def score_changes(before: Stored, after: Stored) -> list[ScoreChange]:
    """Every metric of either record, with the samples that both scored in pairs. Raises RecordError where a file of samples is
    damaged."""
    ledgers = [
        {score.metric: score for score in stored.record.accuracy.scores} if stored.record.accuracy else {}
        for stored in (before, after)
    ]
    served = [_served(stored) for stored in (before, after)]
    metrics = dict.fromkeys([*ledgers[0], *ledgers[1]])
    return [
        _score(metric, (ledgers[0].get(metric), ledgers[1].get(metric)), served, (before, after))
        for metric in metrics
    ]


def _score(
    metric: str,
    scores: tuple[Score | None, Score | None],
    served: Sequence[Mapping[str, Mapping[str, float]] | str],
    stored: Sequence[Stored],
) -> ScoreChange:
    better = next(score.better for score in scores if score is not None)
    by_id: list[Mapping[str, float]] = []
    why = ""
    for one, found in zip(stored, served, strict=True):
        if isinstance(found, str):
            why = why or found
        elif metric not in found:
            why = why or f"{one.letter} has no {metric} of each sample"
        else:
            by_id.append(found[metric])
    if not why and not by_id[0].keys() & by_id[1].keys():
        why = "no sample is in both"
    pairs = None if why else paired(by_id[0], by_id[1], better)
    return ScoreChange(metric, better, *scores, pairs, why)


def _served(stored: Stored) -> Mapping[str, Mapping[str, float]] | str:
    """The served score of each sample, by metric and id; or why there are none."""
    record, letter = stored.record, stored.letter
    if record.accuracy is None:
        return f"accuracy of {letter} was {unmeasured(record)}"
    path = stored.path.with_name(stored.path.name.removesuffix(".json") + files.SAMPLES_SUFFIX)
    if not os.path.lexists(path):
        return f"{letter} has no samples (CASE{files.SAMPLES_SUFFIX}) beside its record"
    found = per_sample.of_ledger(record, record.accuracy, path)
    if found is None:
        return f"the samples beside the record of {letter} are of another build or ledger"
    return {
        metric: dict(zip(found.ids, stages["served"], strict=True))
        for metric, stages in found.scores.items()
        if "served" in stages
    }
