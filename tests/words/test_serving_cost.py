"""The ratio to in process says where it is not of serving alone."""

import dataclasses
from collections.abc import Mapping

import pytest

from reports.record.schema import Record, Serving
from reports.text.publishable import publishable
from reports.text.speed import version_note
from tests import rendered as tables
from tests import samples
from tests.efficiency.test_efficiency import ONE
from tests.rendered import efficiency_section, serving_sentence


def served(
    backend: str,
    there: Mapping[str, str],
    here: Mapping[str, str],
    accelerator: str | None = None,
) -> Record:
    """A case that was measured beside in process."""
    record = samples.record(
        efficiency=(ONE,), serving=Serving("docker", "2.51.0", backend, "system", versions=there)
    )
    return dataclasses.replace(
        record,
        case=dataclasses.replace(record.case, accelerator=accelerator),
        machine=dataclasses.replace(record.machine, versions=here),
    )


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (
            served("onnxruntime", {"onnxruntime": "1.19.2"}, {"onnxruntime-gpu": "1.31.0"}),
            ["difference of two versions", "ONNX Runtime 1.19.2", "1.31.0"],
        ),
        (
            served("pytorch", {"torch": "2.5.0a0+e000cf0ad9"}, {"torch": "2.13.0"}),
            ["PyTorch 2.5.0a0", "2.13.0"],
        ),
        (
            served(
                "onnxruntime",
                {"onnxruntime": "1.31.0", "tensorrt": "10.5.0.18"},
                {"onnxruntime": "1.31.0", "tensorrt": "10.13.2"},
                "trt",
            ),
            ["TensorRT 10.5.0.18", "10.13.2"],
        ),
        (served("tensorrt", {}, {"tensorrt": "10.5.0"}), ["version of TensorRT is not known"]),
    ],
)
def test_the_ratio_says_that_the_server_has_other_versions(record: Record, words: list[str]) -> None:
    for text in (efficiency_section(publishable(record)), tables.summary_table([publishable(record)])):
        for word in words:
            assert word in text


@pytest.mark.parametrize(
    "record",
    [
        served("python", {}, {"onnxruntime": "1.31.0"}),
        served("onnxruntime", {"onnxruntime": "1.31.0"}, {"onnxruntime": "1.31.0"}),
        served("onnxruntime", {"onnxruntime": "1.31.0", "tensorrt": "9"}, {"onnxruntime": "1.31.0"}),
        served("tensorrt", {"tensorrt": "10.5.0.18"}, {"tensorrt": "10.5.0"}),
        served("pytorch", {"torch": "2.5.0"}, {"torch": "2.5.0+cu124"}),
        dataclasses.replace(served("pytorch", {"torch": "1"}, {"torch": "2"}), efficiency=()),
    ],
)
def test_nothing_is_said_where_both_sides_are_alike_or_nothing_was_compared(record: Record) -> None:
    assert version_note(record) == ""


def test_another_last_part_of_a_version_is_another_version() -> None:
    assert version_note(served("tensorrt", {"tensorrt": "10.13.20"}, {"tensorrt": "10.13.2"}))


def test_tables_name_the_gpus_and_the_server_s_image() -> None:
    record = served("onnxruntime", {"onnxruntime": "1.19.2"}, {})
    assert record.serving is not None
    record = dataclasses.replace(
        record,
        case=dataclasses.replace(record.case, gpus=2),
        machine=dataclasses.replace(record.machine, gpu_uuids=("GPU-1", "GPU-2")),
        serving=dataclasses.replace(record.serving, image="tritonserver:24.10-py3", image_digest="sha256:ab"),
    )
    text = tables.machine_sentence([publishable(record)]) + serving_sentence([publishable(record)])
    for word in ("GPU-1, GPU-2", "tritonserver:24.10-py3@sha256:ab", "onnxruntime 1.19.2"):
        assert word in text
    assert f"2 x {record.machine.gpu}" in tables.case_section(publishable(record))


def test_a_summary_tells_two_gpus_from_one() -> None:
    one = served("python", {}, {})
    two = dataclasses.replace(one, case=dataclasses.replace(one.case, gpus=2))
    rows = [
        line
        for line in tables.summary_table([publishable(two), publishable(one)]).splitlines()
        if line.startswith("|")
    ]
    assert ["2 GPUs" in row for row in rows[2:]] == [True, False]


def test_cases_on_two_gpus_of_one_machine_are_of_one_machine() -> None:
    one = served("python", {}, {})
    first, second = (
        dataclasses.replace(
            one,
            case=dataclasses.replace(one.case, format=format_),
            machine=dataclasses.replace(one.machine, gpu_uuids=(uuid,)),
        )
        for format_, uuid in (("onnx", "GPU-1"), ("trt", "GPU-2"))
    )
    text = tables.machine_sentence([publishable(first), publishable(second)])
    assert "more than one machine" not in text
    for uuid, record in (("GPU-1", first), ("GPU-2", second)):
        (line,) = [line for line in text.splitlines() if uuid in line]
        assert record.case.format in line
