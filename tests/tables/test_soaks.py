"""A soak in tables, in words, on the page and in records."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from reports.record import files
from reports.record.figures import of_soak
from reports.record.schema import VerifiedAnswers, WrongAnswer
from reports.tables.case import case_section, soak_table
from reports.tables.rendering import html
from reports.text.publishable import publishable
from reports.text.soak import leaks, soak_text
from tests import samples
from tests.helpers import as_markdown
from tests.page.pages import page_of
from tests.soak.made_up import CLEAN, LEAK, record, soak


def test_what_leaks_is_said_with_its_size_and_when_it_will_be_a_gibibyte() -> None:
    found = soak(CLEAN, LEAK)

    (sentence,) = leaks(found)

    # 1034 B each at 500 a second are 1 GiB in 2077 s.
    for part in ("memory of its stubs", "1034 B a request", "1029 to 1041", "1 GiB in 0.6 hours"):
        assert part in sentence.replace(",", "")
    assert not leaks(soak())
    assert "no leak" in soak_text(soak())
    assert "no leak" not in soak_text(found)


def test_what_grew_is_in_the_tables_of_the_case_and_on_its_page(tmp_path: Path) -> None:
    given = record(soak(CLEAN, LEAK), loads=(samples.load("online", 16, 1000.0),))
    found = publishable(given)

    table = as_markdown(soak_table([found]))

    assert [("leak" in row, "no leak" in row) for row in table.splitlines()[2:]] == [
        (True, True),
        (True, False),
    ]
    assert table in as_markdown(case_section(found))
    whole = page_of(tmp_path, given)
    assert "memory of its stubs" in whole
    assert "0.93" in whole
    assert not as_markdown(soak_table([publishable(samples.record())]))
    assert "Soak" not in as_markdown(case_section(publishable(samples.record())))


def test_what_was_not_watched_is_said() -> None:
    missing = "GPU memory was not watched: NVML does not tell it of this GPU"
    found = soak(not_watched=(missing,))

    assert missing in soak_text(found)
    assert missing in as_markdown(case_section(publishable(record(found))))


def test_a_case_that_shows_no_speed_shows_none_of_its_soak() -> None:
    found = publishable(record(soak(CLEAN, LEAK), accuracy=samples.failed_accuracy()))

    section = as_markdown(case_section(found))

    assert "memory of its stubs" in section
    for speed in ("0.93", "600 s", "hours"):
        assert speed not in section


def test_an_answer_that_was_wrong_in_the_soak_hides_the_speed() -> None:
    wrong = VerifiedAnswers(4100, 1, 4100, 60.0, WrongAnswer("digit-0012", "OUTPUT__0[3]", "1.25", "nan"))

    found = publishable(record(soak(answers=wrong)))

    assert "in the soak are wrong" in found.no_speed
    assert not found.loads


def test_names_from_a_record_of_another_version_are_shown_as_they_are_and_escaped() -> None:
    strange = structs.replace(CLEAN, what="<b>handles|x</b>")

    shown_as = html([soak_table([publishable(record(soak(strange)))])])

    assert "<b>" not in shown_as
    assert "handles|x" in shown_as


def test_its_figures_have_names_for_csv_and_junit() -> None:
    found = of_soak(soak(LEAK))

    assert found["growth_memory_of_its_stubs_per_request_bytes"] == 1034.0
    assert found["soak_loadings"] == 24


@pytest.mark.parametrize(
    "changes",
    [
        {"requests_per_s": -0.0},
        {"scenario": "\n::error::x"},
        {"duration_s": 0.0},
        {"growth": (CLEAN,) * 1000},
    ],
    ids=["no speed at all", "a scenario that is no name", "no time", "more than there is to watch"],
)
def test_a_soak_that_nobody_measured_is_refused_as_it_is_read(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    one = record(structs.replace(soak(CLEAN, LEAK), **changes))
    path = tmp_path / "cpu" / "one.json"
    path.parent.mkdir()
    path.write_bytes(files.encode(one))

    with pytest.raises(files.RecordError, match="soak"):
        files.read(path)
