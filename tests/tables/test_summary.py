"""The summary: one row per case, its columns and its notes."""

from typing import Any

import pytest
from msgspec import structs

from reports.record.schema import Estimate, FormatComparison, Limit, Mark, Record
from reports.tables.summary import summary, summary_table
from reports.tables.table import Table
from tests import examples

RATE, P99, COST = "Inferences/second", "P99 (ms)", "Cost per million correct"
PUBLISHED, IN_PROCESS = "Ratio to published", "Ratio to in process"


def table(*records: Record) -> Table:
    return summary_table(examples.seen(*records))


def rows(*records: Record) -> list[dict[str, str]]:
    """The rows by rank, each as text by column title."""
    full_table = table(*records)
    return [dict(zip(full_table.titles, texts, strict=True)) for texts in full_table.texts]


def with_load(**changes: Any) -> Record:
    return examples.record(loads=(structs.replace(examples.load("offline", 8, 200.0), **changes),))


CASE = examples.record().case
OPEN_P99 = {
    **examples.load("offline", 8, 200).latency_ms,
    "p99": structs.replace(examples.estimate(2.126), open_above=True),
}
ERROR = examples.score(
    metric="mel MSE", better="lower", served=0.0385, limits=(Limit(0.06, "a"), Limit(0.04, "b"))
)
REFERENCE = FormatComparison("a40-resnet50-onnx-trt-fp16", Estimate(1.0, 1.0, 1.0))
FASTER = FormatComparison("a40-resnet50-trt-fp16", Estimate(1.5, 1.4, 1.6))
TWICE = examples.record(loads=(examples.load("offline", 8, 2 * 1573.6),))


@pytest.mark.parametrize(
    ("record", "title", "text"),
    [
        (TWICE, PUBLISHED, "2.00"),
        (structs.replace(TWICE, case=structs.replace(CASE, target="h200")), PUBLISHED, None),
        (structs.replace(TWICE, case=structs.replace(CASE, precision="fp32")), PUBLISHED, None),
        (examples.record(loads=(examples.load("offline", 9, 100),)), PUBLISHED, None),
        (examples.record(efficiency=(examples.efficiency(),)), IN_PROCESS, "0.90 (0.88 to 0.92), batch 8"),
        (
            examples.record(
                efficiency=(examples.efficiency("online", 32, ratio=Estimate(0.0192, 0.0174, 0.0212)),)
            ),
            IN_PROCESS,
            "0.019 (0.017 to 0.021)",
        ),
        (with_load(throughput_per_s=Estimate(200.0, 150.0, 210.0, 0.9)), RATE, "200.0 ± 15 %"),
        (with_load(latency_ms=OPEN_P99), P99, "2.126+"),
        (examples.record(accuracy=examples.accuracy(ERROR)), "Accuracy", "mel MSE 0.0385"),
        (examples.record(accuracy=examples.accuracy(ERROR)), "Floor", "≤ 0.04"),
        (examples.random_weights(), "Accuracy", "random weights"),
        (examples.random_weights(), "Floor", None),
        (examples.record(accuracy=None, failures=(examples.stage_failure(),)), "Accuracy", "failed"),
        (examples.record(accuracy=None), "Accuracy", "not measured"),
        (examples.record(case=structs.replace(CASE, gpus=2)), "Format", "ONNX, TensorRT, 2 GPUs"),
        (examples.record(price_per_hour=3.6), COST, "0.328"),
        (examples.record(), COST, None),
        (
            examples.record(efficiency=(examples.efficiency(beside=REFERENCE),)),
            "Ratio to reference",
            "reference",
        ),
        (
            examples.record(efficiency=(examples.efficiency(beside=FASTER),)),
            "Ratio to reference",
            "1.50 (1.40 to 1.60)",
        ),
        (examples.record(efficiency=(examples.efficiency(beside=FASTER),)), "Rank", "1"),
        (with_load(marks=(Mark("wide-interval", "its interval is ± 40 %"),)), "Note", None),
        (with_load(marks=(Mark("niced", "nice 5"),)), "Note", "a"),
        (examples.record(efficiency=(examples.efficiency(marks=(Mark("niced", "nice 5"),)),)), "Note", "a"),
        (examples.random_weights(), "Note", "a"),
    ],
)
def test_summary_cell_has_text_or_no_column(record: Record, title: str, text: str | None) -> None:
    (row,) = rows(record)
    assert row.get(title) == text


def test_each_target_has_own_table() -> None:
    records = examples.seen(examples.record(), examples.random_weights(), examples.record())
    first, of_a40, second, of_cpu = summary(records)
    assert (first, second) == ("Target `a40`, NVIDIA A40:", "Target `cpu`, AMD EPYC 7742 64-Core Processor:")
    assert isinstance(of_a40, Table)
    assert isinstance(of_cpu, Table)
    assert (len(of_a40.rows), len(of_cpu.rows)) == (2, 1)
