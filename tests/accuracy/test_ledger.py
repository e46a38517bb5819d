"""The ledger judges every sample once and fails a model that lost samples; scores per item."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import sample_records as records
from tests import toy
from tests.toy import ledger
from tritonproof.accuracy import ledger as ledger_module
from tritonproof.accuracy.ledger import score_each_item, why_no_score, worst_items
from tritonproof.accuracy.stages import StageAnswers, Stages
from tritonproof.base.errors import ProofError
from tritonproof.record import record_files, sample_files
from tritonproof.record.correctness import Ledger, Limit
from tritonproof.spec import Arrays, Case, Samples


def stage(name: str, right: int, **changes: Any) -> StageAnswers:
    """A stage that gets the first `right` of 100 samples right."""
    classes = np.where(np.arange(100) < right, toy.samples(100).labels, -1)
    return StageAnswers(name, {"classes": classes}, classes, **{"requests": 9, **changes})


def stages(framework: int, converted: int, served: int) -> Stages:
    """Three stages by how many samples of 100 each gets right."""
    right = {"framework": framework, "converted": converted, "served": served}
    return Stages(**{name: stage(name, count) for name, count in right.items()})


def deciding(framework: np.ndarray, converted: np.ndarray, served: np.ndarray | None = None) -> Stages:
    """The stages with these decisions; the served model has the converted one's, unless it has others."""
    served = converted if served is None else served
    decided = {"framework": framework, "converted": converted, "served": served}
    return Stages(**{name: StageAnswers(name, {"classes": each}, each) for name, each in decided.items()})


def test_ledger_holds_stages_and_disagreements() -> None:
    result = ledger(toy.case(), toy.samples(100), stages(95, 93, 96))

    (score,) = result.scores
    assert (score.framework, score.converted, score.served) == (0.95, 0.93, 0.96)
    assert (score.metric, result.samples, result.requests) == ("top-1", 100, 9)
    assert (result.outputs, result.passed) == ((), True)
    first, second = result.disagreements
    assert (first.between, first.count, first.lost, first.gained) == (("framework", "converted"), 2, 2, 0)
    assert first.sample_ids == ("toy-093", "toy-094")
    assert first.agreement == pytest.approx(0.98)
    assert (second.between, second.count, second.lost, second.gained) == (("converted", "served"), 3, 0, 3)


def test_rows_of_an_item_are_scored_together() -> None:
    items = np.array([0, 0, 1, 2, 2, 2])
    rows = Samples([f"row-{i}" for i in range(6)], toy.samples().read, labels="three items", items=items)

    def by_item(kept: Arrays, _labels: Any, _framework: Arrays) -> np.ndarray:
        return np.array([float(kept["classes"][items == item].all()) for item in range(3)])

    case = toy.case(toy.model(metrics=(toy.metric(score=by_item),)))
    result = ledger(case, rows, deciding(np.ones(6), np.array([1, 1, 1, 1, 0, 0])))
    assert result.samples == 3
    assert result.scores[0].served == pytest.approx(2 / 3)
    first = result.disagreements[0]
    assert (first.count, first.lost, first.sample_ids) == (1, 1, ("row-3",))
    assert first.agreement == pytest.approx(4 / 6)


@pytest.mark.parametrize("scores", [np.ones(99), np.full(100, np.nan), np.full(100, 95.0)])
def test_missing_nonfinite_or_percent_scores_are_an_error(scores: np.ndarray) -> None:
    stage_scores = iter([np.ones(100), scores, np.ones(100)])
    case = toy.case(toy.model(metrics=(toy.metric(score=lambda *_arguments: next(stage_scores)),)))
    with pytest.raises(ProofError, check=lambda error: error.where == "stage converted"):
        ledger(case, toy.samples(100), stages(98, 98, 98))


def test_changed_decisions_fail_despite_equal_score() -> None:
    result = ledger(toy.case(), toy.samples(100), stages(90, 90, 96))
    assert all(score.passed for score in result.scores)
    assert result.disagreements[1].agreement == pytest.approx(0.94)
    assert result.disagreements[1].agreement_limit == 0.95
    assert not result.passed


@pytest.mark.parametrize(
    ("precision", "framework", "last", "passed"),
    [
        pytest.param("fp32", 100, 100, True, id="equal"),
        pytest.param("fp32", 100, 99, False, id="fp32 below 99.9 % of the framework"),
        pytest.param("int8", 100, 99, True, id="int8 at 99 % of the framework"),
        pytest.param("int8", 100, 97, False, id="int8 below 99 % of the framework"),
        pytest.param("bf16", 100, 97, False, id="bf16 below 99 % of the framework"),
        pytest.param("fp16", 100, 97, False, id="fp16 below 99.9 % of the framework"),
        pytest.param("fp32", 90, 90, True, id="at the model's own floor"),
        pytest.param("fp32", 89, 89, False, id="below the model's own floor"),
        pytest.param("fp32", 91, 95, True, id="better than the framework"),
    ],
)
def test_ledger_passes_within_all_limits(precision: str, framework: int, last: int, passed: bool) -> None:
    case = toy.case(precision=precision)
    result = ledger(case, toy.samples(100), stages(framework, framework, last))
    (score,) = result.scores
    assert result.passed is score.passed is passed
    assert score.passed is all(score.served >= limit.value for limit in score.limits)
    own = [True] if precision in case.model.metrics[0].limits else []
    assert [limit.source == "chosen" for limit in score.limits] == [*own, False]


@pytest.mark.parametrize(
    ("precision", "count", "lost", "gained", "passed"),
    [
        pytest.param("fp16", 500, 1, 0, True, id="a broken tie of 500"),
        pytest.param("fp16", 500, 4, 3, True, id="ties broken both ways"),
        pytest.param("fp16", 500, 3, 0, False, id="three lost and none gained"),
        pytest.param("fp16", 20_000, 19, 0, True, id="within the tolerance, though no chance"),
        pytest.param("fp16", 20_000, 25, 0, False, id="beyond the tolerance and no chance"),
        pytest.param("int8", 500, 13, 8, True, id="one percent lost among many that differ"),
        pytest.param("int8", 500, 7, 1, False, id="as much lost among few that differ"),
        pytest.param("bf16", 500, 20, 2, False, id="far more lost than gained"),
        pytest.param("fp32", 500, 1, 0, False, id="fp32 has no ties to break"),
        pytest.param("tf32", 500, 1, 0, True, id="tf32 has"),
    ],
)
def test_loss_fails_only_beyond_tolerance_and_chance(
    precision: str, count: int, lost: int, gained: int, passed: bool
) -> None:
    def wrong(kept: Arrays, labels: Any, _framework: Arrays) -> np.ndarray:
        return (kept["classes"] != labels).astype(float)

    as_error = toy.metric(name="error", score=wrong, better="lower", limits={})
    model = toy.model(metrics=(toy.metric(limits={}), as_error))
    case = toy.case(model, precision="fp32" if precision == "tf32" else precision)
    labels = np.asarray(toy.samples(count).labels)
    before = np.where(np.arange(count) % 20 == 0, -1, labels)  # one in twenty is wrong
    served, gains = before.copy(), np.flatnonzero(before == -1)[:gained]
    served[np.flatnonzero(before == labels)[:lost]] = -1
    served[gains] = labels[gains]

    score, error = ledger(case, toy.samples(count), deciding(before, served), precision=precision).scores
    assert score.passed is passed
    # The error is small, so the same share of it allows less.
    assert error.passed is (passed and count == 500)


@pytest.mark.parametrize(
    ("precision", "off", "passed"),
    [("fp32", 2e-6, True), ("fp32", 2e-4, False), ("fp16", 1e-3, True), ("fp16", 2e-2, False)],
)
def test_rounding_is_no_loss_if_the_framework_has_no_error(precision: str, off: float, passed: bool) -> None:
    """The labels are the framework's own outputs."""
    right = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)

    def error(kept: Arrays, labels: Any, _framework: Arrays) -> np.ndarray:
        return np.square(kept["classes"] - labels).mean(axis=1)

    model = toy.model(metrics=(toy.metric(name="mse", score=error, better="lower", limits={}),))
    samples = Samples(toy.samples(100).ids, toy.samples(100).read, right)
    (score,) = ledger(toy.case(model, precision), samples, deciding(right, right + np.float32(off))).scores
    assert score.passed is passed


def distance(kept: Arrays, _labels: Any, framework: Arrays) -> np.ndarray:
    """An error against the framework: 1 for each sample with another decision."""
    return (kept["classes"] != framework["classes"]).astype(float)


LIMIT = {"fp32": Limit(0.01, "chosen")}
TO_FRAMEWORK = toy.metric(name="distance", score=distance, limits=LIMIT, better="lower", labelled=False)


@pytest.mark.parametrize(("metrics", "scores"), [((toy.metric(), TO_FRAMEWORK), 1), ((toy.metric(),), 0)])
def test_unlabelled_data_is_judged_against_framework_alone(metrics: tuple[Any, ...], scores: int) -> None:
    unlabelled = Samples(toy.samples(100).ids, toy.samples(100).read)
    result = ledger(toy.case(toy.model(metrics=metrics)), unlabelled, stages(100, 100, 90), labelled=False)
    assert [(score.metric, score.served) for score in result.scores] == [("distance", 0.1)][:scores]
    assert (result.disagreements[1].count, result.passed) == (10, False)


@pytest.mark.parametrize(("own", "floor", "passes"), [(0.99, 0.95, True), (0.5, 0.97, False)])
def test_requested_limit_replaces_model_limit(own: float, floor: float, passes: bool) -> None:
    case = toy.case(toy.model(metrics=(toy.metric(limits={"fp32": Limit(own, "the model's")}),)))
    result = ledger(case, toy.samples(100), stages(96, 96, 96), requested={"top-1": Limit(floor, "agreed")})
    requested, _kept_score = result.scores[0].limits
    assert (result.passed, requested) == (passes, Limit(floor, "agreed"))


def test_user_floor_replaces_framework_comparison() -> None:
    metric = toy.metric(limits={"fp32": Limit(0.5, "given")}, keeps_framework_score=False)
    (score,) = ledger(toy.case(toy.model(metrics=(metric,))), toy.samples(100), stages(100, 80, 80)).scores
    assert (score.passed, [limit.source for limit in score.limits]) == (True, ["given"])


def existing(right: int, requested: dict[str, Limit], *metrics: Any) -> Ledger:
    """The ledger of a model served as it is that gets `right` of 100 samples right."""
    served = Stages(served=stage("served", right, requests=7))
    return ledger(toy.case(toy.model(metrics=metrics)), toy.samples(100), served, requested=requested)


def test_served_model_without_reference_keeps_its_own_limits() -> None:
    """Requested limits replace them."""
    metric = toy.metric(limits={"fp32": Limit(0.9, "chosen")})

    passing = existing(95, {}, metric)
    assert (passing.passed, passing.samples, passing.requests, passing.disagreements) == (True, 100, 7, ())
    (score,) = passing.scores
    assert (score.framework, score.converted, score.served) == (None, None, 0.95)
    assert (score.metric, score.limits) == ("top-1", (Limit(0.9, "chosen"),))
    assert not existing(85, {}, metric).passed
    assert existing(85, {"top-1": Limit(0.8, "asked")}, metric).passed
    stricter = existing(95, {"top-1": Limit(0.97, "asked")}, metric)
    assert (stricter.passed, [entry.source for entry in stricter.scores[0].limits]) == (False, ["asked"])
    assert existing(1, {}, toy.metric(limits={})).passed
    mixed = existing(95, {}, metric, toy.metric(name="other", limits={"fp32": Limit(0.99, "chosen")}))
    assert ([entry.passed for entry in mixed.scores], mixed.passed) == ([True, False], False)


@pytest.mark.parametrize(
    ("trained", "labelled", "options"),
    [
        (True, True, None),
        (False, True, {"--checkpoint toy=PATH"}),
        (True, False, {"--dataset toy=PATH"}),
        (False, False, {"--checkpoint toy=PATH", "--dataset toy=PATH"}),
    ],
)
def test_missing_checkpoint_or_dataset_option_is_named(trained: bool, labelled: bool, options: Any) -> None:
    samples = toy.samples() if labelled else Samples(toy.samples().ids, toy.samples().read)
    message = why_no_score(toy.model(), toy.weights(trained=trained), samples)
    assert (message and set(message.partition(" needs ")[2].split(" and "))) == options
    message = why_no_score(toy.model(), toy.weights(trained=trained), samples, has_dataset=True)
    assert labelled or "--dataset" not in (message or "")
    unlabelled = toy.model(metrics=(toy.metric(name="error", labelled=False),))
    assert why_no_score(unlabelled, toy.weights(trained=trained), samples) is None


COUNT = 6
LABELS = toy.samples(COUNT).labels
WRONG = (LABELS + 1) % toy.CLASSES


def with_wrong(*items: int) -> np.ndarray:
    """The labels, with wrong ones at these items."""
    classes = LABELS.copy()
    classes[list(items)] = WRONG[list(items)]
    return classes


def worst(case: Case, samples: Samples, three: Stages, *, labelled: bool = True) -> list[tuple[int, str]]:
    return worst_items(case, samples, three, score_each_item(case, samples, three, labelled=labelled))


def error(_kept: object, _labels: np.ndarray, _framework: object) -> np.ndarray:
    return np.array([0.1, 0.3, 0.2, 0.9, 0.1, 0.1])


BY_ERROR = toy.case(toy.model(metrics=(toy.metric(name="MSE", score=error, limits={}, better="lower"),)))


def test_worst_samples_are_ordered_lost_changed_low() -> None:
    framework, converted, served = with_wrong(0, 1), with_wrong(0, 1, 2), with_wrong(0, 1, 2, 5)
    served[1] = (LABELS[1] + 2) % toy.CLASSES
    assert worst(toy.case(), toy.samples(COUNT), deciding(framework, converted, served)) == [
        (2, "converted scores worse than framework"),
        (5, "served scores worse than converted"),
        (1, "served decides differently from converted"),
        (0, "low top-1"),
    ]


def test_worst_sample_is_shown_by_the_framework_and_as_served() -> None:
    model = toy.model(show=lambda _samples, item, *kept: [str(each["classes"][item]) for each in kept])
    one = toy.case(model)
    three = deciding(LABELS, LABELS, with_wrong(4))
    scores = score_each_item(one, toy.samples(COUNT), three)
    (sample,) = ledger_module.sample_scores(one, "digest", toy.samples(COUNT), three, scores).worst
    assert sample.parts == (str(LABELS[4]), str(WRONG[4]))


@pytest.mark.parametrize(
    ("scored", "served", "labelled", "items"),
    [
        pytest.param(toy.case(), LABELS, True, [], id="all are right"),
        pytest.param(BY_ERROR, LABELS, True, [3, 1], id="where lower is better the highest"),
        pytest.param(toy.case(), with_wrong(4), False, [4], id="without labels decisions tell"),
        pytest.param(toy.case(), with_wrong(*range(COUNT)), True, [0, 1, 2, 3, 4], id="five at most"),
    ],
)
def test_worst_samples_are_listed(scored: Case, served: np.ndarray, labelled: bool, items: list[int]) -> None:
    samples = toy.samples(COUNT) if labelled else dataclasses.replace(toy.samples(COUNT), labels=None)
    listed = worst(scored, samples, deciding(LABELS, LABELS, served), labelled=labelled)
    assert [item for item, _reason in listed] == items


def made_up_scores(count: int, stage: str = "served", scored: int = 500) -> sample_files.SampleScores:
    """Scores for a number of samples of the record of the examples, which has 500."""
    record, ids = records.record(), tuple(f"s{i}" for i in range(count))
    scores = {"top-1": {stage: (1.0,) * scored}}
    return sample_files.SampleScores(record.case, record.build.digest, ids, scores, ())


@pytest.mark.parametrize(("count", "stage"), [(499, "framework"), (500, "guessed")])
def test_inconsistent_samples_file_names_the_key(tmp_path: Path, count: int, stage: str) -> None:
    path = tmp_path / "x.samples.json"
    sample_files.write(made_up_scores(count, stage), path)
    with pytest.raises(record_files.RecordError, check=lambda error: f"scores.top-1.{stage}" in str(error)):
        sample_files.read(path)


@pytest.mark.parametrize(("count", "is_own"), [(499, False), (500, True)])
def test_samples_of_another_dataset_are_ignored(tmp_path: Path, count: int, is_own: bool) -> None:
    record = records.record()
    sample_files.write(made_up_scores(count, scored=count), sample_files.samples_path(record.case, tmp_path))
    scores = sample_files.scores_of(record, record_files.record_path(record.case, tmp_path))
    assert (scores is not None) is is_own
