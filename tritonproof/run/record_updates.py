"""Writes results into a case's record, each time the whole file at once, so that a killed run keeps them; and
says which earlier results they join and replace, and which a failure voids."""

import contextlib
import datetime
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from tritonproof.base import disk
from tritonproof.base.errors import ProofError
from tritonproof.host import locks
from tritonproof.record import Record, StepFailure, record_files, setup, speed


def update(
    blank: Record,
    results_folder: Path,
    change: Callable[[Record], Record],
    *,
    run_id: str = "",
    baseline: str = "",
    in_fleet: bool = False,
) -> Record:
    """Apply `change` to the case's record on disk, or to `blank` if no stored record fits; returns the record
    that is then on disk. Raises ProofError if the folder cannot be written.

    Results join only results of the same machine, build, deployment and server, beside comparisons with the
    same `baseline`. A conversion depends on machine and build alone, and failures of the run `run_id` stay.
    Without a build, this run's failures join the machine's earlier record. Another machine's record moves to
    `superseded/` beside it; any other is outdated and replaced. If `in_fleet`, GPUs' UUIDs may differ: a
    later run may use another node.
    """
    path = record_files.record_path(blank.case, results_folder)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locks.hold_path(path):
            stored = read_stored(path)
            if stored is None and path.is_file():  # neither lost nor in the way
                path.replace(path.with_name(f"{path.name}.unreadable"))
            if in_fleet and stored is not None:
                stored, blank = _alike(stored, blank)
            if stored is not None and stored.machine != blank.machine:
                _supersede(path, stored)
                stored = None
            joined = _without_other_baseline(_joinable(stored, blank, run_id), baseline)
            now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            changed = structs.replace(change(joined), updated=now)
            record_files.write(changed, path)
    return changed


def _alike(stored: Record, blank: Record) -> tuple[Record, Record]:
    """Both records with the UUIDs of all GPUs, if their machines differ in nothing else; else unchanged."""
    uuids = tuple(sorted({*stored.machine.gpu_uuids, *blank.machine.gpu_uuids}))
    stored_alike, blank_alike = (
        structs.replace(record, machine=structs.replace(record.machine, gpu_uuids=uuids))
        for record in (stored, blank)
    )
    return (stored_alike, blank_alike) if stored_alike.machine == blank_alike.machine else (stored, blank)


def write_search_config(path: Path, text: str, diff: str = "") -> str:
    """Write the winner's config.pbtxt, and its differences from the model's own, beside the record at `path`;
    returns the file's name. An empty text removes an earlier file, which is no longer the winner's."""
    name = record_files.config_of_search(path)
    write_beside(path.parent / name, text.encode() or None)
    write_beside((path.parent / name).with_suffix(".diff"), diff.encode() or None)
    return name if text else ""


def write_beside(file: Path, content: bytes | None) -> None:
    """Write a record, or a file beside it, unless it has that content already; None removes the file."""
    with writing(file):
        if content is None:
            file.unlink(missing_ok=True)
        elif not disk.has_content(file, content):
            disk.write_atomically(file, content)


@contextlib.contextmanager
def writing(file: Path) -> Iterator[None]:
    """Turn an error in writing a record, or a file beside it, into ProofError."""
    try:
        yield
    except OSError as error:
        fix = "free or open the folder, or give another with --results DIR; what was recorded is kept"
        raise ProofError(f"the record cannot be written: {error.strerror}", where=file, fix=fix) from error


def _joinable(stored: Record | None, blank: Record, run_id: str) -> Record:
    """The part of the stored record that this run's results may join; `blank` if there is none. The price is
    the machine's; a run without a price keeps the stored one."""
    if stored is None:
        return blank
    if blank.price_per_hour is None:
        blank = structs.replace(blank, price_per_hour=stored.price_per_hour)
    if not blank.build.digest:
        return stored  # the case could not be built: this run has only failures
    is_same_build = stored.build.digest == blank.build.digest
    served_alike = blank.serving is None or stored.serving is None or stored.serving == blank.serving
    if is_same_build and stored.deployment == blank.deployment and served_alike:
        pairs = ((field, getattr(blank, field.name)) for field in structs.fields(blank))
        updates = {field.name: value for field, value in pairs if value not in (field.default, None)}
        return structs.replace(stored, **updates)
    # A test may fail before it knows the build or the server; its failure is then in an earlier record.
    own = tuple(failure for failure in stored.failures if _is_of_run(failure, run_id))
    conversion = stored.conversion if is_same_build else blank.conversion
    return structs.replace(blank, conversion=conversion, failures=own)


_ENTRY_KEYS: Mapping[str, Callable[[Any], Any]] = {
    "points": lambda result: result.point,
    "starts": lambda start: start.scenario,
    "gates": lambda result: result.gate,
    "failures": lambda failure: failure.test,
}
"""For each field of several entries: the key that identifies an entry and, except for gates, orders them."""


def with_results(stored: Record, **results: Any) -> Record:
    """The record with these results, by field; entries with the same key (`_ENTRY_KEYS`) are replaced."""
    joined = dict(results)
    for name in results.keys() & _ENTRY_KEYS.keys():
        by_key = {_ENTRY_KEYS[name](result): result for result in (*getattr(stored, name), *results[name])}
        joined[name] = tuple(by_key[key] for key in (by_key if name == "gates" else sorted(by_key)))
    return structs.replace(stored, **joined)


def without_resolved(stored: Record, test: str, step: str, run_id: str) -> Record:
    """The record without the failures that a result of `test` in the run `run_id` resolves: the test's own,
    and from earlier runs those of its step, whose load points this run may not measure again."""

    def is_left(failure: StepFailure) -> bool:
        return failure.test != test and (failure.step != step or _is_of_run(failure, run_id))

    return structs.replace(stored, failures=tuple(filter(is_left, stored.failures)))


def without_progress(stored: Record, scenario: setup.Scenario | None, run_id: str) -> Record:
    """The record without the load points of a scenario that the run `run_id` itself has saved so far."""

    def is_left(result: speed.PointResult) -> bool:
        return result.point.scenario != scenario or not _is_of_run(result, run_id)

    return structs.replace(stored, points=tuple(filter(is_left, stored.points)))


def with_failure(stored: Record, failure: StepFailure, *, is_built: bool = True) -> Record:
    """The record with a failed test. A failure that hides speed also removes what earlier runs have found:
    the result in the failure's field, and the result of the gate that is its step. If the case is not built,
    the failure says nothing of the record's build, and removes nothing."""

    def is_void(result: Any) -> bool:
        is_own = failure.origin is not None and _is_of_run(result, failure.origin.run)
        return is_built and failure.hides_speed and not is_own

    earlier = getattr(stored, failure.field) if failure.field else None
    cleared = {failure.field: None} if earlier is not None and is_void(earlier) else {}
    gates = tuple(result for result in stored.gates if result.gate != failure.step or not is_void(result))
    return with_results(structs.replace(stored, gates=gates), failures=(failure,), **cleared)


def _without_other_baseline(stored: Record, name: str) -> Record:
    """The record without the results of any baseline but the named one, which no test of this run would
    replace; an empty name stands for no baseline."""
    if name and (stored.baseline is None or stored.baseline.baseline_name == name):
        return stored
    gates = tuple(gate for gate in stored.gates if gate.gate != "baseline")
    failures = tuple(failure for failure in stored.failures if failure.field != "baseline")
    return structs.replace(stored, baseline=None, gates=gates, failures=failures)


def _is_of_run(result: Any, run_id: str) -> bool:
    return result.origin is not None and result.origin.run == run_id


def read_stored(path: Path) -> Record | None:
    """The record at a path; None if there is none or it is damaged."""
    try:
        return record_files.read(path)
    except record_files.RecordError:
        return None


def _supersede(path: Path, stored: Record) -> None:
    """Move another machine's record to `superseded/`, named after that machine, with its samples and its
    configuration. The folder of a search stays, as this run may have written its own there already."""
    folder = path.parent / record_files.SUPERSEDED
    folder.mkdir(exist_ok=True)
    moved = folder / f"{path.stem}-{record_files.machine_digest(stored.machine)}.json"
    path.replace(moved)
    for suffix in (record_files.SAMPLES_SUFFIX, record_files.CONFIG_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            path.with_suffix(suffix).replace(moved.with_suffix(suffix))
