"""Anonymous outputs name neither the host nor the GPU of a measurement."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from tests import sample_records
from tests.helpers import records_in
from tritonproof.record import Record, record_files, setup, speed
from tritonproof.record.correctness import AnswerComparison, GateResult
from tritonproof.reports.merge import merge

HERE = sample_records.origin("secret-host", 1, "GPU-5ec2e70d-1111-2222-3333-444455556666")
README = Path("reports/readme")


def measured(where: setup.Origin = HERE, other: str = "secret-box.example:8001", *texts: str) -> Record:
    """A record with every measurement, all of them of one machine, beside another server and a commit."""
    compared = [sample_records.comparison(baseline_name=name) for name in (other, "HEAD~1 (3643daf)")]
    points = [sample_records.measured("offline", n, 9.0, comparison=one) for n, one in enumerate(compared, 1)]
    why, warning = texts or ("no secret", "a secret")
    answers = AnswerComparison(9, expected_from=f"by {other}")
    gate = GateResult("baseline", 18, f"9 samples beside {other}", f"OUT is 1, and 2 by {other}", answers)
    found = structs.replace(points[0], origin=where)
    whole = sample_records.complete(
        points=tuple(points),
        search=sample_records.search(result=found, accuracy=sample_records.accuracy(origin=where)),
        gates=(gate,),
        baseline=speed.BaselineComparison(other, sample_records.SIDE, sample_records.SIDE, (warning,)),
        failures=(sample_records.step_failure("test_reload", step="reload", message=why),),
    )
    return sample_records.measured_at(where, whole)


@pytest.fixture
def one_machine(tmp_path: Path) -> Path:
    return sample_records.store(tmp_path / "one", measured())


def test_readme_names_no_host(one_machine: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    file = tmp_path / "README.md"
    file.write_text("<!-- tritonproof:machine -->\n<!-- /tritonproof:machine -->\n")
    printed("readme", file, "--results", one_machine)
    assert "secret" not in file.read_text()
    assert "c0ffee" in file.read_text()


def test_anonymous_merge_removes_names_but_no_figures(one_machine: Path, tmp_path: Path) -> None:
    path = record_files.record_path(measured().case, one_machine)
    for suffix in (".server.log", ".json.unreadable"):  # an unreadable record is set aside
        path.with_suffix(suffix).write_text(f"on {HERE.host}")
    merge([one_machine], tmp_path / "out", anonymous=True)
    assert len([*(tmp_path / "out").glob("*/*")]) == 1
    for path in (tmp_path / "out").rglob("*.*"):
        assert b"secret" not in path.read_bytes()
        assert b"5ec2e70d" not in path.read_bytes()
    (record,) = records_in(tmp_path / "out")
    left_out = structs.replace(HERE, host="", gpu_uuids=())
    texts = "the reason is left out", "the text is left out"
    assert record == measured(left_out, "the baseline", *texts)


def test_published_records_name_no_host_or_gpu() -> None:
    records = [path.read_text() for path in record_files.record_paths(README)]
    named = [re.findall(r'"(?:host": "[^"]|gpu_uuids": \[\s*")', record) for record in records]
    assert records
    assert not any(named)
