"""Joins the records of several folders in a new one: all of them, or none if any two contradict each other.
It takes one case after the other, so that many records need the memory of few."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs

from reports import sources
from reports.compare.setup import differing
from reports.record import atomic, commands, files, per_sample, safe_open
from reports.record.folders import below
from reports.record.origins import SEVERAL, SINGLE, measurements, without_names
from reports.record.sanitize import one_line
from reports.record.schema import Record, case_id


@dataclass
class Merged:
    """The state of a merge, and its result."""

    folder: Path
    anonymous: bool
    records: int = 0
    joined: list[str] = field(default_factory=list)
    """The cases with a record joined from several."""
    left_out: list[Path] = field(default_factory=list)
    """Files that belong to no record, and logs that are not kept."""
    problems: list[str] = field(default_factory=list)
    """The contradictions, for which nothing is written."""
    first: dict[str, tuple[Path, Record]] = field(default_factory=dict)
    """A record of each target; the others must be of the same machine."""


def merge(arguments: Sequence[Path], output: Path, *, anonymous: bool = False) -> Merged:
    """Write the records of folders and files, with the files beside them, into a new folder. Raises
    RecordError, which names every contradiction and unreadable file, and then writes nothing."""
    given = list(dict.fromkeys(arguments))
    place = Path(os.path.realpath(output))
    _check_output(output, place, given)
    paths = _paths_by_case(given)
    beside = _files_beside(path for alike in paths.values() for path in alike)
    damaged: list[str] = []
    with atomic.unfinished_folder(place) as staged:
        done = Merged(staged, anonymous)
        for name, alike in paths.items():
            try:
                _add(done, name, alike, beside)
            except files.RecordError as error:
                damaged.append(str(error))
        if damaged or done.problems:
            why = ["the records cannot be merged, and nothing was written:", *done.problems]
            raise files.RecordError("\n".join(damaged) or "\n- ".join(why))
        with atomic.named(place):
            staged.replace(place)
    used = {*beside, *(file for own in beside.values() for file in own)}
    done.left_out += [path for one in given for path in _visible(one) if path not in used]
    return done


def _check_output(output: Path, place: Path, given: Iterable[Path]) -> None:
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise files.RecordError(f"{output}: not an empty folder. Give a new one with --output.")
    for one in given:
        if one.is_dir() and place.is_relative_to(os.path.realpath(one)):
            raise files.RecordError(f"{output}: lies in {one}, which is to be merged. Give another --output.")


def _paths_by_case(given: Iterable[Path]) -> dict[str, list[Path]]:
    """The record files by case, according to their names; a file that is reached in two ways counts once."""
    found: dict[str, dict[str, Path]] = {}
    for argument in given:
        for path in sources.record_files(argument):
            name = case_id(files.read(path).case) if argument.is_file() else path.stem
            found.setdefault(name, {})[f"{os.path.realpath(path.parent)}/{path.name}"] = path
    return {name: [alike[real] for real in sorted(alike)] for name, alike in sorted(found.items())}


def _add(done: Merged, name: str, paths: Sequence[Path], beside: Mapping[Path, Sequence[Path]]) -> None:
    records = {path: files.read(path) for path in paths}
    for path, record in records.items():
        if case_id(record.case) != name:
            found = case_id(record.case)
            raise files.RecordError(f"{path}: holds the case {found}. Give it that name, or take it out.")
        target = record.case.target  # of which a table would mix two machines
        other, its = done.first.setdefault(target, (path, record))
        if its.machine != record.machine and (settings := _differing(its, record, ("machine.", "versions."))):
            done.problems.append(
                f"target {target}: two machines: {other} and {path} differ in {settings}. Merge each "
                f"machine's into a folder of its own; {commands.tool('reports', 'compare')} sets them side "
                "by side."
            )
    # The order of the arguments decides nothing: the record that was changed last comes last.
    first, *others = sorted(paths, key=lambda path: records[path].updated)
    whole = records[first]
    for path in others:
        both = " and ".join(sorted(map(str, (first, path))))
        done.problems += [f"{both}: {what}" for what in contradictions(whole, records[path])]
        whole = joined(whole, records[path])
    if done.problems:
        return  # nothing will be written
    done.records += 1
    if any(record != whole for record in records.values()):
        done.joined.append(name)
    place = files.path_of(whole.case, done.folder)
    place.parent.mkdir(exist_ok=True)
    shown = without_names(whole) if done.anonymous else whole
    place.write_bytes(safe_open.content(first) if shown == records[first] else files.encode(shown))
    for path in reversed((first, *others)):
        for file in beside[path]:
            _copy(done, file, path, place)


def contradictions(one: Record, other: Record) -> list[str]:
    """Why two records of a case cannot be joined: another build or setup, or two figures of one thing."""
    parts = ("deployment.", "build.", *(["serving."] if one.serving and other.serving else []))
    if settings := _differing(one, other, parts):
        return [f"differ in {settings}. Measure the case again with one setup, or leave one out."]
    mine, theirs = measurements(one), measurements(other)
    # Two measurements may be equal in all but where they come from, as those of a deterministic model are.
    twice = [
        " ".join(str(part) for part in key if part != "")
        for key in mine.keys() & theirs.keys()
        if key[0] != "starts" and structs.replace(mine[key], origin=theirs[key].origin) != theirs[key]
    ]
    twice += ["price_per_hour"] * (len({one.price_per_hour, other.price_per_hour} - {None}) > 1)
    return [f"have different figures of {name}. Leave one of the files out." for name in sorted(twice)]


def _differing(one: Record, other: Record, parts: Sequence[str]) -> str:
    """The settings that differ, in these parts of the setup; two GPUs of one machine are equal."""
    found = [
        f"{each.name} ({each.before} and {each.after})"
        for each in differing(one, other)
        if each.name.startswith(tuple(parts)) and each.name != "machine.gpu_uuids"
    ]
    return one_line(", ".join(found), 300)  # a digest has 64 characters


def joined(earlier: Record, later: Record) -> Record:
    """The record joined from two that do not contradict each other; the later one has precedence."""
    found = measurements(earlier) | measurements(later)
    changes: dict[str, Any] = {name: found.get((name,)) for name in SINGLE}
    changes |= {name: tuple(found[key] for key in sorted(found) if key[0] == name) for name in SEVERAL}
    ledger = max(later, earlier, key=lambda one: (one.accuracy is not None, one.accuracy_missing or ""))
    uuids = {*earlier.machine.gpu_uuids, *later.machine.gpu_uuids}
    return structs.replace(
        later,
        machine=structs.replace(later.machine, gpu_uuids=tuple(sorted(uuids))),
        serving=later.serving or earlier.serving,
        accuracy_missing=ledger.accuracy_missing,
        price_per_hour=earlier.price_per_hour if later.price_per_hour is None else later.price_per_hour,
        stage_seconds={**earlier.stage_seconds, **later.stage_seconds},
        **changes,
    )


def _files_beside(records: Iterable[Path]) -> dict[Path, list[Path]]:
    """The files that belong to each record: their names, or their folders' names, begin with its own."""
    found: dict[Path, list[Path]] = {record: [] for record in records}
    for folder in sorted({record.parent for record in found}):
        for entry in sorted(folder.iterdir()):
            owner = entry
            while owner.suffix and owner.with_suffix(".json") not in found:
                owner = owner.with_suffix("")
            if owner.suffix and owner.with_suffix(".json") != entry:
                found[owner.with_suffix(".json")] += [entry] if entry.is_symlink() else _visible(entry)
    return found


def _visible(path: Path) -> list[Path]:
    """The file itself, or all files in the folder that are not hidden, as locks are. A link is a file."""
    if not path.is_dir():
        return [path]
    inside = below(path, lambda folder: not folder.name.startswith("."))
    return sorted(one for one in inside if one.name[0] != "." and (one.is_symlink() or not one.is_dir()))


def _copy(done: Merged, file: Path, record: Path, place: Path) -> None:
    ending = str(file.relative_to(record.parent))[len(record.stem) :]
    target = place.parent / f"{place.stem}{ending}"
    if ending.endswith((files.SAMPLES_SUFFIX, f"{files.SEARCH_SUFFIX}/samples.json")):
        per_sample.read(file, record.parent)  # raises RecordError if it is damaged
    if ending.endswith(".server.log") and (done.anonymous or target.exists()):
        done.left_out.append(file)  # it may name the machine; of several logs that of the latest record stays
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with safe_open.opened(file, record.parent) as content, target.open("xb") as copy:
            shutil.copyfileobj(content, copy)
    elif safe_open.content(file, record.parent) != target.read_bytes():
        done.problems.append(
            f"{file}: differs from that beside another record of the case. Take one of them out."
        )
