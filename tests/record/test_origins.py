"""Anonymous outputs name neither the host nor the GPU of a measurement."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.merge import merge
from reports.record import files
from reports.record.origins import measurements
from reports.record.schema import Conversation, Record
from tests import examples
from tests.helpers import records_in

HOST, UUID = "secret-host", "GPU-5ec2e70d-1111-2222-3333-444455556666"
README = Path("reports/readme")


def measured(host: str = HOST, uuid: str = UUID, run: int = 1) -> Record:
    """A record with every measurement, all of them of one machine."""
    conversation = Conversation("sequence", 4, 4, "", passed=True)
    return examples.measured_at(
        examples.origin(host, run, uuid), examples.complete(conversation=conversation)
    )


@pytest.fixture
def one_machine(tmp_path: Path) -> Path:
    return examples.store(tmp_path / "one", measured())


def test_readme_names_no_host(one_machine: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    file = tmp_path / "README.md"
    file.write_text("<!-- tritonproof:machine -->\n<!-- /tritonproof:machine -->\n")
    printed("readme", file, "--results", one_machine)
    assert "secret" not in file.read_text()
    assert "c0ffee" in file.read_text()


def test_anonymous_merge_removes_names_but_no_figures(one_machine: Path, tmp_path: Path) -> None:
    log = files.path_of(measured().case, one_machine).with_suffix(".server.log")
    log.write_text(f"on {HOST}")
    merge([one_machine], tmp_path / "out", anonymous=True)
    assert not list((tmp_path / "out").glob("*/*.log"))
    for path in (tmp_path / "out").rglob("*.*"):
        assert b"secret" not in path.read_bytes()
        assert b"5ec2e70d" not in path.read_bytes()
    (record,) = records_in(tmp_path / "out")
    assert measurements(record).keys() == measurements(measured()).keys()


def test_published_records_name_no_host_or_gpu() -> None:
    for path in files.record_paths(README):
        record = json.loads(path.read_text())
        entries = [
            entry for part in record.values() for entry in (part if isinstance(part, list) else [part])
        ]
        origins = [entry["origin"] for entry in entries if isinstance(entry, dict) and entry.get("origin")]
        assert [entry for entry in origins if entry["host"] or entry["gpu_uuids"]] == []
        assert record["machine"]["gpu_uuids"] == []
