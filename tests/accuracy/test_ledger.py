"""The ledger: every sample is judged once, and a model that lost some does not pass."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from fixtures.accuracy.all_outputs import differences_of
from fixtures.accuracy.ledger import (
    accuracy_ledger,
    missing_options,
    score_each_sample,
    served_ledger,
)
from fixtures.accuracy.precision_cost import output_limits
from fixtures.accuracy.stages import Stage, Stages
from fixtures.errors import ProofError
from fixtures.spec import Arrays, Case, Samples
from reports.record.schema import Accuracy, Limit
from tests import toy


def ledger(
    case: Case,
    samples: Samples,
    stages: Stages,
    *,
    labelled: bool = True,
    asked: Mapping[str, Limit] = MappingProxyType({}),
    tf32: bool | None = None,
) -> Accuracy:
    """The ledger of what each sample scored; limits of metrics may be asked for in place of the model's."""
    per_sample = score_each_sample(case, samples, stages, labelled=labelled)
    return accuracy_ledger(case, samples, stages, per_sample, asked=asked, tf32=tf32)


def stage(name: str, right: int, **changes: Any) -> Stage:
    """A stage that decides the first `right` of 100 samples rightly."""
    classes = np.where(np.arange(100) < right, toy.samples(100).labels, -1)
    return Stage(name, {"classes": classes}, classes, **{"requests": 9, **changes})


def stages(framework: int, converted: int, last: int) -> Stages:
    """Three stages by how many samples of 100 each gets right."""
    return stage("framework", framework), stage("converted", converted), stage("served", last)


def deciding(one: np.ndarray, other: np.ndarray, **kept: np.ndarray) -> Stages:
    """A framework that decides so, and a converted model that decides otherwise, also when it is served."""
    framework, converted = (
        Stage(name, kept or {"classes": decisions}, decisions)
        for name, decisions in (("framework", one), ("converted", other))
    )
    return framework, converted, converted


def changed(count: int, lost: int, gained: int) -> Stages:
    """Three stages, the last of which loses and gains samples; the framework has one in twenty wrong."""
    labels = np.asarray(toy.samples(count).labels)
    wrong = np.where(np.arange(count) % 20 == 0, -1, labels)
    served = wrong.copy()
    served[np.flatnonzero(wrong == labels)[:lost]] = -1
    gains = np.flatnonzero(wrong == -1)[:gained]
    served[gains] = labels[gains]
    return deciding(wrong, served)


# --- what it says -------------------------------------------------------------------------------------------


def test_ledger_holds_stages_and_disagreements() -> None:
    result = ledger(toy.case(), toy.samples(100), stages(95, 93, 96))

    (score,) = result.scores
    assert (score.framework, score.converted, score.served) == (0.95, 0.93, 0.96)
    assert (score.metric, result.samples, result.requests) == ("top-1", 100, 9)
    assert (result.outputs, result.passed) == ((), True)
    first, second = result.disagreements
    assert (first.between, first.count, first.lost, first.gained) == (("framework", "converted"), 2, 2, 0)
    assert first.samples == ("toy-093", "toy-094")
    assert first.agreement == pytest.approx(0.98)
    assert (second.between, second.count, second.lost, second.gained) == (("converted", "served"), 3, 0, 3)


def test_rows_of_an_item_are_scored_together() -> None:
    items = np.array([0, 0, 1, 2, 2, 2])
    rows = Samples([f"row-{i}" for i in range(6)], toy.samples().load, labels="three items", items=items)

    def by_item(kept: Arrays, _labels: Any, _framework: Arrays) -> np.ndarray:
        return np.array([float(kept["classes"][items == item].all()) for item in range(3)])

    case = toy.case(toy.model(metrics=(toy.metric(score=by_item),)))
    result = ledger(case, rows, deciding(np.ones(6), np.array([1, 1, 1, 1, 0, 0])))

    assert result.samples == 3
    assert result.scores[0].served == pytest.approx(2 / 3)
    first = result.disagreements[0]
    assert (first.count, first.lost, first.samples) == (1, 1, ("row-3",))
    assert first.agreement == pytest.approx(4 / 6)


@pytest.mark.parametrize("scores", [np.ones(99), np.full(100, np.nan)])
def test_missing_or_nonfinite_scores_are_an_error(scores: np.ndarray) -> None:
    found = iter([np.ones(100), scores, np.ones(100)])
    case = toy.case(toy.model(metrics=(toy.metric(score=lambda *_arguments: next(found)),)))

    with pytest.raises(ProofError, check=lambda error: error.where == "stage converted"):
        ledger(case, toy.samples(100), stages(98, 98, 98))


# --- its limits ---------------------------------------------------------------------------------------------


def test_changed_decisions_fail_despite_equal_score() -> None:
    """A server whose score is as good still fails."""
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

    score, error = ledger(
        case, toy.samples(count), changed(count, lost, gained), tf32=precision == "tf32"
    ).scores

    assert score.passed is passed
    # A share of the error, which is small, is less than one of the score.
    assert error.passed is (passed and count == 500)


def distance(kept: Arrays, _labels: Any, framework: Arrays) -> np.ndarray:
    """An error against the framework: 1 for each sample that is decided otherwise."""
    return (kept["classes"] != framework["classes"]).astype(float)


TO_FRAMEWORK = toy.metric(
    name="error to framework",
    score=distance,
    limits={"fp32": Limit(0.01, "chosen")},
    better="lower",
    labelled=False,
)


def test_every_metric_must_pass() -> None:
    case = toy.case(toy.model(metrics=(toy.metric(), TO_FRAMEWORK)))

    result = ledger(case, toy.samples(100), stages(92, 92, 96))

    assert [score.passed for score in result.scores] == [True, False]
    assert not result.passed


@pytest.mark.parametrize(("metrics", "scores"), [((toy.metric(), TO_FRAMEWORK), 1), ((toy.metric(),), 0)])
def test_unlabelled_data_is_judged_against_framework_alone(metrics: tuple[Any, ...], scores: int) -> None:
    unlabelled = Samples(toy.samples(100).ids, toy.samples(100).load)

    result = ledger(toy.case(toy.model(metrics=metrics)), unlabelled, stages(100, 100, 90), labelled=False)

    assert [score.metric for score in result.scores] == ["error to framework"][:scores]
    assert (result.disagreements[1].count, result.passed) == (10, False)


@pytest.mark.parametrize(("floor", "passes"), [(0.95, True), (0.97, False)])
def test_requested_limit_replaces_model_limit(floor: float, passes: bool) -> None:
    own = {"fp32": Limit(0.5 if not passes else 0.99, "the model's")}
    case = toy.case(toy.model(metrics=(toy.metric(limits=own),)))

    found = ledger(case, toy.samples(100), stages(96, 96, 96), asked={"top-1": Limit(floor, "agreed")})

    assert found.passed is passes
    asked, _beside_framework = found.scores[0].limits
    assert asked == Limit(floor, "agreed")


def test_user_floor_replaces_framework_comparison() -> None:
    metric = toy.metric(limits={"fp32": Limit(0.5, "given")}, beside_framework=False)
    (score,) = ledger(toy.case(toy.model(metrics=(metric,))), toy.samples(100), stages(100, 80, 80)).scores
    assert (score.passed, [one.source for one in score.limits]) == (True, ["given"])


# --- every output of the server -----------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "passed"), [(0.0, True), (0.9, False)])
def test_wrong_output_fails_ledger_despite_good_scores(error: float, passed: bool) -> None:
    wanted = np.tile(np.linspace(0.1, 1, 4, dtype=np.float32), (100, 1))
    given = wanted.copy()
    given[7, 3] += np.float32(error)
    case, ids = toy.case(), toy.samples(100).ids
    limits = output_limits(case, None, {toy.OUTPUT: wanted.size}, 100, False, same_file=True)
    differences = differences_of({toy.OUTPUT: wanted}, ids, limits, "served", "in process it")
    differences.add({toy.OUTPUT: given}, range(100))
    three = stage("framework", 100), stage("converted", 100), stage("served", 100, differences=differences)

    found = ledger(case, toy.samples(100), three, tf32=False)

    assert all(one.passed for one in found.scores)
    assert found.passed is passed
    assert [one.sample for one in found.outputs] == ["" if passed else "toy-007"]


# --- a model as it was found --------------------------------------------------------------------------------


def as_found(right: int, asked: dict[str, Limit], *metrics: Any) -> Accuracy:
    """The ledger of a model that is served as it was found, with so many of 100 samples right."""
    served = stage("served", right, requests=7)
    return served_ledger(toy.case(toy.model(metrics=metrics)), toy.samples(100), served, asked)


def test_served_model_without_reference_keeps_its_own_limits() -> None:
    """Limits that are asked for replace them."""
    own = toy.metric(limits={"fp32": Limit(0.9, "chosen")})

    fine = as_found(95, {}, own)
    assert (fine.passed, fine.samples, fine.requests, fine.disagreements) == (True, 100, 7, ())
    (score,) = fine.scores
    assert (score.framework, score.converted, score.served) == (None, None, 0.95)
    assert (score.metric, score.limits) == ("top-1", (Limit(0.9, "chosen"),))
    assert not as_found(85, {}, own).passed
    assert as_found(85, {"top-1": Limit(0.8, "asked")}, own).passed
    stricter = as_found(95, {"top-1": Limit(0.97, "asked")}, own)
    assert (stricter.passed, [one.source for one in stricter.scores[0].limits]) == (False, ["asked"])
    assert as_found(1, {}, toy.metric(limits={})).passed
    two = as_found(95, {}, own, toy.metric(name="other", limits={"fp32": Limit(0.99, "chosen")}))
    assert ([one.passed for one in two.scores], two.passed) == ([True, False], False)


# --- labels that are missing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trained", "labelled", "options"),
    [
        (True, True, None),
        (False, True, {"--checkpoint toy=PATH"}),
        (True, False, {"--dataset toy=PATH"}),
        (False, False, {"--checkpoint toy=PATH", "--dataset toy=PATH"}),
    ],
)
def test_missing_checkpoint_or_dataset_option_is_named(
    trained: bool, labelled: bool, options: set[str] | None
) -> None:
    samples = toy.samples() if labelled else Samples(toy.samples().ids, toy.samples().load)
    said = missing_options(toy.model(), toy.weights(trained=trained), samples)

    assert (said and set(said.partition(" needs ")[2].split(" and "))) == options
    if not labelled:
        given = missing_options(toy.model(), toy.weights(trained=trained), samples, has_dataset=True)
        assert "--dataset" not in (given or "")
    unlabelled = toy.model(metrics=(toy.metric(name="error", labelled=False),))
    assert missing_options(unlabelled, toy.weights(trained=trained), samples) is None
