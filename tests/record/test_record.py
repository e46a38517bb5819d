"""Record files round trip, and incomplete ones are refused."""

from pathlib import Path

import pytest

from tests import sample_records
from tests.helpers import records_in
from tritonproof.record import Record, correctness, record_files
from tritonproof.record.speed import LoadPoint


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that holds the sample record."""
    sample_records.store(tmp_path, sample_records.complete_but_wrong())
    return record_files.record_path(sample_records.complete_but_wrong().case, tmp_path)


@pytest.mark.parametrize(
    "record",
    [
        sample_records.complete_but_wrong(),
        sample_records.record(conversion=None, accuracy=None, points=()),
        sample_records.measured_at(sample_records.origin(), sample_records.complete_but_wrong()),
    ],
)
def test_record_round_trips(record: Record, tmp_path: Path) -> None:
    record_files.write(record, tmp_path / "case.json")
    assert record_files.read(tmp_path / "case.json") == record


def test_records_are_read_in_name_order(tmp_path: Path) -> None:
    sample_records.store(tmp_path, sample_records.random_weights(), sample_records.record())
    (tmp_path / "a40" / ".superseded.json").write_text("not a record")
    assert records_in(tmp_path) == [sample_records.record(), sample_records.random_weights()]
    assert records_in(tmp_path / "nowhere") == []


def test_damaged_and_copied_records_are_named(path: Path, tmp_path: Path) -> None:
    copy, damaged = path.with_name(f"{path.stem}-old.json"), tmp_path / "cpu" / "second.json"
    copy.write_bytes(path.read_bytes())
    damaged.parent.mkdir()
    damaged.write_text("{")
    with pytest.raises(record_files.RecordError) as raised:
        record_files.read_folder(tmp_path)
    assert [line.partition(": ")[0] for line in str(raised.value).splitlines()] == [str(copy), str(damaged)]


def test_records_behind_a_link_in_the_folder_are_refused(path: Path, tmp_path: Path) -> None:
    """A folder from elsewhere may show no other folder's records; the folder that is given may be a link."""
    (tmp_path / "given").symlink_to(tmp_path)
    assert record_files.read_folder(tmp_path / "given")
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    (artifact / path.parent.name).symlink_to(path.parent)
    with pytest.raises(record_files.RecordError):
        record_files.read_folder(artifact)


def test_number_beyond_any_is_written_as_the_largest_and_infinity_is_not(path: Path) -> None:
    """A wrong answer in FP32 may be 3e38, and a share of a small spread even more."""
    infinite, far = (sample_records.measured("offline", 1, speed) for speed in (float("inf"), 3e41))
    with pytest.raises(ValueError, match="JSON"):
        record_files.write(sample_records.record(points=(infinite,)), path)
    assert record_files.read(path) == sample_records.complete_but_wrong()
    assert list(path.parent.iterdir()) == [path]
    record_files.write(sample_records.record(points=(far,)), path)
    assert record_files.read(path).points[0].throughput_per_s.value == 1e30


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_interrupted_write_keeps_old_file(call: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = []

    def full(*_: object) -> None:
        contents.append(record_files.read(path))
        raise OSError("No space left on device")

    monkeypatch.setattr(call, full)
    with pytest.raises(OSError, match="No space left"):
        record_files.write(sample_records.random_weights(), path)
    assert contents == [sample_records.complete_but_wrong()]
    assert record_files.read(path) == sample_records.complete_but_wrong()
    assert list(path.parent.iterdir()) == [path]


def test_load_points_have_names_of_their_own() -> None:
    rates = (0.01, 0.2, 0.25, 12.5, 120.0, 120000.0)
    names = [str(LoadPoint("online", 1, 0, rate, "poisson")) for rate in rates]
    assert len(set(names)) == len(rates)
    assert names[3:5] == ["b001-r00012.5-poisson", "b001-r00120-poisson"]


@pytest.mark.parametrize(
    ("error", "agreement", "passed"), [(0.01, 0.99, True), (0.02, 1.0, False), (0.0, 0.98, False)]
)
def test_conversion_without_outputs_passes_by_error_and_agreement(
    error: float, agreement: float, passed: bool
) -> None:
    assert correctness.Conversion(64, error, 0.01, agreement, 0.99).passed == passed
