"""Joins records of several machines or CI jobs in one results folder: all of them, or none where any two conflict.

It needs the standard library alone, and goes case by case, so that any number of records takes the memory of few.
"""

import filecmp
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reports.compare.setup import differing
from reports.merge import inputs, nameless
from reports.merge.beside import files_beside
from reports.merge.inputs import Input, Inputs
from reports.merge.one_case import Kept, fields_text, outcome, stamp_of
from reports.record import files, untrusted, writing
from reports.record.files import RecordError
from reports.record.folders import below
from reports.record.foreign import path_text


@dataclass(frozen=True)
class Merged:
    """The records and files that a merge wrote."""

    is_new: bool
    """False where the folder was there already, with the same in it."""
    records: int
    joined: Sequence[str]
    """The names of the records that were joined from several."""
    apart: Sequence[str]
    """The cases that several machines measured, each of which has a record."""
    earlier: Sequence[str]
    """A sentence for each case of which later figures stand in place of earlier ones."""
    left_out: Sequence[Path]
    """The files in the given folders that are neither records nor belong to one."""


@dataclass
class _Work:
    """The state of a merge that is under way."""

    staged: Path
    stamps: dict[str, dict[object, dict[str, Path]]] = field(default_factory=dict)
    """The cases by target and machine stamp, each with a record's file."""
    conflicts: list[str] = field(default_factory=list)
    records: int = 0
    joined: list[str] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)
    copied: set[Path] = field(default_factory=set)


def merge(arguments: Sequence[Path], output: Path, *, anonymous: bool = False) -> Merged:
    """Write the records of folders and files, with what stands beside them, as a new folder: whole, or not at all.

    Raises RecordError that names every conflict, or every file that is not a whole record, and where the folder holds
    anything else than this merge gives, which is never overwritten, or is or lies in what is merged.
    """
    given = inputs.found(arguments)
    place = Path(os.path.realpath(output))
    # A link that leads to itself is still one there.
    if (output.exists() or place.is_symlink()) and not output.is_dir():
        raise RecordError(f"{output}: not a folder. Give a new one with --output.")
    for one in given.given:
        # What is gathered there before it is whole would be read as a part of what is given.
        if one.is_dir() and place.is_relative_to(os.path.realpath(one)):
            raise RecordError(
                f"{output}: it is, or lies in, {one}, whose records are to be merged. Give a new one with --output, "
                "beside what is merged."
            )
    with writing.unfinished_folder(place) as staged:
        work = _Work(staged)
        _gather(work, given)
        logs = nameless.without_names(staged) if anonymous else []
        is_new = not _holds(output, staged)
        if is_new:
            with writing.named(place):
                staged.replace(place)
    left_out = [path for one in given.given for path in inputs.visible(one) if path not in work.copied]
    return Merged(is_new, work.records, work.joined, work.apart, work.earlier, [*left_out, *logs])


def _gather(work: _Work, given: Inputs) -> None:
    """Write the records that are kept, with their files, into the staged folder; raises RecordError as `merge`."""
    damaged: list[str] = []
    for name, paths in given.records.items():
        try:
            records = inputs.read(name, paths)
        except RecordError as error:
            damaged.append(str(error))
        else:
            _add(work, name, records, given)
    if damaged:
        raise RecordError("\n".join(damaged))
    if conflicts := _mixed_stamps(work) or work.conflicts:
        lines = "".join(f"\n- {conflict}" for conflict in conflicts)
        raise RecordError(f"the records cannot be merged, and nothing was written:{lines}")


def _add(work: _Work, name: str, records: Sequence[Input], given: Inputs) -> None:
    """Write the records that are kept of a case into the staged folder, unless there was a conflict before."""
    for one in records:
        of_target = work.stamps.setdefault(one.record.case.target, {})
        of_target.setdefault(stamp_of(one.record.machine), {})[name] = one.path
    if any(len(of_target) > 1 for of_target in work.stamps.values()):
        return
    found = outcome(records, work.conflicts)
    for kept in found.kept:
        _write(work, kept, given)
    if len(found.kept) > 1:
        work.apart.append(name)
    if found.earlier:
        number = f"{found.earlier} figure{'s' * (found.earlier != 1)}"
        work.earlier.append(f"{name}: {number} of earlier runs gave way to later ones of the same machine")


def _write(work: _Work, kept: Kept, given: Inputs) -> None:
    case = kept.inputs[0].record.case
    path = files.path_of(case, work.staged, kept.machine)
    beside = {record: inputs.beside(record, given) for one in kept.inputs for record in one.paths}
    for record, others in beside.items():
        work.copied.update([record, *others])
    copies = files_beside(kept, path.with_name(path.stem), beside, work.conflicts)
    work.records += 1
    if len(kept.inputs) > 1:
        work.joined.append(files.name_of(case, kept.machine))
    if work.conflicts:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = kept.content.content if isinstance(kept.content, Input) else files.encode(kept.content)
    path.write_bytes(content)
    for place, source in copies.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        with untrusted.opened(source) as file, place.open("xb") as copy:
            shutil.copyfileobj(file, copy)


def _holds(output: Path, staged: Path) -> bool:
    """Whether the folder holds exactly what is staged; False where it is empty."""
    if not output.exists() or not any(output.iterdir()):
        return False
    wanted = dict(_files_in(staged))
    present = {place: output / place for place in sorted(wanted)}
    changed = (
        place
        for place, path in present.items()
        if not path.is_file() or not filecmp.cmp(path, wanted[place], shallow=False)
    )
    # One by one: the folder may be a whole disk, such as /.
    others = (place for place, _ in _files_in(output) if place not in wanted)
    other = next(itertools.chain(changed, others), None)
    if other is not None:
        raise RecordError(
            f"{output}: holds other files than this merge gives ({path_text(other)}). Nothing was written; give a new folder "
            "with --output."
        )
    return True


def _files_in(folder: Path) -> Iterator[tuple[Path, Path]]:
    """The files of a folder by their places in it."""
    for path in below(folder):
        if os.path.isfile(path):  # noqa: PTH113 - Path's raises where it may not look
            yield path.relative_to(folder), path


def _mixed_stamps(work: _Work) -> list[str]:
    """A sentence for each further machine stamp of a target, whose tables would mix them."""
    found = []
    for target, stamps in work.stamps.items():
        first, *others = stamps.values()
        found += [_stamps(target, first, other) for other in others]
    return found


def _stamps(target: str, first: dict[str, Path], second: dict[str, Path]) -> str:
    """A sentence on two stamps of a target, with a record of each; of the same case if both have one."""
    name = next((name for name in second if name in first), None)
    one, other = sorted((of[name] if name else next(iter(of.values())) for of in (first, second)), key=str)
    parts = ("machine.", "versions.")
    fields = [
        setting
        for setting in differing(files.read(one), files.read(other))
        if setting.name.startswith(parts) and setting.name != "machine.gpu_uuids"
    ]
    more = f", and {len(first) + len(second) - 2} more" if len(first) + len(second) > 2 else ""
    return (
        f"target {target}: two machine stamps: {one} and {other}{more} differ in {fields_text(fields)}. "
        "Merge the records of each machine into a folder of its own; `python -m reports compare` sets them side by side."
    )
