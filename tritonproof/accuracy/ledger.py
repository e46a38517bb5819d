"""The accuracy ledger: a model's scores in the framework, converted and served, and their limits. Each item's
score after each stage, and the few items that a reader is shown, are kept beside it and have no limits."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from tritonproof.accuracy.limits import CaseArithmetic
from tritonproof.accuracy.outputs import equal_fraction, floating_outputs
from tritonproof.accuracy.precisions import DEEP_ROUNDING, PRECISIONS, limit_in
from tritonproof.accuracy.stages import StageAnswers, Stages
from tritonproof.base.errors import ProofError
from tritonproof.record import sample_files
from tritonproof.record.correctness import Disagreement, Ledger, Limit, Score, meets
from tritonproof.spec import Arrays, Case, FrameworkModel, Metric, NetworkModel, Samples

ONE_SIDED_95 = 1.645
"""The normal distribution's one-sided 95 % quantile: how many standard deviations a loss by chance may be.
Simulated with 500 samples, of which a precision loses as many near ties as it gains: without and with this
paired test, a right build fails in 33 and 3 % of draws (FP16, two such samples), in 8 and 5 % (INT8, ten). A
loss of twice INT8's tolerance is found in 89 to 97 % without, in 74 to 97 % with the test; in FP16, whose
tolerance is half a sample, the least loss that is found is three samples."""

_StageScores = Mapping[str, np.ndarray]
"""By the stage's name: the score of each item, [items]."""
ItemScores = Mapping[str, _StageScores]
"""By metric, in the model's order: the score of each item at each stage."""


def score_each_item(case: Case, samples: Samples, stages: Stages, *, labelled: bool = True) -> ItemScores:
    """Score each item after each known stage. Without `labelled`, only metrics that need no labels score.
    Raises ProofError unless each metric gives each item a finite score, from 0 to 1 if higher is better."""
    item_count, scores_by_metric = len(ids_of_items(samples)), dict[str, dict[str, np.ndarray]]()
    metrics = [metric for metric in case.model.metrics if labelled or not metric.labelled]
    framework = stages.framework or stages.served
    for metric in metrics:
        most, form = (1 + 1e-6, " of 1 at most") if metric.better == "higher" else (np.inf, "")
        for stage in stages.known:
            scores = metric.score(stage.kept, samples.labels, framework.kept)
            if scores.shape != (item_count,) or not np.isfinite(scores).all() or scores.mean() > most:
                given = f"{metric.name} gave {scores.shape} scores, {scores.mean():g} on the mean"
                what = f"{given}, not a finite one{form} for each of {item_count} samples"
                raise ProofError(what, where=f"stage {stage.name}")
            scores_by_metric.setdefault(metric.name, {})[stage.name] = scores
    return scores_by_metric


def accuracy_ledger(
    arithmetic: CaseArithmetic,
    samples: Samples,
    stages: Stages,
    scores_by_metric: ItemScores,
    user_limits: Mapping[str, Limit],
) -> Ledger:
    """The ledger of the known stages. A metric's limits are that in `user_limits`, else the model's own, and
    a share of the framework's score if known. The converted and the served model are one file on the same
    data: decisions must agree as the format demands, outputs as far as other kernels allow."""
    metrics = [metric for metric in arithmetic.case.model.metrics if metric.name in scores_by_metric]
    item_count, scores = len(ids_of_items(samples)), []
    for metric in metrics:
        by_stage, user_limit = scores_by_metric[metric.name], user_limits.get(metric.name)
        if stages.framework is None:
            limits = tuple(metric.limits.values()) if user_limit is None else (user_limit,)
            mean = float(by_stage["served"].mean())
            scores.append(Score(metric.name, metric.better, None, None, mean, limits))
            continue
        own_limit = user_limit or limit_in(arithmetic.precision, metric.limits)
        rounded = _rounded_error(metric, arithmetic.precision, samples, stages.framework.kept)
        scores.append(_score(metric, arithmetic.precision, by_stage, own_limit, rounded))
    decides = stages.converted is not None and stages.converted.decisions.size > 0
    agreement = arithmetic.tolerance.min_agreement if decides else None
    goodness = _goodness(metrics, scores_by_metric, item_count)
    disagreements = tuple(
        _disagreement(stage, later, samples, goodness, agreement if later is stages.served else None)
        for stage, later in itertools.pairwise(stages.known)
    )
    return Ledger(
        scores=tuple(scores),
        samples=item_count,
        disagreements=disagreements,
        requests=stages.served.requests,
        outputs=stages.served.differences,
    )


def why_no_score(
    model: NetworkModel, framework_model: FrameworkModel, samples: Samples, *, has_dataset: bool = False
) -> str | None:
    """The options without which the task's metric means nothing, as a sentence; None if none is missing, or
    no metric needs labels. `has_dataset` says that the user gave a data set, perhaps without labels."""
    if not any(metric.labelled for metric in model.metrics):
        return None
    options = [] if framework_model.trained else [f"--checkpoint {model.name}=PATH"]
    if samples.labels is None and has_dataset:
        options.append(f"labels, which `samples` in {model.defined_in.name} does not return")
    elif samples.labels is None:
        options.append(f"--dataset {model.name}=PATH")
    return f"{model.metrics[0].name} needs {' and '.join(options)}" if options else None


def _score(
    metric: Metric, precision: str, by_stage: _StageScores, own_limit: Limit | None, rounded: float
) -> Score:
    framework, converted, served = (float(by_stage[stage].mean()) for stage in sample_files.STAGES)
    limits = [] if own_limit is None else [own_limit]
    if metric.labelled and metric.keeps_framework_score:
        fraction, sign = PRECISIONS[precision].kept_score, 1
        if metric.better == "lower":
            fraction, sign = 1 / fraction, -1
        # FP32's rounding, a millionth, hardly breaks a tie, so no loss is chance.
        before, after = by_stage["framework"], by_stage["served"]
        critical = 0.0 if precision == "fp32" else critical_change(before, after)
        worst, source = fraction * framework, f"{fraction:.1%} of the framework's score on the same samples"
        if not meets(metric.better, framework - sign * critical, worst):
            worst = framework - sign * critical
            source += ", or what chance makes of those that differ: paired test, 95 %"
        if rounded > worst:  # as where the framework makes no error
            worst, source = rounded, f"{source}, or what rounding makes of its outputs"
        limits.append(Limit(worst, source))
    return Score(metric.name, metric.better, framework, converted, served, tuple(limits))


def _rounded_error(metric: Metric, precision: str, samples: Samples, outputs: Arrays) -> float:
    """The metric's error if the precision's rounding moves each number of `outputs`; numbers stay in their
    output's range, as a metric of probabilities refuses others. -inf if no error is to be kept."""
    if metric.better == "higher" or not (metric.labelled and metric.keeps_framework_score):
        return -np.inf
    moved, rounding = dict(outputs), max(DEEP_ROUNDING, PRECISIONS[precision].rounding)
    for name in floating_outputs(outputs):
        values = outputs[name]
        share = max(rounding, float(np.finfo(values.dtype).eps))
        steps = share * np.abs(values).max(initial=0) * np.resize([1.0, -1.0], values.shape)
        bounds = values.min(initial=np.inf), values.max(initial=-np.inf)
        moved[name] = np.clip(values + steps, *bounds).astype(values.dtype)
    return float(metric.score(moved, samples.labels, outputs).mean())


def critical_change(before: np.ndarray, after: np.ndarray) -> float:
    """How far the mean of the items' scores, [items], moves to one side by chance alone in 95 % of draws, if
    each item's change might as well have had the opposite sign: the paired permutation test by its normal
    approximation; for right and wrong answers it is McNemar's test."""
    changes = (after - before).astype(np.float64)
    return ONE_SIDED_95 * float(np.sqrt((changes**2).sum())) / len(changes)


def ids_of_items(samples: Samples) -> Sequence[str]:
    """The id of each item: that of its first row."""
    if samples.items is None:
        return samples.ids
    _, first = np.unique(samples.items, return_index=True)
    return [samples.ids[i] for i in first]


def _goodness(metrics: Sequence[Metric], scores_by_metric: ItemScores, item_count: int) -> _StageScores:
    """By stage: each item's score by the first metric, negated if lower is better; 0 without metrics."""
    if not metrics:
        return dict.fromkeys(sample_files.STAGES, np.zeros(item_count))
    sign = -1 if metrics[0].better == "lower" else 1
    return {stage: sign * scores for stage, scores in scores_by_metric[metrics[0].name].items()}


def _items_that_differ(samples: Samples, before: StageAnswers, after: StageAnswers) -> np.ndarray:
    """The indices of the items of which any row is decided differently, ascending."""
    rows = np.flatnonzero(equal_fraction(before.decisions, after.decisions) < 1)
    return rows if samples.items is None else np.unique(samples.items[rows])


def _disagreement(
    stage: StageAnswers, later: StageAnswers, samples: Samples, goodness: _StageScores, limit: float | None
) -> Disagreement:
    item_ids, differ = ids_of_items(samples), _items_that_differ(samples, stage, later)
    change = (goodness[later.name] - goodness[stage.name])[differ]
    return Disagreement(
        between=(stage.name, later.name),
        count=len(differ),
        lost=int((change < 0).sum()),
        gained=int((change > 0).sum()),
        sample_ids=tuple(item_ids[i] for i in differ[:100]),
        agreement=float(equal_fraction(stage.decisions, later.decisions).mean()),
        agreement_limit=limit,
    )


MAX_WORST_ITEMS = 5
"""How many items of a case a reader sees."""


def sample_scores(
    case: Case, digest: str, samples: Samples, stages: Stages, scores_by_metric: ItemScores
) -> sample_files.SampleScores:
    """The file beside the record of the build with this `digest`: the scores behind its ledger."""
    item_ids = tuple(map(str, ids_of_items(samples)))
    # Six digits are more than a comparison of samples needs, and make a third of the file.
    scores = {
        metric: {stage: tuple(float(f"{score:.6g}") for score in each) for stage, each in by_stage.items()}
        for metric, by_stage in scores_by_metric.items()
    }
    show = case.model.show or (lambda *_args: ())
    kept = (stages.framework or stages.served).kept, stages.served.kept
    shown = tuple(
        sample_files.Sample(item_ids[item], why, tuple(show(samples, item, *kept)))
        for item, why in worst_items(case, samples, stages, scores_by_metric)
    )
    return sample_files.SampleScores(case.key, digest, item_ids, scores, shown)


def worst_items(
    case: Case, samples: Samples, stages: Stages, scores_by_metric: ItemScores
) -> list[tuple[int, str]]:
    """The items worth a look, the worst first, each with the reason: those lost between two stages, then
    those decided differently, then those with a served score worse than the mean, by the first metric."""
    metrics = [metric for metric in case.model.metrics if metric.name in scores_by_metric]
    goodness = _goodness(metrics, scores_by_metric, len(ids_of_items(samples)))
    served, candidates = goodness["served"], list[tuple[int, int, str]]()
    for stage, later in itertools.pairwise(stages.known):
        for item in _items_that_differ(samples, stage, later):
            rank = 0 if goodness[later.name][item] < goodness[stage.name][item] else 1
            how = ("scores worse than", "decides differently from")[rank]
            candidates.append((rank, int(item), f"{later.name} {how} {stage.name}"))
    for metric in metrics[:1]:
        low = f"{'high' if metric.better == 'lower' else 'low'} {metric.name}"
        candidates += [(2, int(item), low) for item in np.flatnonzero(served < served.mean())]
    reasons = dict[int, str]()
    for _, item, why in sorted(candidates, key=lambda entry: (entry[0], served[entry[1]], entry[1])):
        reasons.setdefault(item, why)
    return list(reasons.items())[:MAX_WORST_ITEMS]
