"""A soak in tables, sentences, on the page and in records."""

from pathlib import Path
from typing import Any

import pytest

from reports.record.schema import VerifiedAnswers, WrongAnswer
from reports.tables.case import case_section
from reports.tables.soak import leaks, soak_table, soak_text
from reports.text.publishable import publishable
from tests import examples
from tests.helpers import as_markdown
from tests.page.pages import page_of
from tests.soak.made_up import CLEAN, LEAK, record, soak


def test_leak_states_size_and_time_to_a_gibibyte() -> None:
    (sentence,) = leaks(soak(CLEAN, LEAK))

    # 1034 B each at 500 a second are 1 GiB in 2077 s.
    parts = ("memory of its stubs", "1,034 B", "1,029 to 1,041", "0.6 hours")
    assert [part for part in parts if part not in sentence] == []
    assert not leaks(soak())


def test_growth_is_in_tables_and_page(tmp_path: Path) -> None:
    missing = "GPU memory was not watched"
    measured = record(soak(CLEAN, LEAK, not_watched=(missing,)), loads=(examples.load("online", 16, 1000.0),))
    seen = publishable(measured)

    assert [row[-1] for row in soak_table([seen]).texts] == ["no leak", "leak"]
    assert soak_table([seen]) in case_section(seen)
    for text in (as_markdown(case_section(seen)), page_of(tmp_path, measured)):
        assert [part for part in ("memory of its stubs", "0.93", missing) if part not in text] == []
    assert missing in soak_text(soak(not_watched=(missing,)))
    assert not soak_table([publishable(examples.record())])


WRONG = VerifiedAnswers(4100, 1, 4100, 60.0, WrongAnswer("digit-0012", "OUTPUT__0[3]", "1.25", "nan"))


@pytest.mark.parametrize(
    "given",
    [
        record(soak(CLEAN, LEAK), accuracy=examples.failed_accuracy()),
        record(soak(CLEAN, LEAK, answers=WRONG)),
    ],
    ids=["below its floor", "a wrong answer in the soak"],
)
def test_wrong_case_shows_growth_but_no_speed(given: Any) -> None:
    seen = publishable(given)
    section = as_markdown(case_section(seen))

    assert seen.no_speed
    assert not seen.loads
    assert "memory of its stubs" in section
    assert [speed for speed in ("0.93", "600 s", "hours") if speed in section] == []
