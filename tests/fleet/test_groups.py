"""The expected duration of tests comes from the closest earlier records."""

from pathlib import Path

import pytest
from msgspec import structs

from fixtures.fleet.groups import earlier_durations, expected_seconds, groups_by_case, groups_by_model
from fixtures.plugin.stages import as_grouped
from reports.record import files
from reports.record.schema import Case, Record
from tests import samples
from tests.helpers import Collect

ONNX = Case("a40", "resnet50", "onnx", None, "fp16")
TRT = structs.replace(ONNX, format="trt")
MICRO = structs.replace(TRT, model="resnet50-micro")


def written(results: Path, *records: Record) -> Path:
    for record in records:
        files.write(record, files.path_of(record.case, results))
    return results


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Records of three cases, and a file that is none."""
    seconds = {ONNX: 30.0, TRT: 10.0, MICRO: 1.0}
    written(
        tmp_path,
        *(samples.record(case=case, stage_seconds={"offline": seconds[case]}) for case in seconds),
    )
    (tmp_path / "a40" / "a40-bert-dist4l-trt-fp16.json").write_text("{")
    return tmp_path


@pytest.mark.parametrize(
    ("key", "seconds"),
    [
        (ONNX, 30.0),
        (TRT, 10.0),
        (structs.replace(TRT, precision="fp32"), 20.0),  # of the same model
        (structs.replace(TRT, model="bert-dist4l"), 20.0),  # of other models of its size
        (structs.replace(TRT, target="t4"), 20.0),  # of other hardware
        (structs.replace(MICRO, model="nnunet-micro"), 1.0),
    ],
)
def test_expected_seconds_come_from_closest_records(results: Path, key: Case, seconds: float) -> None:
    assert expected_seconds("offline", key, earlier_durations(results)) == seconds


def test_groups_are_models_with_longest_first(collect: Collect) -> None:
    collected = collect("--target", "cpu")
    groups = groups_by_model(as_grouped(collected.selected), {})

    assert len(groups) == len({group.model for group in groups}) > 1
    assert [group.expected_s for group in groups] == sorted(
        (group.expected_s for group in groups), reverse=True
    )
    assert {test for group in groups for test in group.tests} == {item.nodeid for item in collected.selected}
    for group in groups:
        assert all(f"[cpu-{group.model}-" in test for test in group.tests)


def test_conversion_counts_once_per_case(tmp_path: Path, collect: Collect) -> None:
    tests = as_grouped(collect("--target", "cpu", "-k", "resnet50-micro and onnx and fp32").selected)
    case = Case("cpu", "resnet50-micro", "onnx", None, "fp32")
    seconds = {test.stage: 1.0 for test in tests if test.stage}
    build = structs.replace(samples.record().build, build_time_s=1000.0)
    known = earlier_durations(
        written(tmp_path, samples.record(case=case, build=build, stage_seconds=seconds))
    )

    (group,) = groups_by_case(tests, known)
    assert group.expected_s == 1000.0 + len(tests)
