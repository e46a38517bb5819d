"""Joining records of several machines or CI jobs into one results folder: all of it, or nothing and what conflicts.

It needs the standard library alone.
"""

import dataclasses
import glob
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.compare.setup_changes import differing
from reports.merge.shards import fields_text, joined
from reports.record import files, per_sample, untrusted
from reports.record.files import RecordError
from reports.record.schema import Machine, case_id
from reports.record.sources import Source, Stored

_LOG_SUFFIX = ".server.log"


@dataclass(frozen=True)
class MergePlan:
    """What a merge writes."""

    files: Mapping[Path, bytes | Path]
    """What each file below the output is to hold: its content, or the file to copy."""
    cases: Sequence[str]
    joined: Sequence[str]
    """The cases whose load points come from several records."""
    left_out: Sequence[Path]
    """What the folders hold beside their records and the files of these."""


def plan(sources: Sequence[Source]) -> MergePlan:
    """What merging the sources gives; raises RecordError that names every conflict."""
    cases: dict[str, list[Stored]] = {}
    for source in sources:
        for name, stored in source.records.items():
            cases.setdefault(name, []).append(stored)
    conflicts = _mixed_stamps([stored for group in cases.values() for stored in group])
    found: dict[Path, bytes | Path] = {}
    if not conflicts:
        for name, group in cases.items():
            record, clashes = joined(group)
            place = Path(record.case.target, name)
            found[place.with_name(f"{name}.json")] = (
                group[0].path if len(group) == 1 else files.encode(record)
            )
            beside, differ = _beside(group, place)
            found |= beside
            conflicts += clashes + differ
    if conflicts:
        lines = "".join(f"\n- {conflict}" for conflict in conflicts)
        raise RecordError(f"the records cannot be merged, and nothing was written:{lines}")
    copied = {path.resolve() for group in cases.values() for path in _of_cases(group)}
    left_out = [
        path for source in sources for path in _visible(Path(source.name)) if path.resolve() not in copied
    ]
    several = [name for name, group in cases.items() if len(group) > 1]
    return MergePlan(found, sorted(cases), several, left_out)


def write(found: MergePlan, output: Path) -> bool:
    """Write a plan as a new folder, whole or not at all; False where it is there already.

    Raises RecordError where the folder holds anything else, which is never overwritten.
    """
    if output.exists() and _holds(output, found):
        return False
    staged = output.parent / f".{output.name}-{uuid.uuid4().hex}.tmp"
    try:
        for place, content in found.files.items():
            target = staged / place
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                with untrusted.opened(content) as file, target.open("xb") as copy:
                    shutil.copyfileobj(file, copy)
            else:
                target.write_bytes(content)
        staged.replace(output)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return True


def _holds(output: Path, found: MergePlan) -> bool:
    """Whether the folder holds exactly the plan; False where it is empty."""
    if not output.is_dir():
        raise RecordError(f"{output}: not a folder. Give a new one with --output.")
    present = {path.relative_to(output): path for path in output.rglob("*") if path.is_file()}
    if not present and not any(output.iterdir()):
        return False
    for place in sorted(present.keys() | found.files.keys()):
        same = place in present and place in found.files
        if not same or present[place].read_bytes() != _content(found.files[place]):
            raise RecordError(
                f"{output}: holds other files than this merge gives ({place}). Nothing was written; give a new folder "
                "with --output."
            )
    return True


def _content(content: bytes | Path) -> bytes:
    if isinstance(content, bytes):
        return content
    with untrusted.opened(content) as file:
        return file.read()


# --- stamps ------------------------------------------------------------------------------------------------


def _mixed_stamps(stored: Sequence[Stored]) -> list[str]:
    """A sentence for each further machine stamp of a target, whose tables would mix them."""
    stamps: dict[str, list[list[Stored]]] = {}
    for one in stored:
        groups = stamps.setdefault(one.record.case.target, [])
        alike = next(
            (group for group in groups if _is_same_stamp(group[0].record.machine, one.record.machine)), None
        )
        if alike is None:
            groups.append([one])
        else:
            alike.append(one)
    return [_stamps(target, groups[0], other) for target, groups in stamps.items() for other in groups[1:]]


def _is_same_stamp(one: Machine, other: Machine) -> bool:
    """Whether two records are of one machine: two GPUs of it, of one kind, are as alike as it gets, and a table names
    each."""
    return dataclasses.replace(one, gpu_uuids=()) == dataclasses.replace(other, gpu_uuids=())


def _stamps(target: str, first: Sequence[Stored], second: Sequence[Stored]) -> str:
    """Names a case of both where there is one."""
    of_case = {case_id(one.record.case): one for one in first}
    pairs = [(of_case[name], one) for one in second if (name := case_id(one.record.case)) in of_case]
    one, other = pairs[0] if pairs else (first[0], second[0])
    parts = ("machine.", "versions.")
    fields = [setting for setting in differing(one.record, other.record) if setting.name.startswith(parts)]
    more = f", and {len(first) + len(second) - 2} more" if len(first) + len(second) > 2 else ""
    return (
        f"target {target}: two machine stamps: {one.path} and {other.path}{more} differ in {fields_text(fields)}. "
        "Merge the records of each machine into a folder of its own; `python -m reports compare` sets them side by side."
    )


# --- what stands beside the records ------------------------------------------------------------------------


def _beside(group: Sequence[Stored], place: Path) -> tuple[dict[Path, Path], list[str]]:
    """The files of a case but for its records, by their place below the output, and those that conflict.

    Raises OSError where one is a symbolic link, or no regular file.
    """
    found: dict[Path, Path] = {}
    conflicts = []
    for number, stored in enumerate(group, 1):
        folder = stored.path.parent
        for path in _of_case(stored):
            relative = path.relative_to(folder)
            to = place.parent / f"{place.name}{str(relative)[len(stored.path.stem) :]}"
            if number > 1 and path.name.endswith(_LOG_SUFFIX):
                to = to.with_name(f"{to.name.removesuffix(_LOG_SUFFIX)}.{number}{_LOG_SUFFIX}")
            if strange := [part for part in to.parts if not untrusted.is_plain(part)]:
                conflicts.append(
                    f"{path}: {strange[-1]!r} is no name for a file beside records: letters, digits, '.', '_' and '-' "
                    "alone. Rename it, or take it out of the folder."
                )
                continue
            if f".{path.name}".endswith(files.SAMPLES_SUFFIX):
                per_sample.read(path, folder)  # raises if it is damaged
            content = untrusted.digest(path, folder)
            other = found.setdefault(to, path)
            if other != path and untrusted.digest(other) != content:
                conflicts.append(
                    f"{other} and {path} differ. Take the one that does not belong to the records out of its folder."
                )
    return found, conflicts


def _of_cases(group: Sequence[Stored]) -> Iterator[Path]:
    for stored in group:
        yield stored.path
        yield from _of_case(stored)


def _of_case(stored: Stored) -> list[Path]:
    """The files whose names, or whose folders' names, begin with that of the record."""
    entries = sorted(stored.path.parent.glob(f"{glob.escape(stored.path.stem)}.*"))
    return [
        path
        for entry in entries
        if entry != stored.path
        for path in ([entry] if entry.is_symlink() else _visible(entry))
    ]


def _visible(path: Path) -> list[Path]:
    """The file itself, or what is in the folder but for folders; not what is hidden, such as locks. A link is a file."""
    if not path.is_dir():
        return [path]
    inside = sorted(one for one in path.rglob("*") if one.is_symlink() or not one.is_dir())
    return [one for one in inside if not any(part.startswith(".") for part in one.relative_to(path).parts)]
