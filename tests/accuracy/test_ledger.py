"""The ledger: every sample is judged once, and a model that lost some does not pass."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from fixtures.accuracy.ledger import (
    RELATIVE_LIMITS,
    accuracy_ledger,
    chance_of_a_change,
    score_each_sample,
)
from fixtures.accuracy.stages import Stage, Stages
from fixtures.errors import ProofError
from fixtures.spec import Arrays, Case, Samples
from reports.record.schema import Accuracy, Limit
from reports.text.correctness import ledger_failures
from tests import toy


def ledger(
    case: Case,
    samples: Samples,
    stages: Stages,
    *,
    labelled: bool = True,
    asked: Mapping[str, Limit] = MappingProxyType({}),
) -> Accuracy:
    """The ledger of what each sample scored; limits of metrics may be asked for in place of the model's."""
    per_sample = score_each_sample(case, samples, stages, labelled=labelled)
    return accuracy_ledger(case, samples, stages, per_sample, asked=asked)


def stage(name: str, right: int, **changes: Any) -> Stage:
    """A stage that decides the first `right` of 100 samples rightly."""
    classes = np.where(np.arange(100) < right, toy.samples(100).labels, -1)
    return Stage(name, {"classes": classes}, classes, **{"requests": 9, **changes})


def stages(framework: int, converted: int, last: int) -> Stages:
    """Three stages by how many samples of 100 each gets right."""
    before = stage("framework", framework, requests=2), stage("converted", converted, requests=4)
    return *before, stage("served", last)


def test_the_ledger_holds_the_score_of_each_stage() -> None:
    result = ledger(toy.case(), toy.samples(100), stages(98, 97, 96))

    (score,) = result.scores
    assert (score.framework, score.converted, score.served) == (0.98, 0.97, 0.96)
    assert (score.metric, result.samples, result.requests) == ("top-1", 100, 9)


def test_the_ledger_names_what_neighbours_decide_differently() -> None:
    samples = toy.samples(100)

    first, second = ledger(toy.case(), samples, stages(95, 93, 96)).disagreements

    assert (first.between, first.count, first.lost, first.gained) == (("framework", "converted"), 2, 2, 0)
    assert first.samples == ("toy-093", "toy-094")
    assert first.agreement == pytest.approx(0.98)
    assert (second.between, second.count, second.lost, second.gained) == (("converted", "served"), 3, 0, 3)


def test_two_wrong_answers_that_differ_are_neither_lost_nor_gained() -> None:
    one = Stage("framework", {"classes": np.array([7, 7, 7])}, np.array([7, 7, 7]))
    other = Stage("converted", {"classes": np.array([7, 8, 7])}, np.array([7, 8, 7]))

    (first, _) = ledger(toy.case(), toy.samples(3), (one, other, other)).disagreements

    assert (first.count, first.lost, first.gained) == (1, 0, 0)


def test_a_decision_of_many_parts_counts_once_per_sample_and_agrees_in_part() -> None:
    classes = {"classes": toy.samples(2).labels}
    masks = np.zeros((2, 5, 5))
    one = Stage("framework", classes, masks.copy())
    masks[1, 2:4, 3] = 1
    other = Stage("converted", classes, masks)

    (first, _) = ledger(toy.case(), toy.samples(2), (one, other, other)).disagreements

    assert (first.count, first.samples) == (1, ("toy-001",))
    assert first.agreement == pytest.approx(1 - 2 / 50)


def test_a_server_that_decides_otherwise_fails_even_where_its_score_is_as_good() -> None:
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
        pytest.param("fp32", 90, 90, True, id="at the model's own floor"),
        pytest.param("fp32", 89, 89, False, id="below the model's own floor"),
        pytest.param("fp32", 91, 95, True, id="better than the framework"),
    ],
)
def test_the_ledger_passes_if_every_limit_is_kept(
    precision: str, framework: int, last: int, passed: bool
) -> None:
    result = ledger(toy.case(precision=precision), toy.samples(100), stages(framework, framework, last))

    (score,) = result.scores
    assert result.passed is score.passed is passed
    assert score.passed is all(score.served >= limit.value for limit in score.limits)
    own, beside_framework = (limit.source for limit in score.limits)
    assert own == "chosen"
    assert (
        f"{RELATIVE_LIMITS[precision]:.1%} of the framework's score on the same samples" in beside_framework
    )


def changed(count: int, lost: int, gained: int) -> Stages:
    """Three stages, the last of which loses and gains so many samples; the framework has one in twenty wrong."""
    labels = np.asarray(toy.samples(count).labels)
    wrong = np.where(np.arange(count) % 20 == 0, -1, labels)
    served = wrong.copy()
    served[np.flatnonzero(wrong == labels)[:lost]] = -1
    gains = np.flatnonzero(wrong == -1)[:gained]
    served[gains] = labels[gains]
    one, other = (
        Stage(name, {"classes": classes}, classes) for name, classes in (("x", wrong), ("y", served))
    )
    return one, other, other


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
    ],
)
def test_a_loss_fails_where_it_is_larger_than_the_tolerance_and_than_chance(
    precision: str, count: int, lost: int, gained: int, passed: bool
) -> None:
    case = toy.case(toy.model(metrics=(toy.metric(limits={}),)), precision=precision)
    samples = toy.samples(count)
    stages = changed(count, lost, gained)

    result = accuracy_ledger(case, samples, stages, score_each_sample(case, samples, stages))

    (score,) = result.scores
    assert score.passed is passed
    if not passed:
        assert "of the framework's score on the same samples" in str(ledger_failures(result))


def test_products_in_tf32_break_ties_as_sixteen_bits_do() -> None:
    case, samples, stages = toy.case(), toy.samples(500), changed(500, 1, 0)
    found = score_each_sample(case, samples, stages)

    exact, rounded = (accuracy_ledger(case, samples, stages, found, tf32=tf32) for tf32 in (False, True))

    assert (exact.scores[0].passed, rounded.scores[0].passed) == (False, True)


@pytest.mark.parametrize(
    ("precision", "tf32", "limit"),
    [("fp32", None, 0.9), ("fp32", False, 0.9), ("fp32", True, 0.7), ("fp16", None, 0.8)],
)
def test_fp32_in_tf32_is_held_to_a_limit_of_its_own(precision: str, tf32: bool | None, limit: float) -> None:
    limits = {name: Limit(value, name) for name, value in (("fp32", 0.9), ("tf32", 0.7), ("fp16", 0.8))}
    case = toy.case(toy.model(metrics=(toy.metric(limits=limits),)), precision=precision)
    samples, stages = toy.samples(100), changed(100, 0, 0)
    found = score_each_sample(case, samples, stages)
    (score,) = accuracy_ledger(case, samples, stages, found, tf32=tf32).scores
    assert score.limits[0].value == limit


def test_without_a_limit_for_tf32_that_of_fp32_holds() -> None:
    assert toy.metric(limits={"fp32": Limit(0.9, "own")}).limit("fp32", tf32=True) == Limit(0.9, "own")


def test_many_small_losses_that_point_one_way_are_no_chance() -> None:
    before = np.full(24, 0.9)
    drifted, scattered = before - 0.02, before - 0.02 * np.where(np.arange(24) % 2, 5.0, -5.0)

    assert before.mean() - drifted.mean() > chance_of_a_change(before, drifted)
    assert before.mean() - (scattered - 0.02).mean() < chance_of_a_change(before, scattered)


# --- several metrics, errors, and items of several rows -------------------------------------------------------


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


@pytest.mark.parametrize(("last", "passed"), [(99, True), (97, False)])
def test_an_error_has_a_ceiling(last: int, passed: bool) -> None:
    case = toy.case(toy.model(metrics=(TO_FRAMEWORK,)))

    (score,) = ledger(case, toy.samples(100), stages(100, 100, last)).scores

    assert score.served == pytest.approx(1 - last / 100)
    assert [limit.value for limit in score.limits] == [0.01]
    assert score.passed is passed


def test_an_error_against_labels_is_held_to_the_framework_from_above() -> None:
    wrong = toy.metric(
        name="error",
        score=lambda kept, labels, _framework: (kept["classes"] != labels).astype(float),
        better="lower",
    )
    case = toy.case(toy.model(metrics=(wrong,)))

    better, worse = (ledger(case, toy.samples(100), stages(96, 96, last)) for last in (97, 95))

    assert better.scores[0].limits[1].value == pytest.approx(0.04 / 0.999)
    assert better.passed
    assert not worse.scores[0].passed
    assert (worse.disagreements[1].lost, worse.disagreements[1].gained) == (1, 0)


@pytest.mark.parametrize(("lost", "gained", "passed"), [(4, 3, True), (3, 0, False)])
def test_ties_that_are_broken_both_ways_are_chance_in_an_error_too(
    lost: int, gained: int, passed: bool
) -> None:
    wrong = toy.metric(
        name="error",
        score=lambda kept, labels, _framework: (kept["classes"] != labels).astype(float),
        better="lower",
        limits={},
    )

    (score,) = ledger(
        toy.case(toy.model(metrics=(wrong,)), precision="fp16"), toy.samples(500), changed(500, lost, gained)
    ).scores

    assert score.passed is passed


def test_every_metric_is_a_gate() -> None:
    case = toy.case(toy.model(metrics=(toy.metric(), TO_FRAMEWORK)))

    result = ledger(case, toy.samples(100), stages(92, 92, 96))

    assert [score.passed for score in result.scores] == [True, False]
    assert not result.passed


def test_a_precision_without_a_limit_is_held_to_the_framework_alone() -> None:
    case = toy.case(toy.model(metrics=(toy.metric(limits={}),)))

    (score,) = ledger(case, toy.samples(100), stages(50, 50, 50)).scores

    assert [limit.value for limit in score.limits] == [pytest.approx(0.4995)]
    assert score.passed


def test_without_labels_only_what_the_framework_tells_is_asked() -> None:
    case = toy.case(toy.model(metrics=(toy.metric(), TO_FRAMEWORK)))
    unlabelled = Samples(toy.samples(100).ids, toy.samples(100).load)

    result = ledger(case, unlabelled, stages(100, 100, 97), labelled=False)

    assert [score.metric for score in result.scores] == ["error to framework"]
    assert not result.passed


def test_without_labels_and_such_a_metric_the_decisions_are_compared() -> None:
    unlabelled = Samples(toy.samples(100).ids, toy.samples(100).load)

    result = ledger(toy.case(), unlabelled, stages(100, 100, 90), labelled=False)

    assert result.scores == ()
    assert (result.disagreements[1].count, result.passed) == (10, False)


def test_rows_of_one_item_are_scored_together() -> None:
    items = np.array([0, 0, 1, 2, 2, 2])
    rows = Samples([f"row-{i}" for i in range(6)], toy.samples().load, labels="three items", items=items)

    def by_item(kept: Arrays, _labels: Any, _framework: Arrays) -> np.ndarray:
        return np.array([float(kept["classes"][items == item].all()) for item in range(3)])

    case = toy.case(toy.model(metrics=(toy.metric(score=by_item),)))
    good = Stage("framework", {"classes": np.ones(6)}, np.ones(6))
    one_bad_row = np.array([1, 1, 1, 1, 0, 0])
    bad = Stage("served", {"classes": one_bad_row}, one_bad_row, requests=3)

    result = ledger(case, rows, (good, good, bad))

    assert result.samples == 3
    assert result.scores[0].served == pytest.approx(2 / 3)
    last = result.disagreements[1]
    assert (last.count, last.lost, last.samples) == (1, 1, ("row-3",))
    assert last.agreement == pytest.approx(4 / 6)


@pytest.mark.parametrize("scores", [np.ones(99), np.full(100, np.nan)])
def test_a_metric_without_a_finite_score_for_each_sample_is_an_error(scores: np.ndarray) -> None:
    found = iter([np.ones(100), scores, np.ones(100)])
    case = toy.case(toy.model(metrics=(toy.metric(score=lambda *_arguments: next(found)),)))

    with pytest.raises(ProofError, match="not one finite score for each of 100 samples") as refused:
        ledger(case, toy.samples(100), stages(98, 98, 98))
    assert f"gave {scores.shape} scores" in str(refused.value)
    assert "stage converted" in str(refused.value)


@pytest.mark.parametrize(("floor", "passes"), [(0.95, True), (0.97, False)])
def test_a_limit_that_is_asked_for_decides_in_place_of_the_model_s_own(floor: float, passes: bool) -> None:
    own = {"fp32": Limit(0.5 if not passes else 0.99, "the model's")}
    case = toy.case(toy.model(metrics=(toy.metric(limits=own),)))

    found = ledger(case, toy.samples(100), stages(96, 96, 96), asked={"top-1": Limit(floor, "agreed")})

    assert found.passed is passes
    sources = [limit.source.partition(" of")[0] for limit in found.scores[0].limits]
    assert sources == ["agreed", "99.9%"], "the framework's stands beside it"
