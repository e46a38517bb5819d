"""A record says on which GPUs and by what it was measured, and one of two GPUs never takes the place of one of one."""

from pathlib import Path

from msgspec import structs

from reports.record import files
from reports.record.schema import Record, case_id
from tests import samples


def on_gpus(count: int) -> Record:
    one = samples.record()
    return structs.replace(one, case=structs.replace(one.case, gpus=count))


def test_records_of_one_gpu_and_of_two_lie_beside_each_other(tmp_path: Path) -> None:
    one, two = on_gpus(1), on_gpus(2)
    for record in (one, two):
        files.write(record, files.path_of(record.case, tmp_path))
    assert {record.case.gpus for record in files.read_all(tmp_path)} == {1, 2}
    assert case_id(two.case) == f"{case_id(one.case)}-2gpus"
