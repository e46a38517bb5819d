"""The command that sets measured figures beside the published ones."""

import io
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from reports.__main__ import main
from reports.published.comparison import COLUMNS
from reports.record.schema import Record
from tests import samples
from tests.conftest import Reports
from tests.published.cases import case_on, titles


def store(results: Path, *records: Record) -> list[str]:
    """Write the records, and give the arguments that set them beside the published."""
    return ["published", "--results", str(samples.store(results, *records))]


def test_the_command_prints_every_selected_case(tmp_path: Path, printed: Callable[..., str]) -> None:
    arguments = store(
        tmp_path, case_on("a40 resnet50 onnx trt fp16"), case_on("cpu resnet50-micro onnx - fp32")
    )
    assert titles(printed(*arguments)) == [
        "# Measured beside published",
        "## a40-resnet50-onnx-trt-fp16",
        "### Beside NVIDIA A40",
        "## Not compared",
    ]
    assert titles(printed(*arguments, "-k", "micro")) == ["# Measured beside published", "## Not compared"]


def test_the_command_sets_other_formats_beside_on_request(
    tmp_path: Path, printed: Callable[..., str]
) -> None:
    arguments = store(tmp_path, case_on("a40 resnet50 onnx - fp32"))
    assert "### Beside NVIDIA A40, unlike: " in printed(*arguments, "--other-formats")


def test_csv_is_tidy_and_the_rest_goes_to_standard_error(tmp_path: Path, reports: Reports) -> None:
    loads = (samples.load("offline", 1, 50), samples.load("offline", 3, 50))
    one = case_on("h200 nnunet ts-script - fp16", *loads)
    arguments = store(tmp_path, one, case_on("cpu resnet50-micro onnx - fp32"))
    _, out, err = reports(*arguments, "--format", "csv")
    read = pd.read_csv(io.StringIO(out))
    assert tuple(read.columns) == COLUMNS
    assert read["published_gpu"].tolist() == ["v100", "a40", "t4", "a100"]
    assert read["throughput_ratio"].tolist() == pytest.approx([50 / 20.3, 50 / 22.2, 50 / 9.1, 50 / 26.1])
    assert [line.partition(" ")[0] for line in err.splitlines()] == [
        "`h200-nnunet-ts-script-fp16`:",
        "`h200-nnunet-ts-script-fp16`:",
        "`cpu-resnet50-micro-onnx-fp32`:",
    ]
    assert "1 measured point was not published: offline, batch 3." in err


@pytest.mark.parametrize(
    "one",
    [
        lambda: case_on("cpu resnet50-micro onnx - fp32"),
        lambda: case_on("a40 resnet50 onnx - fp32"),
        lambda: case_on("a40 resnet50 onnx trt fp16", samples.load("offline", 3, 1)),
    ],
    ids=["no model", "no format", "no point"],
)
def test_csv_without_rows_has_its_columns_and_a_reason(
    one: Callable[[], Record], tmp_path: Path, reports: Reports
) -> None:
    status, out, err = reports(*store(tmp_path, one()), "--format", "csv")
    assert (status, out) == (0, f"{','.join(COLUMNS)}\n")
    assert "published" in err


def test_help_explains_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["published", "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in ("published figures", "--results DIR", "-k SUBSTRING", "--other-formats", "--format"):
        assert part in text
    assert main([]) == 0
    assert "published compare the records with" in " ".join(capsys.readouterr().out.split())
