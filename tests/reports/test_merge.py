"""A merge of several folders writes all records whole, or nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from tests import sample_records
from tests.helpers import closed
from tritonproof.base import disk
from tritonproof.base.errors import InputError
from tritonproof.record import Record, record_files, setup
from tritonproof.record.record_files import RecordError
from tritonproof.reports.merge import merge

CASE = "a40-resnet50-onnx-trt-fp16"
WHOLE = sample_records.measured_at(sample_records.origin(), sample_records.complete())


def on(target: str) -> Record:
    """The same case on another GPU."""
    case = structs.replace(WHOLE.case, target=target)
    machine = structs.replace(WHOLE.machine, gpu=f"NVIDIA {target.upper()}")
    return structs.replace(WHOLE, case=case, machine=machine)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Runs a merge that must fail and write nothing; returns the error."""

    def run(*arguments: Path, output: str = "out") -> str:
        before = content(tmp_path)
        with pytest.raises((InputError, RecordError, OSError)) as error:
            merge(arguments, tmp_path / output)
        assert content(tmp_path) == before
        assert not list(tmp_path.glob(".*"))
        return str(error.value)

    return run


def test_records_of_three_machines_arrive_with_their_files(tmp_path: Path) -> None:
    folders = [sample_records.store(tmp_path / name, on(name)) for name in ("a100", "t4", "v100")]
    search = folders[1] / "t4" / "t4-resnet50-onnx-trt-fp16.search"
    disk.write_atomically(search / "config.pbtxt", b"instances")
    search.with_suffix(".server.log").write_text("started")
    expected = {name: data for folder in folders for name, data in content(folder).items()}

    assert merge(folders, tmp_path / "out") == 3
    assert len(expected) == 5
    assert content(tmp_path / "out") == expected


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder of one record."""
    return sample_records.store(tmp_path / "job", WHOLE)


def test_files_of_no_record_are_left_out(job: Path, tmp_path: Path) -> None:
    sample_records.store(job / "a40", WHOLE)
    (job / "a40" / "a40").rename(job / "a40" / "superseded")
    (job / "a40" / "other.server.log").write_text("started")
    (job / "a40" / f".{CASE}.json.lock").touch()
    disk.write_atomically(job / "a40" / f"{CASE}.search" / ".lock", b"")
    merge([job], tmp_path / "out")
    assert list(content(tmp_path / "out")) == [f"a40/{CASE}.json"]


def test_case_in_two_files_is_refused(job: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    again = sample_records.store(tmp_path / "again", WHOLE)
    for order in ((job, again), (again, job)):
        text = refused(*order)
        assert all(str(record_files.record_path(WHOLE.case, folder)) in text for folder in order)


def test_file_that_two_arguments_reach_counts_once(job: Path, tmp_path: Path) -> None:
    assert merge([job, job / "a40"], tmp_path / "out") == 1
    assert content(tmp_path / "out") == content(job)


def test_two_machines_of_a_target_are_refused(job: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    machine = structs.replace(WHOLE.machine, versions={"python": "3.11.7", "torch": "2.14\n::error::forged"})
    cases = [setup.CaseKey("a40", model, "onnx", None, "fp16") for model in ("nnunet", "fastpitch")]
    records = [structs.replace(WHOLE, case=case, machine=machine) for case in cases]
    text = refused(job, sample_records.store(tmp_path / "b", *records))
    assert "target a40" in text
    assert "versions.torch" in text
    assert len(text.splitlines()) == 1


def test_gpus_of_one_machine_are_merged(job: Path, tmp_path: Path) -> None:
    machine = structs.replace(WHOLE.machine, gpu_uuids=("GPU-another",))
    other = structs.replace(WHOLE, case=setup.CaseKey("a40", "nnunet", "onnx", None, "fp16"), machine=machine)
    assert merge([job, sample_records.store(tmp_path / "b", other)], tmp_path / "out") == 2


def test_output_must_be_new_or_empty(job: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    sample_records.store(tmp_path / "out", WHOLE)
    assert "--output" in refused(job)
    (tmp_path / "empty").mkdir()
    merge([job], tmp_path / "empty")


@pytest.mark.parametrize("suffix", [".server.log", ".samples.json", ".search", ".json"])
def test_link_stops_the_merge(suffix: str, job: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    elsewhere = tmp_path / "elsewhere"
    if suffix == ".search":
        elsewhere.mkdir()
    else:
        elsewhere.write_bytes(record_files.record_path(WHOLE.case, job).read_bytes())
    path = job / "a40" / f"{CASE}{suffix}"
    path.unlink(missing_ok=True)
    path.symlink_to(elsewhere)
    assert str(path) in refused(job)


def test_damaged_samples_stop_the_merge(job: Path, refused: Callable[..., str]) -> None:
    damaged = job / "a40" / f"{CASE}.samples.json"
    disk.write_atomically(damaged, b'{"case": ')
    assert str(damaged) in refused(job)


@pytest.mark.parametrize("mode", [0, 0o111])
def test_unlistable_folder_stops_the_merge(mode: int, job: Path, refused: Callable[..., str]) -> None:
    config = job / "a40" / f"{CASE}.search" / "config.pbtxt"
    disk.write_atomically(config, b"")
    with closed(config.parent, mode):
        assert CASE in refused(job)
