"""A model served as found shows its speed only if its answers under load equal its lone answers."""

from typing import Any

import pytest
from msgspec import structs

from reports.page import status_of
from reports.record.schema import Conversation, Record, VerifiedAnswers, WrongAnswer
from reports.tables.case import accuracy_blocks, case_section
from reports.tables.summary import summary
from reports.text.publishable import publishable
from tests import examples
from tests.helpers import as_markdown

ALONE = VerifiedAnswers(300, 0, 300, 0.5, held_to="alone")


def as_found(answers: VerifiedAnswers | None = ALONE, **changes: Any) -> Record:
    """A record of a model served as found, with one load point."""
    load = examples.load("online", 16, 900.0, answers=answers)
    plain = examples.record(loads=(load,), conversion=None, accuracy=None)
    build = structs.replace(plain.build, as_found=True, requests="made up from the configuration")
    case = structs.replace(plain.case, format="asis", precision="", accelerator=None)
    return structs.replace(plain, build=build, case=case, **changes)


FIRST = WrongAnswer("sample-3", "OUT[0]", "6", "7")


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (ALONE, ""),
        (structs.replace(ALONE, wrong=2, first_wrong=FIRST), "OUT[0] is 7, and 6 alone"),
        (None, "online, concurrency 16"),
    ],
    ids=["as alone", "wrong under load", "not compared"],
)
def test_speed_needs_load_answers_equal_to_lone_answers(answers: VerifiedAnswers | None, why: str) -> None:
    record = publishable(as_found(answers))

    assert (record.no_speed == "") == (why == "")
    assert why in record.no_speed
    assert ("900.0" in as_markdown(summary([record]))) == (why == "")
    assert status_of(record).level == ("bad" if why else "good")


def test_tables_state_request_source_and_no_dynamic_batcher() -> None:
    text = as_markdown(case_section(publishable(as_found())))

    assert "made up from the configuration" in text
    assert "ynamic batch" not in text
    assert " with \n" not in text


@pytest.mark.parametrize("difference", ["", "request 2 got 3 answers, and 2 when it was asked again"])
def test_differing_conversation_is_a_failure(difference: str) -> None:
    conversation = Conversation("decoupled", 4, 12, difference, not difference)
    record = publishable(structs.replace(as_found(conversation=conversation), loads=()))

    assert difference in as_markdown(case_section(record))
    assert "12 answers" in as_markdown(accuracy_blocks(record))
    assert bool(record.no_speed) == bool(difference)
