"""Which format is the fastest: what is said of ratios measured in turns."""

import dataclasses

import pytest

from reports.record.schema import BesideReference, Estimate, Record, case_id
from reports.text.publishable import Publishable, publishable
from reports.text.speed import ranked, ranks
from tests import rendered as tables
from tests import samples
from tests.efficiency.test_efficiency import ONE

REFERENCE = "a40-resnet50-onnx-fp32"


def beside(format_: str, ratio: float, low: float, high: float, **changes: object) -> Record:
    """A case whose best point was measured in turns with the reference format's."""
    compared = BesideReference(REFERENCE, Estimate(ratio, low, high))
    one = samples.record(efficiency=(dataclasses.replace(ONE, beside=compared),), **changes)
    return dataclasses.replace(
        one, case=dataclasses.replace(one.case, format=format_, accelerator=None, precision="fp32")
    )


ONNX = beside("onnx", 1.0, 1.0, 1.0)
FAST = beside("pt2", 1.5, 1.4, 1.6)
AS_FAST = beside("trt", 1.45, 1.38, 1.52)
SLOW = beside("ts-trace", 0.6, 0.5, 0.7)


def seen(*records: Record) -> list[Publishable]:
    return [publishable(one) for one in records]


def test_formats_come_in_the_order_of_their_speed() -> None:
    order = [one.case.format for one in ranked(seen(SLOW, ONNX, FAST, AS_FAST))]
    assert order == ["pt2", "trt", "onnx", "ts-trace"]


def test_formats_whose_intervals_meet_share_a_rank() -> None:
    found = ranks(seen(ONNX, FAST, AS_FAST, SLOW))
    assert [found[case_id(one.case)] for one in (FAST, AS_FAST, ONNX, SLOW)] == [1, 1, 3, 4]


def test_models_are_not_ranked_among_each_other() -> None:
    other = dataclasses.replace(FAST, case=dataclasses.replace(FAST.case, model="nnunet"))
    assert set(ranks(seen(ONNX, SLOW, other)).values()) == {1, 2}
    assert [one.case.model for one in ranked(seen(SLOW, other, ONNX))] == ["resnet50", "resnet50", "nnunet"]


def test_a_case_without_turns_has_no_rank_and_comes_last() -> None:
    without = samples.record(efficiency=(ONE,))
    found = seen(without, SLOW)
    assert [one.case.format for one in ranked(found)] == ["ts-trace", "onnx"]
    assert case_id(without.case) not in ranks(found)


def test_the_name_of_the_reference_format_is_a_text_and_no_markup() -> None:
    hostile = dataclasses.replace(ONNX, build=dataclasses.replace(ONNX.build, format="<img src=x> [a](b)"))
    summary = tables.summary_table(seen(hostile, FAST))
    assert r"\<img" in summary
    assert " <img" not in summary
    assert " [a](b)" not in summary


@pytest.mark.parametrize("words", ["1.50 (1.40 to 1.60)", "Rank", "Ratio to reference"])
def test_the_summary_shows_the_ratio_with_its_interval(words: str) -> None:
    assert words in tables.summary_table(seen(ONNX, FAST))
