"""What the page opens on: which configuration to deploy, is it right, how fast is it, and what does it cost."""

import pytest
from msgspec import structs

from reports.page.deploying import Answer, answers
from reports.record.schema import Record, case_id
from reports.text.publishable import publishable
from tests import samples
from tests.text.test_speed import AS_FAST, FAST, ONNX, SLOW


def the_answer(*records: Record) -> Answer:
    (found,) = answers([publishable(one) for one in records])
    return found


def wrong(record: Record) -> Record:
    return structs.replace(record, accuracy=samples.failed_accuracy())


def names(*records: Record) -> list[str]:
    return [case_id(one.case) for one in records]


def test_the_fastest_format_that_is_right_is_the_one_to_use() -> None:
    found = the_answer(ONNX, FAST, SLOW)
    assert [one.name for one in found.choices] == names(FAST)
    assert "1.50 (1.40 to 1.60) times as fast" in found.choices[0].why
    assert (found.remarks, found.wrong) == ([], [])


def test_one_that_is_not_right_is_named_as_such_however_fast_it_is() -> None:
    found = the_answer(ONNX, wrong(FAST), SLOW)
    assert [one.name for one in found.choices] == names(ONNX)
    assert [name for name, _ in found.wrong] == names(FAST)
    assert found.wrong[0][1].level == "bad"
    assert "1.50" not in str(found)


def test_all_that_are_not_told_apart_may_be_used() -> None:
    found = the_answer(ONNX, FAST, AS_FAST)
    assert [one.name for one in found.choices] == names(FAST, AS_FAST)
    assert all("not shown to be faster or slower" in one.why for one in found.choices)


def test_one_that_is_right_and_was_never_measured_is_not_called_wrong() -> None:
    unmeasured = structs.replace(ONNX, loads=(), efficiency=())
    assert the_answer(unmeasured, wrong(FAST)).remarks == [
        "The speed of none was measured; 1 of 2 showed no wrong answers."
    ]
    assert the_answer(wrong(FAST)).remarks == ["None is proven to be right."]


def test_a_figure_is_told_with_its_limit_its_load_point_and_its_cost() -> None:
    one = structs.replace(ONNX, price_per_hour=3.6)
    (choice,) = the_answer(one, SLOW).choices
    assert choice.right == ["top-1 96.25 %", "floor 95.9 %"]
    assert choice.speed[0].startswith("3,166.7 infer/s ±")
    assert "online, concurrency 32, p99 " in choice.speed[1]
    assert "per million correct inferences" in choice.cost[0]
    assert any("of the speed in process" in said for said in choice.cost)


def test_the_only_one_that_is_right_is_the_one_to_use() -> None:
    alone = structs.replace(ONNX, efficiency=())
    for found in (the_answer(alone), the_answer(alone, wrong(FAST))):
        assert [one.name for one in found.choices] == names(ONNX)
        assert "only one" in found.choices[0].why


def test_formats_that_were_not_measured_in_turns_are_not_ranked() -> None:
    found = the_answer(*(structs.replace(one, efficiency=()) for one in (ONNX, FAST)))
    assert found.choices == []
    assert "not measured in turns" in found.remarks[0]
    assert "1 more are right" in the_answer(ONNX, FAST, structs.replace(SLOW, efficiency=())).remarks[0]


def test_where_none_is_right_none_is_to_be_used() -> None:
    found = the_answer(wrong(ONNX), wrong(FAST))
    assert found.choices == []
    assert "None is proven" in found.remarks[0]
    assert {name for name, _ in found.wrong} == {*names(ONNX, FAST)}


@pytest.mark.parametrize("change", [{"model": "nnunet"}, {"target": "t4"}, {"gpus": 2}])
def test_models_and_machines_have_an_answer_each(change: dict[str, object]) -> None:
    other = structs.replace(FAST, case=structs.replace(FAST.case, **change))
    assert len(answers([publishable(one) for one in (ONNX, FAST, other)])) == 2
