"""Results are added to their own record without loss."""

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests import sample_records
from tests.helpers import ROOT, records_in
from tritonproof.base.errors import ProofError
from tritonproof.record import Record, record_files, setup, speed
from tritonproof.run import record_updates

WHOLE = sample_records.record()
FRESH = structs.replace(WHOLE, conversion=None, accuracy=None, points=(), updated="")
"""A run's record before its first measurement."""
NEW = sample_records.measured("online", 64, 3300.0)
START = setup.Start("online", 0.4, 2.5, 12.5)
AT_64 = sample_records.load_point("online", 64)
OWN_FAILURE, EARLIER_FAILURE = (
    sample_records.step_failure(f"test_{run}", origin=sample_records.origin(run=run)) for run in (2, 1)
)
RUN_2 = sample_records.origin(run=2).run
KEPT = {"conversion": WHOLE.conversion, "failures": (OWN_FAILURE,)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The case's record, with everything in it."""
    sample_records.store(tmp_path, WHOLE)
    return record_files.record_path(WHOLE.case, tmp_path)


def add(fresh: Record, results: Path, **parts: Any) -> Record:
    """Record results, by default one load point; returns the record on disk."""
    given = parts or {"starts": (START,), "points": (NEW,)}
    change = functools.partial(record_updates.with_results, **given)
    written = record_updates.update(fresh, results, change, run_id=RUN_2)
    on_disk = record_files.read(record_files.record_path(fresh.case, results))
    assert written == on_disk
    return on_disk


def points(record: Record) -> list[speed.LoadPoint]:
    return [result.point for result in record.points]


def alone(fresh: Record, stored: Record, **more: Any) -> Record:
    """A record of one new load point."""
    return structs.replace(fresh, points=(NEW,), starts=(START,), updated=stored.updated, **more)


def test_result_joins_record_and_replaces_same_point(tmp_path: Path, path: Path) -> None:
    joined = add(FRESH, tmp_path)
    assert joined.updated.endswith("+00:00")
    assert (joined.conversion, joined.accuracy) == (WHOLE.conversion, WHOLE.accuracy)
    assert points(joined) == sorted([*points(WHOLE), AT_64])
    again = sample_records.measured("offline", 8, 1700.0)
    replaced = add(FRESH, tmp_path, points=(again,))
    assert points(replaced) == points(joined)
    assert [result for result in replaced.points if result.point.batch == 8] == [again]


def test_gate_result_replaces_only_its_own(tmp_path: Path, path: Path) -> None:
    declared, right = sample_records.gate("declared"), sample_records.gate("batches")
    for gate in (declared, sample_records.gate("batches", "wrong"), right):
        add(FRESH, tmp_path, gates=(gate,))
    assert record_files.read(path).gates == (declared, right), "in the order of their first results"
    assert record_files.read(path).points == WHOLE.points


@pytest.mark.parametrize(("run", "is_kept"), [(1, False), (2, True)])
def test_failure_replaces_result_of_its_step_until_resolved(run: int, is_kept: bool) -> None:
    """A failure removes an earlier result, unless it is of the same run."""
    accuracy = structs.replace(sample_records.accuracy(), origin=sample_records.origin(run=run))
    failed = sample_records.step_failure(origin=sample_records.origin(run=2))
    stored = record_updates.with_failure(sample_records.record(accuracy=accuracy), failed)
    assert (stored.accuracy, stored.conversion) == (accuracy if is_kept else None, WHOLE.conversion)
    assert stored.failures == (failed,)


@pytest.mark.parametrize(("hides", "is_built", "is_kept"), [(1, 1, False), (0, 1, True), (1, 0, True)])
def test_failure_leaves_measurements_and_other_builds_alone(hides: int, is_built: int, is_kept: bool) -> None:
    warm = sample_records.record(model_warmup=speed.ModelWarmup(8, (2.0,), (3.0,)))
    slow = sample_records.step_failure("test_model_warmup", "model-warmup", hides_speed=bool(hides))
    failed = record_updates.with_failure(warm, slow, is_built=bool(is_built))
    assert (failed.model_warmup is not None) == is_kept


@pytest.mark.parametrize(("name", "kept"), [("", 0), ("/srv/other", 0), ("/srv/models", 1)])
def test_baseline_of_an_earlier_run_stays_for_the_same_one_alone(
    tmp_path: Path, name: str, kept: int
) -> None:
    compared = (sample_records.step_failure(f"test_{step}", step) for step in ("baseline", "footprint"))
    failures = (sample_records.step_failure(), *compared)
    stored = structs.replace(sample_records.beside("3 answers differ"), failures=failures)
    sample_records.store(tmp_path, stored)
    blank = structs.replace(stored, baseline=None, gates=(), failures=())
    left = record_updates.update(blank, tmp_path, lambda stored: stored, baseline=name)
    assert [left.baseline is not None, len(left.gates), len(left.failures)] == [kept, kept, 1 + 2 * kept]


@pytest.mark.parametrize(("gate", "is_built"), [("baseline", 1), ("transport", 1), ("transport", 0)])
def test_failed_gate_leaves_neither_the_earlier_comparison_nor_its_result(gate: str, is_built: int) -> None:
    """Unless nothing was built, so that the failure says nothing of the record's build."""
    results = sample_records.gate("batches"), sample_records.gate(gate)
    stored = structs.replace(sample_records.beside(), gates=results)
    failed = sample_records.step_failure(step=gate)
    left = record_updates.with_failure(stored, failed, is_built=bool(is_built))
    assert (left.baseline is None, left.gates) == (gate == "baseline", results[: 2 - is_built])


def test_result_resolves_its_tests_failure_and_earlier_ones_of_its_step() -> None:
    elsewhere = structs.replace(OWN_FAILURE, test="test_at_another_point")
    left = (elsewhere, sample_records.step_failure("test_reload", "reload"))
    stored = sample_records.record(failures=(OWN_FAILURE, EARLIER_FAILURE, *left))
    assert record_updates.without_resolved(stored, OWN_FAILURE.test, "accuracy", RUN_2).failures == left


def test_progress_replaces_what_the_run_itself_has_saved_of_the_scenario() -> None:
    earlier, own, other = (
        structs.replace(sample_records.measured(scenario, 8, 9.0), origin=sample_records.origin(run=run))
        for scenario, run in [("offline", 1), ("offline", 2), ("online", 2)]
    )
    stored = sample_records.record(points=(earlier, own, other))
    assert record_updates.without_progress(stored, "offline", RUN_2).points == (earlier, other)


def test_conversion_joins_served_and_unserved_records(tmp_path: Path, path: Path) -> None:
    unserved, failed = structs.replace(FRESH, serving=None), sample_records.failed_conversion()
    stored = add(unserved, tmp_path, conversion=failed)
    assert (stored.conversion, stored.serving, stored.points) == (failed, WHOLE.serving, WHOLE.points)
    path.unlink()
    add(unserved, tmp_path, conversion=failed)
    served = add(FRESH, tmp_path)
    assert (served.serving, served.conversion) == (WHOLE.serving, failed)


def test_record_of_another_machine_is_kept_apart(tmp_path: Path, path: Path) -> None:
    for cores in (8, 4):
        moved = structs.replace(FRESH, machine=structs.replace(WHOLE.machine, cores=cores))
        stored = add(moved, tmp_path)
        assert stored == alone(moved, stored)
    superseded = [record_files.read(record) for record in (path.parent / "superseded").iterdir()]
    assert WHOLE in superseded
    assert {record.machine.cores for record in superseded} == {WHOLE.machine.cores, 8}
    assert records_in(tmp_path) == [stored], "a superseded record is in no table"


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"build": structs.replace(WHOLE.build, digest="77aa")}, {"failures": (OWN_FAILURE,)}),
        ({"deployment": setup.Deployment(128, 2, (64, 128), 1, False, True)}, KEPT),
        ({"serving": structs.replace(sample_records.SERVING, shared_memory="none")}, KEPT),
    ],
    ids=["build", "deployment", "serving"],
)
def test_another_build_replaces_record(tmp_path: Path, path: Path, changes: Any, kept: Any) -> None:
    """The failures of the same run stay, and for another deployment or server the conversion."""
    other = structs.replace(FRESH, **changes)
    record_files.write(structs.replace(WHOLE, failures=(OWN_FAILURE, EARLIER_FAILURE)), path)
    stored = add(other, tmp_path)
    assert stored == alone(other, stored, **kept)
    assert not (path.parent / "superseded").exists()


@pytest.mark.parametrize("content", ["", '{"schema": 999}'])
def test_unreadable_record_is_set_aside(tmp_path: Path, path: Path, content: str) -> None:
    path.write_text(content)
    assert points(add(FRESH, tmp_path)) == [AT_64]
    assert path.with_name(f"{path.name}.unreadable").read_text() == content


def test_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / FRESH.case.target
    folder.write_text("a file where the folder should be")
    with pytest.raises(ProofError, check=lambda error: error.where.startswith(str(folder))):
        add(FRESH, tmp_path)


WRITER = """\
import sys
from pathlib import Path
from tritonproof.run import record_updates
from tests import sample_records
for size in range(1, 21):
    points = (sample_records.measured(sys.argv[2], size, 100.0),)
    change = lambda stored: record_updates.with_results(stored, points=points)
    record_updates.update(sample_records.record(points=()), Path(sys.argv[1]), change)
"""


def test_concurrent_writers_keep_all_results(tmp_path: Path) -> None:
    start = functools.partial(subprocess.Popen[bytes], cwd=ROOT)
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [start([*command, scenario]) for scenario in ("offline", "online")]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    path = record_files.record_path(WHOLE.case, tmp_path)
    assert len(record_files.read(path).points) == 40
    assert [file for file in tmp_path.glob("*/*") if file.suffix != ".lock"] == [path]


def test_file_beside_record_is_made_replaced_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "case.search" / "config.pbtxt"
    for content in (b"\xff\xfe not UTF-8", b"name: 'own'"):
        record_updates.write_beside(file, content)
        assert file.read_bytes() == content
    record_updates.write_beside(file, None)
    assert not file.exists()


def test_latest_given_price_is_kept_across_builds(tmp_path: Path) -> None:
    def price_after(price: float | None, digest: str = FRESH.build.digest) -> float | None:
        build = structs.replace(FRESH.build, digest=digest)
        run = structs.replace(FRESH, price_per_hour=price, build=build)
        return record_updates.update(run, tmp_path, lambda stored: stored).price_per_hour

    assert [price_after(price) for price in (None, 2.0, 3.0, None)] == [None, 2.0, 3.0, 3.0]
    assert price_after(None, "another") == 3.0
