"""A server that ended by itself is said to have, in the summary, in the case's section, on the page and in records."""

import dataclasses
from pathlib import Path

from reports import tables
from reports.page.html import page
from reports.record.origins import origins_of, without_names
from reports.record.schema import ServerEnd
from reports.words.shown import shown
from tests import samples

END = ServerEnd("online", "was ended by SIGSEGV", ("#0 in <libonnxruntime>", "Segmentation fault"))
RECORD = samples.record(server_ends=(END,))


def test_the_summary_says_how_a_server_ended_and_at_what() -> None:
    assert "Triton was ended by SIGSEGV in the stage online" in tables.summary_table([shown(RECORD)])
    assert "ended" not in tables.summary_table([shown(samples.record())])


def test_a_case_without_a_figure_says_it_too() -> None:
    nothing = dataclasses.replace(RECORD, accuracy=None, conversion=None, loads=(), starts=(), efficiency=())

    assert "Triton was ended by SIGSEGV" in tables.summary_table([shown(nothing)])
    assert "Triton was ended by SIGSEGV" in tables.case_section(shown(nothing))


def test_the_page_shows_the_end_of_the_log_as_it_was_written(tmp_path: Path) -> None:
    html = page([shown(RECORD)], tmp_path)

    assert "Triton was ended by SIGSEGV in the stage online" in html
    assert "#0 in &lt;libonnxruntime&gt;" in html


def test_it_is_a_measurement_of_its_machine_whose_name_may_be_left_out() -> None:
    told = dataclasses.replace(END, origin=samples.origin("secret-host"))
    record = samples.record(server_ends=(told,))

    assert "secret-host" in {one.host for one in origins_of(record)}
    assert "secret-host" not in str(without_names(record).server_ends)
