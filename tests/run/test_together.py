"""--together: the cases that are named run alone, whatever their models, and what is no pair is refused."""

from pathlib import Path

import pytest

from tests.collecting import Collect
from tests.model_files.files import write

PAIR = "cpu-resnet50-micro-onnx-fp32,cpu-nnunet-micro-ts-trace-fp32"


def test_the_named_cases_run_alone(collect: Collect) -> None:
    found = collect("--together", PAIR)

    assert found.cases("test_conversion") == set(PAIR.split(","))
    assert any(name.startswith("test_online[cpu-nnunet-micro") for name in found.names)
    assert "left out on a CPU" not in found.text, "what --together leaves out is not a matter of size"


def test_a_case_may_be_of_a_full_size_model_or_of_one_from_elsewhere(
    tmp_path: Path, collect: Collect
) -> None:
    file = write(tmp_path / "mine.py", "mine", micro=False)
    pair = "cpu-mine-onnx-fp32,cpu-resnet50-onnx-fp32"

    found = collect("--models", str(file), "--together", pair)

    assert found.cases("test_conversion") == set(pair.split(","))


def test_the_hardware_is_that_of_the_ids(collect: Collect) -> None:
    pair = "a100-resnet50-onnx-fp16,a100-bert-dist4l-onnx-fp16"

    assert collect("--together", pair).cases("test_conversion") == set(pair.split(","))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cpu-resnet50-micro-onnx-fp32", "not two cases"),
        ("cpu-resnet50-micro-onnx-fp32,cpu-resnet50-micro-onnx-fp32", "not two cases"),
        ("cpu-resnet50-micro-onnx-fp32,a100-resnet50-micro-onnx-fp32", "one kind of hardware"),
        ("cpu-resnet51-micro-onnx-fp32,cpu-nnunet-micro-onnx-fp32", "cpu-resnet50-micro-onnx-fp32"),
        ("", "there is no case ''"),
    ],
)
def test_what_is_no_pair_is_refused_with_the_cure(text: str, said: str, collect: Collect) -> None:
    found = collect("--together", text)

    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert said in found.text
    assert "--together" in found.text
    assert "cure:" in found.text
