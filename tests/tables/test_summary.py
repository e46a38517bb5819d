"""The summary: one row per case of a target, what its columns mean, and no figure of a case that is not right."""

import dataclasses
from typing import Any

import pytest

from reports.record.schema import Case, Estimate, Limit, Mark, Record
from reports.text.publishable import publishable
from tests import rendered as tables
from tests import samples
from tests.markdown_tables import cells

RATE, P99, COST = "Inferences/second", "P99 (ms)", "Cost per million correct"
PUBLISHED, IN_PROCESS = "Ratio to published", "Ratio to in process"


FAILED: dict[str, dict[str, Any]] = {
    "below-its-floor": {"accuracy": samples.failed_accuracy()},
    "without-accuracy": {"accuracy": None, "accuracy_missing": "no data set was given"},
    "failed-conversion": {"conversion": samples.failed_conversion()},
    "no-conversion": {"conversion": None},
}


def rows(summary: str) -> list[dict[str, str]]:
    """The rows of the first table, by column."""
    header, *body = cells(summary.split("\n\n")[0])
    return [dict(zip(header, row, strict=True)) for row in body]


def only(*records: Record) -> dict[str, str]:
    (row,) = rows(summary_of(*records))
    return row


def summary_of(*records: Record) -> str:
    return tables.summary_table(samples.seen(*records))


def marked(*marks: Mark, **changes: Any) -> Record:
    return samples.record(loads=(samples.load("offline", 8, 200, marks=marks),), **changes)


@pytest.mark.parametrize("as_found", [False, True])
def test_an_accuracy_that_failed_before_it_had_a_score_says_that_it_failed(as_found: bool) -> None:
    one = samples.record(accuracy=None, failures=(samples.stage_failure(),))
    one = dataclasses.replace(one, build=dataclasses.replace(one.build, as_found=as_found))

    assert only(one)["Accuracy"] == "failed"
    assert "NaN for 3 of 26" in summary_of(one)


def test_a_row_says_how_right_and_how_fast_at_best() -> None:
    one = samples.record(efficiency=(samples.efficiency("online", 32),))
    assert only(one) == {
        "Model": "resnet50",
        "Format": "ONNX, TensorRT",
        "Precision": "FP16",
        "Accuracy": "top-1 96.25 %",
        "Floor": "95.9 %",
        RATE: "3166.7 ± 2.0 %",
        "At": "concurrency 32",
        P99: "2.126",
        PUBLISHED: "1.00",  # these are the published throughputs
        IN_PROCESS: "0.90 (0.88 to 0.92)",
    }


def test_a_p99_that_may_be_any_amount_higher_is_told_apart_from_one_with_an_upper_bound() -> None:
    load = samples.load("offline", 8, 200)
    few = dataclasses.replace(
        load,
        latency_ms={**load.latency_ms, "p99": dataclasses.replace(load.latency_ms["p99"], open_above=True)},
    )
    bounded, unbounded = (
        tables.summary_table([publishable(samples.record(loads=(one,)))]) for one in (load, few)
    )
    assert rows(unbounded)[0][P99] == f"{rows(bounded)[0][P99]}+"
    assert "upper bound" in unbounded
    assert "upper bound" not in bounded


def test_the_published_ratio_is_to_the_same_gpu_and_load_point() -> None:
    twice = samples.record(loads=(samples.load("offline", 8, 2 * 1573.6),))
    assert only(twice)[PUBLISHED] == "2.00"
    for unlike in (
        dataclasses.replace(twice, case=dataclasses.replace(twice.case, target="h200")),
        dataclasses.replace(twice, case=dataclasses.replace(twice.case, precision="fp32")),
        dataclasses.replace(twice, loads=(samples.load("offline", 9, 100),)),
    ):
        assert PUBLISHED not in only(unlike)


def test_a_ratio_to_in_process_at_another_point_names_it() -> None:
    assert (
        only(samples.record(efficiency=(samples.efficiency(),)))[IN_PROCESS] == "0.90 (0.88 to 0.92), batch 8"
    )


def test_a_small_ratio_to_in_process_keeps_two_digits() -> None:
    small = dataclasses.replace(samples.efficiency(), ratio=Estimate(0.0192, 0.0174, 0.0212))
    assert only(samples.record(efficiency=(small,)))[IN_PROCESS].startswith("0.019 (0.017 to 0.021)")


def test_a_column_without_any_figure_is_left_out_and_is_not_explained() -> None:
    summary = summary_of(samples.random_weights())
    assert not {PUBLISHED, IN_PROCESS, COST, "Floor"} & set(rows(summary)[0])
    assert "in turns" not in summary
    assert "NVIDIA's figure" not in summary


def test_the_interval_is_half_its_width_at_its_own_confidence() -> None:
    load = dataclasses.replace(
        samples.load("offline", 4, 200), throughput_per_s=Estimate(200.0, 150.0, 210.0, 0.9)
    )
    summary = tables.summary_table([publishable(samples.record(loads=(load,)))])
    assert rows(summary)[0][RATE] == "200.0 ± 15 %"
    assert "90 % confidence interval" in summary


def test_an_error_has_a_ceiling_and_is_not_in_percent() -> None:
    limits = (Limit(0.06, "recipe"), Limit(0.04, "the framework's"))
    error = samples.score(metric="mel MSE", better="lower", served=0.0385, limits=limits)
    row = only(samples.record(accuracy=samples.accuracy(error)))
    assert (row["Accuracy"], row["Floor"]) == ("mel MSE 0.0385", "≤ 0.04")


def test_random_weights_show_a_speed_and_a_note_says_why_they_have_no_score() -> None:
    summary = summary_of(samples.random_weights())
    row = rows(summary)[0]
    assert (row["Accuracy"], row[RATE], row["Note"]) == ("random weights", "0.712 ± 2.0 %", "a")
    assert "\n\n- a: random weights: no checkpoint was given (--checkpoint DIR).\n\n" in summary


def test_cases_with_the_same_note_share_its_letter() -> None:
    other = samples.random_weights(case=Case("cpu", "nnunet", "onnx", None, "fp32"))
    summary = summary_of(samples.random_weights(), other)
    assert [row["Note"] for row in rows(summary)] == ["a", "a"]
    assert summary.count("no checkpoint was given") == 1


def test_a_mark_of_several_cases_is_one_line_of_what_it_means() -> None:
    busy, busier = (
        Mark("cpu-shared", f"other programs took part of the CPU: {n} of 2 cores") for n in (0.2, 0.4)
    )
    summary = summary_of(marked(busy), marked(busier))
    assert [row["Note"] for row in rows(summary)] == ["a", "a"]
    assert "\n\n- a: other programs took part of the CPU\n\n" in summary
    alone = summary_of(marked(busy))
    assert "\n\n- a: other programs took part of the CPU: 0.2 of 2 cores\n" in alone


def test_a_wide_interval_is_shown_and_not_noted_too() -> None:
    summary = tables.summary_table([publishable(marked(Mark("wide-interval", "its interval is ± 40%")))])
    assert "Note" not in rows(summary)[0]
    assert "± 40%" not in summary


def test_each_target_has_a_table_of_its_own() -> None:
    summary = summary_of(samples.record(), samples.random_weights(), samples.record())
    first, second = summary.split("Target `cpu`, AMD EPYC 7742 64-Core Processor:\n\n")
    assert first.startswith("Target `a40`, NVIDIA A40:\n\n| Model")
    assert (first.count("\n| resnet50 "), first.count("\n| nnunet ")) == (2, 0)
    assert second.count("\n| nnunet ") == 1
    assert "Target" not in summary_of(samples.record())


def test_the_server_is_a_sentence_where_all_cases_had_the_same() -> None:
    assert "\n\nServed by Triton 2.51.0 (embedded), python backend." in summary_of(samples.record())
    unserved = samples.record(serving=None, case=Case("a40", "resnet50", "trt", None, "fp16"))
    summary = summary_of(samples.record(), unserved)
    assert "\n- `a40-resnet50-onnx-trt-fp16`: served by Triton 2.51.0" in summary
    assert "\n- `a40-resnet50-trt-fp16`: not served yet." in summary


# --- no speed of a case that is not right ------------------------------------------------------------------


def failed(kind: str) -> Record:
    """A case that is wrong, with every kind of figure that a right one would show."""
    return samples.record(
        efficiency=(samples.efficiency(), samples.efficiency("online", 32)),
        price_per_hour=3.6,
        **FAILED[kind],
    )


@pytest.mark.parametrize("kind", FAILED)
def test_beside_a_right_case_a_wrong_one_has_empty_cells_and_a_note(kind: str) -> None:
    right = samples.record(efficiency=(samples.efficiency("online", 32),), price_per_hour=3.6)
    summary = summary_of(right, failed(kind))
    good, bad = rows(summary)
    empty = (RATE, "At", P99, PUBLISHED, IN_PROCESS, COST)
    assert "-" not in {good[column] for column in empty}
    assert {bad[column] for column in empty} == {"-"}
    assert (good["Note"], bad["Note"]) == ("", "a")
    assert "\n- a: No throughput is shown: " in summary
