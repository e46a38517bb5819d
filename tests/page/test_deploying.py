"""The start of the page: which configuration to deploy, is it right, how fast, and at what cost."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from msgspec import structs

from reports.page.deploying import Answer, answers
from reports.record.schema import Record, case_id
from reports.text.publishable import publishable
from tests import samples
from tests.text.test_speed import AS_FAST, FAST, ONNX, SLOW

WRONG = structs.replace(FAST, accuracy=samples.failed_accuracy())
UNMEASURED = structs.replace(ONNX, loads=(), efficiency=())
ONNX_ALONE, FAST_ALONE, SLOW_ALONE = (structs.replace(one, efficiency=()) for one in (ONNX, FAST, SLOW))


def the_answer(*records: Record) -> Answer:
    (found,) = answers([publishable(one) for one in records])
    return found


def names(records: Sequence[Record]) -> list[str]:
    return [case_id(one.case) for one in records]


class Deploying(NamedTuple):
    """Records, and what may be deployed of them."""

    given: Sequence[Record]
    choices: Sequence[Record]
    wrong: Sequence[Record] = ()
    has_remarks: bool = False


@pytest.mark.parametrize(
    "one",
    [
        Deploying([ONNX, FAST, SLOW], [FAST]),
        Deploying([ONNX, WRONG, SLOW], [ONNX], [WRONG]),
        Deploying([ONNX, FAST, AS_FAST], [FAST, AS_FAST]),
        Deploying([ONNX_ALONE], [ONNX]),
        Deploying([ONNX_ALONE, WRONG], [ONNX], [WRONG]),
        Deploying([ONNX_ALONE, FAST_ALONE], [], has_remarks=True),
        Deploying([ONNX, FAST, SLOW_ALONE], [FAST], has_remarks=True),
        Deploying([WRONG], [], [WRONG], has_remarks=True),
        Deploying([UNMEASURED, WRONG], [], [WRONG], has_remarks=True),
    ],
    ids=[
        *("the fastest", "a wrong one", "not told apart", "the only one", "the only right one"),
        *("not measured in turns", "one not in turns", "none right", "none measured"),
    ],
)
def test_right_and_fast_configurations_may_be_deployed(one: Deploying) -> None:
    found = the_answer(*one.given)

    assert [choice.name for choice in found.choices] == names(one.choices)
    assert [name for name, _ in found.wrong] == names(one.wrong)
    assert {status.level for _, status in found.wrong} <= {"bad"}
    assert bool(found.remarks) == one.has_remarks
    assert "1.50" not in str(found) or FAST in one.choices, "the speed of a wrong one"


def test_unmeasured_case_is_not_called_wrong() -> None:
    assert the_answer(UNMEASURED, WRONG).remarks != the_answer(WRONG).remarks


def test_figures_have_limit_load_point_and_cost() -> None:
    (choice,) = the_answer(structs.replace(ONNX, price_per_hour=3.6), SLOW).choices
    assert choice.right == ["top-1 96.25 %", "floor 95.9 %"]
    assert choice.speed[0].startswith("3,166.7 infer/s ±")
    assert choice.speed[1].startswith("online, concurrency 32, p99 ")
    assert [said.partition(" ")[0] for said in choice.cost[:2]] == ["0.328", "90"]


@pytest.mark.parametrize("change", [{"model": "nnunet"}, {"target": "t4"}, {"gpus": 2}])
def test_each_model_and_machine_has_an_answer(change: dict[str, object]) -> None:
    other = structs.replace(FAST, case=structs.replace(FAST.case, **change))
    assert len(answers([publishable(one) for one in (ONNX, FAST, other)])) == 2
