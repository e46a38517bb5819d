"""Merges records of several folders into one, unless a case is there twice or a target's machines differ."""

import itertools
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tritonproof.base import commands, disk
from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import one_line
from tritonproof.record import Record, record_files, sample_files
from tritonproof.reports.compare import setting_changes
from tritonproof.reports.phrases import grouped


def merge(arguments: Sequence[Path], output: Path, *, anonymous: bool = False) -> int:
    """Write the records of folders and files, with the files beside them, into a new folder; return their
    number. Raises RecordError with all unreadable or contradictory records, InputError for a folder in use,
    and then writes nothing."""
    destination = Path(os.path.realpath(output))
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise InputError("this is not an empty folder", where=output, fix="give a new one with --output")
    record_groups = record_files.read_each(record_files.read_argument, arguments).values()
    records = dict(itertools.chain.from_iterable(records.items() for records in record_groups))
    if contradictions := [*_contradictions(records)]:
        raise record_files.RecordError("\n".join(contradictions))
    disk.make_folder(destination.parent)
    with disk.errors_naming(destination):
        unfinished = TemporaryDirectory(dir=destination.parent, prefix=".merge-", ignore_cleanup_errors=True)
    with unfinished as folder:
        merged_folder = Path(folder, "all")
        files_of = _files_beside(records)
        for path, record in records.items():
            _copy(path, record, files_of[path], merged_folder, anonymous)
        with disk.errors_naming(destination):
            merged_folder.replace(destination)
    return len(records)


def _contradictions(records: Mapping[Path, Record]) -> Iterator[str]:
    """A sentence for each case that several files hold, and for each target of more than one machine."""
    for case, paths in grouped(records, lambda path: str(records[path].case)).items():
        if len(paths) > 1:
            yield f"{' and '.join(map(str, paths))}: hold the same case, {case}. Leave out all but one."
    for target, (first, *others) in grouped(records, lambda path: records[path].case.target).items():
        for other in others:
            if settings := _differing_settings(records[first], records[other]):
                yield (
                    f"target {target}: two machines: {first} and {other} differ in {settings}. Merge each "
                    f"machine's into its own folder; {commands.tool_command('report', 'compare')} sets them "
                    "side by side."
                )
                break


def _differing_settings(first: Record, second: Record) -> str:
    """The settings of the machine that differ; which of equal GPUs it has is no difference."""
    settings = [
        f"{setting.name} ({setting.before} and {setting.after})"
        for setting in setting_changes(first, second)
        if setting.name.startswith(("machine.", "versions.")) and setting.name != "machine.gpu_uuids"
    ]
    return one_line(", ".join(settings), 300)


def _copy(path: Path, record: Record, attached: Iterable[Path], merged_folder: Path, anonymous: bool) -> None:
    """Copy a record and the files beside it."""
    destination = record_files.record_path(record.case, merged_folder)
    destination.parent.mkdir(parents=True, exist_ok=True)
    nameless = record_files.without_names(record)
    destination.write_bytes(record_files.encode(nameless) if anonymous else disk.content(path))
    for file in attached:
        ending = str(file.relative_to(path.parent)).removeprefix(path.stem)
        if ending.endswith(record_files.SAMPLES_SUFFIX):
            sample_files.read(file, path.parent)  # raises RecordError if it is damaged
        if anonymous and ending.endswith((".server.log", ".unreadable")):  # they may name the machine
            continue
        copied = destination.parent / f"{destination.stem}{ending}"
        copied.parent.mkdir(parents=True, exist_ok=True)
        with disk.opened(file, path.parent) as source, copied.open("xb") as copy:
            shutil.copyfileobj(source, copy)


def _files_beside(records: Iterable[Path]) -> dict[Path, list[Path]]:
    """The files that belong to each record, as their names or their folders' names begin with the record's.
    Links count as files; hidden files in folders, such as locks, are left out."""
    files_of: dict[Path, list[Path]] = {record: [] for record in records}
    for folder in dict.fromkeys(record.parent for record in files_of):
        for entry in disk.strict_glob(folder, "*.*"):
            owner = entry
            while owner.suffix and owner.with_suffix(".json") not in files_of:
                owner = owner.with_suffix("")
            if not owner.suffix or record_files.is_record(entry):
                continue
            companions = [entry]
            if entry.is_dir() and not entry.is_symlink():
                inside = disk.strict_walk(entry, lambda entered: not entered.name.startswith("."))
                shown = (file for file in inside if not file.name.startswith("."))
                companions = sorted(file for file in shown if file.is_symlink() or not file.is_dir())
            files_of[owner.with_suffix(".json")] += companions
    return files_of
