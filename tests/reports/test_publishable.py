"""No output of any command shows a speed of a case not proven right, or a ratio that is too uncertain."""

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import outcomes
from fixtures.outcomes import Outcomes
from tests import sample_records
from tests.conftest import Reports
from tests.helpers import as_markdown, present
from tests.reports.every_output import ALL_SAYING_WHY, OUTPUTS, SAYING_WHY, TRACE, Reporter, planted
from tests.sample_records import ONNX, SLOW
from tritonproof.record import Record, correctness, fields, record_files
from tritonproof.reports import derived
from tritonproof.reports.export import figures_by_name
from tritonproof.reports.page import status_of
from tritonproof.reports.publishable import publishable
from tritonproof.reports.speed_text import search_paragraph
from tritonproof.reports.tables.case import accuracy_blocks, case_section
from tritonproof.reports.tables.summary import summary


def random_weights(**changes: Any) -> Record:
    """A case without a checkpoint, with the same speeds."""
    return sample_records.random_weights(case=planted().case, points=planted().points, **changes)


APART = correctness.Disagreement(("converted", "served"), 9, 9, 0, ("digit-0007",), 0.9, 0.99)
OTHER_DECISIONS = sample_records.accuracy(scores=(), disagreements=(APART,))
WRONG_UNDER_LOAD = tuple(map(sample_records.wrong_under_load, planted().points))
NOT_PROVEN: dict[str, Record] = {
    "below its floor": planted(accuracy=sample_records.failed_accuracy()),
    "no accuracy": planted(accuracy=None),
    "a ledger without a score": planted(accuracy=sample_records.accuracy(scores=())),
    "accuracy of no use": planted(why_no_score="no data set was given"),
    "not compared with the framework": planted(conversion=None),
    "a wrong answer under load": planted(points=WRONG_UNDER_LOAD),
    "a wrong answer at one point": planted(points=(*planted().points[:-1], WRONG_UNDER_LOAD[-1])),
    "answers that depend on their neighbours": planted(gates=(sample_records.gate(fault="3 of 96 differ"),)),
    "an accuracy that failed before it had a result": planted(failures=(sample_records.step_failure(),)),
    "unlike the framework": planted(conversion=sample_records.failed_conversion()),
    "random weights, unlike the framework": random_weights(conversion=sample_records.failed_conversion()),
    "random weights, other decisions": random_weights(accuracy=OTHER_DECISIONS),
}


def stored(record: Record, folder: Path) -> Path:
    """A results folder with the record; a folder beside it has a proven record of the same case."""
    faster = [sample_records.measured("offline", size, 100.0 * size) for size in (1, 8)]
    record_files.write(sample_records.record(points=faster), folder / "other" / f"{record.name}.json")
    return sample_records.store(folder / "results", record)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("why", ["below its floor", "no accuracy", "a wrong answer at one point"])
def test_unproven_speed_is_in_no_output(why: str, output: str, tmp_path: Path, reports: Reports) -> None:
    text = OUTPUTS[output](stored(NOT_PROVEN[why], tmp_path), reports).replace(str(tmp_path), "")
    assert text or output == "pictures"
    assert not TRACE.findall(text)
    assert output not in ALL_SAYING_WHY or "No throughput is shown: " in text


@pytest.mark.parametrize("output", OUTPUTS)
def test_right_case_shows_speed_in_the_same_outputs(output: str, tmp_path: Path, reports: Reports) -> None:
    assert TRACE.search(OUTPUTS[output](stored(planted(), tmp_path), reports))


RATIO_TRACE = re.compile(r"2\.1[67]|21[67]\b|11[67](\.\d+)? ?%")
"""A ratio of 2.1654 or its bounds: as a factor, in percent, or as an increase."""


def with_ratios(low: float, high: float) -> Record:
    """A proven case with one ratio everywhere: to in process, to another build, to the runner-up."""
    ratio = fields.Ratio(2.1654, low, high)
    record = planted()
    compared = sample_records.comparison(ratio=ratio)
    speeds = {"throughput_per_s": sample_records.estimate(4321.0), "comparison": compared}
    points = tuple(structs.replace(result, **speeds) for result in record.points)
    (cost,) = record.efficiency
    search = sample_records.search(lead=ratio, result=points[0], accuracy=sample_records.accuracy())
    return planted(points=points, efficiency=(structs.replace(cost, ratio=ratio),), search=search)


@pytest.mark.parametrize("output", OUTPUTS)
def test_wide_ratio_is_in_no_output(output: str, tmp_path: Path, reports: Reports) -> None:
    text = OUTPUTS[output](stored(with_ratios(0.753, 5.889), tmp_path), reports).replace(str(tmp_path), "")
    readable = re.sub(r"(?s)<style.*?</style>|<(path|use|rect|clipPath|g|svg|text)\b[^>]*>", "", text)
    assert not RATIO_TRACE.findall(readable)
    assert not re.findall(r"\b0\.75|\b5\.8[89]|\b75 to|\b58[89]\b", readable)
    assert output not in SAYING_WHY or "wider than a factor of 1.5" in text


@pytest.mark.parametrize("output", [*SAYING_WHY, "points.csv"])
def test_narrow_ratio_is_in_the_same_outputs(output: str, tmp_path: Path, reports: Reports) -> None:
    assert RATIO_TRACE.search(OUTPUTS[output](stored(with_ratios(2.0, 2.3), tmp_path), reports))


@pytest.mark.parametrize("why", NOT_PROVEN)
def test_hidden_speed_states_reason_and_points(why: str) -> None:
    record = NOT_PROVEN[why]
    seen = publishable(record)
    assert seen.why_no_speed.startswith("No throughput is shown: ")
    assert not seen.points
    assert not seen.efficiency
    assert [result.point for result in seen.hidden] == [result.point for result in record.points]
    assert not TRACE.findall(repr(seen))


def test_missed_limit_looks_unlike_what_missed_it() -> None:
    near = structs.replace(sample_records.failed_conversion(), relative_error=0.01003, agreement=0.98997)
    why = publishable(planted(conversion=near)).why_no_speed
    assert "relative error 0.01003, limit 0.01; agreement 98.997 %, limit 99.000 %" in why


def test_reason_that_stopped_several_steps_is_said_once() -> None:
    steps = ("accuracy", "batches", "batches", "reload")
    failures = tuple(sample_records.step_failure(step=step) for step in steps)
    why = publishable(planted(failures=failures)).why_no_speed
    assert why.count(failures[0].message) == 1
    assert "accuracy, batches, reload failed: " in why


@pytest.mark.parametrize(
    "record",
    [sample_records.record(), sample_records.random_weights(accuracy=sample_records.accuracy(scores=()))],
)
def test_right_case_is_shown_unchanged(record: Record) -> None:
    seen = publishable(record)
    assert (seen.why_no_speed, seen.why_no_winner, seen.hidden) == ("", "", ())
    assert (seen.points, seen.efficiency, seen.search) == (record.points, record.efficiency, record.search)


def test_search_winner_is_judged_by_its_own_ledger() -> None:
    seen = publishable(planted())
    assert not seen.why_no_speed
    assert "10 ms is not proven. No throughput is shown: served" in seen.why_no_winner
    right = structs.replace(present(planted().search), accuracy=sample_records.accuracy())
    assert publishable(planted(search=right, accuracy=None)).search == right


@pytest.mark.parametrize(
    ("step", "is_shown"), [("accuracy", True), ("batches", False), ("conversion", False)]
)
def test_search_winner_is_hidden_by_failures_of_more_than_settings(step: str, is_shown: bool) -> None:
    search = sample_records.search(accuracy=sample_records.accuracy())
    failures = (sample_records.step_failure(step=step),)
    seen = publishable(sample_records.record(search=search, failures=failures))
    assert (seen.search == search) == is_shown


def test_unproven_rate_of_a_search_is_in_no_figure() -> None:
    result = sample_records.at_rate(118.0, 118.0)
    unproven = publishable(sample_records.record(search=sample_records.search(result=result)))
    assert "118" not in search_paragraph(unproven)
    figures = figures_by_name("search", present(unproven.search))
    assert not [name for name in figures if name.endswith(("_per_s", "_ms_p99"))]
    search = sample_records.search(result=result, accuracy=sample_records.accuracy())
    proven = publishable(sample_records.record(search=search))
    assert figures_by_name("search", present(proven.search))["search_result_request_rate_per_s"] == 118.0


def test_winner_with_random_weights_relies_on_conversion() -> None:
    search = sample_records.search()
    assert not publishable(sample_records.random_weights(search=search)).why_no_winner
    wrong = sample_records.random_weights(search=search, conversion=sample_records.failed_conversion())
    assert publishable(wrong).why_no_winner


def test_search_without_winner_shows_its_lowest_latency_alone() -> None:
    search = sample_records.search(verdict="failed", accuracy=sample_records.accuracy())
    seen = publishable(planted(search=search))
    assert seen.why_no_winner == "", "there is none to prove"
    result = present(seen.search).result
    assert result.latency_ms == search.result.latency_ms
    speeds = (result.throughput_per_s.value, *(one.throughput_per_s for one in result.passes))
    assert all(map(math.isnan, speeds))
    nearest = "no finalist keeps p99 within 10 ms when measured anew; the nearest has 2.1"
    assert nearest in search_paragraph(seen)


@pytest.mark.parametrize("verdict", ["passed", "failed"])
@pytest.mark.parametrize("why", [*NOT_PROVEN][-5:-2])
def test_wrong_case_is_not_called_searched_only(why: str, verdict: str) -> None:
    searched = {"accuracy": None, "points": (), "search": sample_records.search(verdict=verdict)}
    wrong = publishable(structs.replace(NOT_PROVEN[why], soak=None, **searched))
    assert status_of(wrong) == ("bad", "not proven", wrong.why_no_speed)
    assert wrong.why_no_speed in as_markdown(summary([wrong]))
    assert "2.126" not in search_paragraph(wrong)
    assert status_of(publishable(sample_records.record(**searched))).word == "search only"


@pytest.mark.parametrize(
    "damage", [None, lambda path: path.write_text("{"), os.mkfifo], ids=["gone", "half", "pipe"]
)
def test_missing_or_damaged_record_is_named_in_summary(
    damage: Callable[[Path], object] | None, tmp_path: Path
) -> None:
    path = record_files.record_path(planted().case, tmp_path)
    path.parent.mkdir()
    if damage is not None:
        damage(path)
    reporter = Reporter(tmp_path)
    assert str(path) in reporter.summary()
    _, wrong = outcomes.written_records(reporter)
    assert str(path) in outcomes.job_summary(Outcomes(passed=1, unreadable=wrong), [])


def test_summary_of_a_run_has_no_ratio_to_a_wrong_reference_of_another(tmp_path: Path) -> None:
    reporter = Reporter(tmp_path, f"a40/{SLOW.name}.json")
    for accuracy, is_shown in ((ONNX.accuracy, True), (sample_records.failed_accuracy(), False)):
        sample_records.store(tmp_path, structs.replace(ONNX, accuracy=accuracy), SLOW)
        (record,), _ = outcomes.written_records(reporter)
        assert (derived.reference_comparison(record) is not None) == is_shown


ALONE = correctness.AnswerComparison(300)


def of_repository(answers: correctness.AnswerComparison | None = ALONE, **changes: Any) -> Record:
    """A record of a model served as it is, with one load point."""
    result = sample_records.measured("online", 16, 900.0, answers_under_load=answers)
    plain = sample_records.record(points=(result,), conversion=None, accuracy=None)
    build = structs.replace(plain.build, requests_note="made up from the configuration")
    case = structs.replace(plain.case, format="asis", precision="", accelerator=None)
    return structs.replace(plain, build=build, case=case, **changes)


NOTHING_COMPARED = tuple(correctness.GateResult(name, 8, "eight batches") for name in ("declared", "new"))
WRONG = structs.replace(ALONE, wrong=2, first_wrong=correctness.WrongAnswer("sample-3", "OUT[0]", "6", "7"))


@pytest.mark.parametrize(
    ("record", "why", "word"),
    [
        (of_repository(), "", "same answers"),
        (of_repository(WRONG), "OUT[0] is 7, and 6 alone", "not proven"),
        (of_repository(None), "online, concurrency 16", "not proven"),
        (of_repository(points=(), soak=planted().soak), "online, concurrency 16", "not proven"),
        (of_repository(points=()), "", "not measured"),
        (of_repository(points=(), gates=(sample_records.gate(),)), "", "same answers"),
        (of_repository(points=(), gates=NOTHING_COMPARED), "", "not measured"),
    ],
)
def test_speed_needs_load_answers_equal_to_lone_answers(record: Record, why: str, word: str) -> None:
    seen = publishable(record)
    assert (seen.why_no_speed == "") == (why == "")
    assert why in seen.why_no_speed
    text = as_markdown(summary([seen]))
    assert ("900.0" in text, "| ONNX   | - " in text) == (bool(seen.points), True), "it has no precision"
    assert "Queue Delay       | -" not in as_markdown(case_section(seen)), "offline too it has its own"
    assert status_of(seen).word == word


@pytest.mark.parametrize("difference", ["", "request 2 got 3 answers, and 2 when it was asked again"])
def test_differing_conversation_is_a_failure(difference: str) -> None:
    conversation = sample_records.gate("conversation", difference, tried="12 answers", demand="")
    record = publishable(structs.replace(of_repository(gates=(conversation,)), points=()))
    assert difference in as_markdown(case_section(record))
    assert "| conversation   | 12 answers" in as_markdown(accuracy_blocks(record)), "of no known demand"
    assert bool(record.why_no_speed) == bool(difference)
    assert status_of(record).word == ("not proven" if difference else "same answers")
