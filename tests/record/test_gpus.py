"""A record says on which GPUs and by what it was measured, and one of two GPUs never takes the place of one of one."""

import dataclasses
import json
from pathlib import Path

import pytest

from reports.record import files
from reports.record.schema import Record, case_id
from tests import samples


def on_gpus(count: int) -> Record:
    one = samples.record()
    return dataclasses.replace(one, case=dataclasses.replace(one.case, gpus=count))


def test_records_of_one_gpu_and_of_two_lie_beside_each_other(tmp_path: Path) -> None:
    one, two = on_gpus(1), on_gpus(2)
    for record in (one, two):
        files.write(record, files.path_of(record.case, tmp_path))
    assert {record.case.gpus for record in files.read_all(tmp_path)} == {1, 2}
    assert case_id(two.case) == f"{case_id(one.case)}-2gpus"


def test_a_record_of_before_reads_as_one_of_one_gpu_in_no_container(tmp_path: Path) -> None:
    record = on_gpus(1)
    path = files.path_of(record.case, tmp_path)
    files.write(record, path)
    plain = json.loads(path.read_text())
    del plain["case"]["gpus"], plain["machine"]["gpu_uuids"]
    for name in ("image", "image_digest", "versions"):
        del plain["serving"][name]
    path.write_text(json.dumps(plain))
    found = files.read(path)
    assert found == record
    assert found.serving is not None
    assert (found.case.gpus, found.serving.image, dict(found.serving.versions)) == (1, None, {})


@pytest.mark.parametrize("count", [0, -1])
def test_a_record_of_no_gpu_at_all_is_refused(tmp_path: Path, count: int) -> None:
    record = on_gpus(1)
    path = files.path_of(record.case, tmp_path)
    files.write(dataclasses.replace(record, case=dataclasses.replace(record.case, gpus=count)), path)
    with pytest.raises(files.RecordError, match=r"case: gpus: "):
        files.read(path)
