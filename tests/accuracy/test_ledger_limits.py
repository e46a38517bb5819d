"""What decides a ledger besides its scores: every output of the server, limits that are asked for, and labels that are missing."""

from typing import Any

import numpy as np
import pytest

from fixtures.accuracy.all_outputs import differences_of
from fixtures.accuracy.ledger import (
    RELATIVE_LIMITS,
    accuracy_ledger,
    chance_of_a_change,
    item_ids,
    missing_options,
    score_each_sample,
    served_ledger,
)
from fixtures.accuracy.precision_cost import output_limits
from fixtures.accuracy.stages import Stage
from fixtures.spec import Samples
from reports.record.schema import Accuracy, Limit
from tests import toy
from tests.accuracy.test_ledger import stage

# --- every output of the server ------------------------------------------------------------------------------


def with_outputs(error: float, *, right: int = 100) -> Accuracy:
    """The ledger of a server whose one output is off by so much, in one element."""
    wanted = np.tile(np.linspace(0.1, 1, 4, dtype=np.float32), (100, 1))
    given = wanted.copy()
    given[7, 3] += np.float32(error)
    case, ids = toy.case(), toy.samples(100).ids
    limits = output_limits(case, None, {toy.OUTPUT: wanted.size}, 100, False, same_file=True)
    differences = differences_of(
        {toy.OUTPUT: wanted}, ids, "served", "in process it", limits.rounding, limits.largest
    )
    differences.add({toy.OUTPUT: given}, range(100))
    three = stage("framework", 100), stage("converted", 100), stage("served", right, differences=differences)
    scores = score_each_sample(case, toy.samples(100), three)
    return accuracy_ledger(case, toy.samples(100), three, scores, tf32=False, limits=limits)


def test_a_ledger_fails_for_an_output_alone_that_is_another_than_in_process() -> None:
    fine, wrong = with_outputs(0.0), with_outputs(0.9)

    assert (fine.passed, len(fine.outputs)) == (True, 1)
    assert all(one.passed for one in wrong.scores)
    assert not wrong.passed
    assert wrong.outputs[0].sample == "toy-007"
    assert not with_outputs(0.0, right=80).passed, "and for its score alone"


def test_without_outputs_to_compare_none_are_on_record() -> None:
    three = stage("framework", 100), stage("converted", 100), stage("served", 100)
    found = accuracy_ledger(
        toy.case(), toy.samples(100), three, score_each_sample(toy.case(), toy.samples(100), three)
    )

    assert (found.outputs, found.passed) == ((), True)


# --- limits --------------------------------------------------------------------------------------------------


def as_found(right: int, asked: dict[str, Limit], **metric: Any) -> Accuracy:
    """The ledger of a model that is served as it was found, with so many of 100 samples right."""
    case = toy.case(toy.model(metrics=(toy.metric(**metric),)))
    return served_ledger(case, toy.samples(100), stage("served", right, requests=7), asked)


def test_a_model_as_found_is_held_to_its_own_limits_unless_others_are_asked_for() -> None:
    own = {"limits": {"fp32": Limit(0.9, "chosen")}}

    fine = as_found(95, {}, **own)
    assert (fine.passed, fine.samples, fine.requests, fine.disagreements) == (True, 100, 7, ())
    (score,) = fine.scores
    assert (score.framework, score.converted, score.served) == (None, None, 0.95)
    assert (score.metric, score.limits) == ("top-1", (Limit(0.9, "chosen"),))
    assert not as_found(85, {}, **own).passed
    assert as_found(85, {"top-1": Limit(0.8, "asked")}, **own).passed
    stricter = as_found(95, {"top-1": Limit(0.97, "asked")}, **own)
    assert (stricter.passed, [one.source for one in stricter.scores[0].limits]) == (False, ["asked"])


def test_one_metric_below_its_limit_fails_a_model_as_found() -> None:
    metrics = toy.metric(), toy.metric(name="other", limits={"fp32": Limit(0.99, "chosen")})
    case = toy.case(toy.model(metrics=metrics))

    found = served_ledger(case, toy.samples(100), stage("served", 95), {})

    assert [one.passed for one in found.scores] == [True, False]
    assert not found.passed


def test_a_metric_without_any_limit_passes_as_found() -> None:
    assert as_found(1, {}, limits={}).passed


@pytest.mark.parametrize(
    ("precision", "share"), [("fp32", 0.999), ("fp16", 0.999), ("bf16", 0.99), ("int8", 0.99)]
)
def test_a_precision_keeps_the_share_that_mlperf_asks(precision: str, share: float) -> None:
    """MLPerf Inference's 99.9 % and 99 %; only a loss that is no chance fails, and here all differ one way."""
    assert RELATIVE_LIMITS[precision] == share
    metric = toy.metric(score=lambda kept, _labels, _framework: kept["scores"], limits={})
    case = toy.case(toy.model(metrics=(metric,)), precision=precision)

    def passes(factor: float) -> bool:
        # As many samples as make any common loss more than chance.
        count = 100_000
        one = Stage("framework", {"scores": np.ones(count)}, np.zeros(count))
        other = Stage("served", {"scores": np.full(count, factor)}, np.zeros(count))
        of = Samples([str(number) for number in range(count)], toy.samples().load, labels="yes")
        three = one, other, other
        return accuracy_ledger(case, of, three, score_each_sample(case, of, three)).passed

    assert passes(1 - 0.9 * (1 - share))
    assert not passes(1 - 1.1 * (1 - share))


def test_a_floor_that_the_user_gave_is_the_only_one() -> None:
    limits = {"fp32": Limit(0.5, "given")}
    metric = toy.metric(
        score=lambda kept, _labels, _framework: kept["scores"], limits=limits, beside_framework=False
    )
    case = toy.case(toy.model(metrics=(metric,)))
    of = Samples(toy.samples(100).ids, toy.samples(100).load, labels="yes")
    framework, lower = (
        Stage(name, {"scores": np.full(100, one)}, np.zeros(100))
        for name, one in (("framework", 1.0), ("served", 0.8))
    )
    three = framework, lower, lower
    (score,) = accuracy_ledger(case, of, three, score_each_sample(case, of, three)).scores
    assert (score.passed, [one.source for one in score.limits]) == (True, ["given"])


def test_what_chance_makes_is_a_normal_deviate_of_the_changes_over_the_items() -> None:
    """1.645 standard deviations, each item that changed having gone either way: of 4 in 100 that is 2 x 1.645 %."""
    before = np.ones(100)
    after = np.where(np.arange(100) < 4, 0.0, 1.0)

    assert chance_of_a_change(before, after) == pytest.approx(1.645 * 2 / 100)
    assert chance_of_a_change(after, before) == chance_of_a_change(before, after)
    assert chance_of_a_change(before, before) == 0.0


# --- labels that are missing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trained", "labelled", "said"),
    [
        (True, True, None),
        (False, True, "top-1 needs --checkpoint toy=PATH"),
        (True, False, "top-1 needs --dataset toy=PATH"),
        (False, False, "top-1 needs --checkpoint toy=PATH and --dataset toy=PATH"),
    ],
)
def test_what_a_metric_needs_to_mean_something_is_named(
    trained: bool, labelled: bool, said: str | None
) -> None:
    samples = toy.samples() if labelled else Samples(toy.samples().ids, toy.samples().load)

    assert missing_options(toy.model(), toy.weights(trained=trained), samples) == said


def test_a_data_set_that_was_given_is_not_asked_for_again() -> None:
    bare = Samples(toy.samples().ids, toy.samples().load)
    said = missing_options(toy.model(), toy.weights(), bare, has_dataset=True)
    assert said is not None
    assert "--dataset" not in said
    assert "labels" in said


def test_a_model_whose_metrics_need_no_labels_needs_no_options() -> None:
    unlabelled = toy.metric(name="error", labelled=False)
    bare = Samples(toy.samples().ids, toy.samples().load)

    assert missing_options(toy.model(metrics=(unlabelled,)), toy.weights(trained=False), bare) is None
    both = toy.model(metrics=(toy.metric(), unlabelled))
    assert missing_options(both, toy.weights(), bare) == "top-1 needs --dataset toy=PATH"


def test_an_item_has_the_name_of_its_first_row() -> None:
    rows = Samples([f"row-{n}" for n in range(5)], toy.samples().load, items=np.array([0, 0, 1, 2, 2]))

    assert item_ids(rows) == ["row-0", "row-2", "row-3"]
    assert item_ids(toy.samples(3)) == ["toy-000", "toy-001", "toy-002"]
