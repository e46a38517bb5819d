"""How long tests are expected to take comes from earlier records, the closest that there are."""

from pathlib import Path
from typing import Any

from msgspec import structs

from fixtures.fleet.durations import expected_seconds
from fixtures.fleet.groups import earlier_durations, groups_of
from reports.record import files
from reports.record.schema import Case, Record
from tests import samples
from tests.helpers import Collect

ROOT = Path(__file__).parents[2]
CPU = ("--target", "cpu")


def written(results: Path, *records: Record) -> Path:
    for record in records:
        files.write(record, files.path_of(record.case, results))
    return results


def of_case(case: Case, **changes: Any) -> Record:
    return samples.record(case=case, **changes)


ONNX = Case("a40", "resnet50", "onnx", None, "fp16")
TRT = Case("a40", "resnet50", "trt", None, "fp16")
BERT = Case("a40", "bert-dist4l", "trt", None, "fp16")
MICRO = Case("a40", "resnet50-micro", "trt", None, "fp16")
OTHER_GPU = Case("t4", "resnet50", "trt", None, "fp16")


def test_a_case_that_was_measured_takes_as_long_as_it_took(tmp_path: Path) -> None:
    known = earlier_durations(
        written(
            tmp_path,
            of_case(ONNX, stage_seconds={"accuracy": 100.0}),
            of_case(TRT, stage_seconds={"accuracy": 20.0}),
        )
    )
    assert expected_seconds("accuracy", ONNX, known) == 100.0
    assert expected_seconds("accuracy", TRT, known) == 20.0


def test_a_case_that_was_not_measured_takes_the_median_of_the_closest_that_were(tmp_path: Path) -> None:
    another = structs.replace(TRT, precision="fp32")
    known = earlier_durations(
        written(
            tmp_path,
            of_case(ONNX, stage_seconds={"offline": 30.0}),
            of_case(TRT, stage_seconds={"offline": 10.0}),
            of_case(MICRO, stage_seconds={"offline": 1.0}),
        )
    )
    assert expected_seconds("offline", another, known) == 20.0, "of the same model"
    assert expected_seconds("offline", BERT, known) == 20.0, "of other models of its size"
    assert expected_seconds("offline", OTHER_GPU, known) == 20.0, "of other hardware"
    assert expected_seconds("offline", structs.replace(MICRO, model="nnunet-micro"), known) == 1.0, (
        "micro models have their own"
    )


def test_without_a_record_every_test_takes_some_time(tmp_path: Path) -> None:
    known = earlier_durations(tmp_path / "none")
    for stage in ("conversion", "accuracy", "online", "offline", "efficiency", "search", None):
        assert expected_seconds(stage, ONNX, known) > 0


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path, of_case(ONNX, stage_seconds={"offline": 30.0}))
    (folder / "a40" / "a40-resnet50-trt-fp16.json").write_text("{")
    assert expected_seconds("offline", TRT, earlier_durations(folder)) == 30.0


def test_groups_are_the_models_of_the_hardware_the_longest_first(
    collect: Collect,
) -> None:
    collected = collect(*CPU)
    groups = groups_of(collected.selected, earlier_durations(ROOT / "reports" / "readme"))

    assert len(groups) == len({group.model for group in groups}) == 5
    assert [group.expected_s for group in groups] == sorted(
        (group.expected_s for group in groups), reverse=True
    )
    assert {name for group in groups for name in group.items} == {item.nodeid for item in collected.selected}
    for group in groups:
        assert all(f"[cpu-{group.model}-" in name for name in group.items)


def test_converting_counts_once_for_each_case(tmp_path: Path, collect: Collect) -> None:
    items = collect(*CPU, "-k", "resnet50-micro and onnx and fp32").selected
    case = Case("cpu", "resnet50-micro", "onnx", None, "fp32")
    stages = ("conversion", "accuracy", "answers", "online", "offline", "reload", "efficiency")
    seconds = dict.fromkeys(stages, 1.0)
    build = structs.replace(samples.record().build, build_time_s=1000.0)
    known = earlier_durations(written(tmp_path, of_case(case, build=build, stage_seconds=seconds)))
    (group,) = groups_of(items, known)
    assert group.expected_s == 1000.0 + len(items)
