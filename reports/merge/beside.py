"""The files beside the records of a case, such as samples and logs: which of them go with which record that is kept.

It needs the standard library alone.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from reports.merge.inputs import Input
from reports.merge.one_case import Kept
from reports.record import files, per_sample, untrusted
from reports.record.foreign import path_text, quoted
from reports.record.machines import Key

LOG_SUFFIX = ".server.log"
_LOG = re.compile(rf"(?P<stem>.*?)(\.\d+)?{re.escape(LOG_SUFFIX)}")
_SEARCH = f"{files.SEARCH_SUFFIX}/"
_FIRST_BYTES = 4096
"""Bytes of a log that are compared to sort logs: its first line begins with a time."""


def files_beside(
    kept: Kept, place: Path, beside: Mapping[Path, Sequence[Path]], conflicts: list[str]
) -> dict[Path, Path]:
    """The files of a kept record but for itself, by their place below the output, which are of the record's `place` with
    another ending; `beside` has those of each record's file. A sentence for each that cannot be had is added to the
    conflicts.

    Raises OSError where one is a symbolic link, or no regular file.
    """
    holding: dict[str, list[tuple[Input, Path]]] = {}
    logs: dict[str, dict[bytes, Path]] = {}
    for one in kept.inputs:
        for record in one.paths:
            for path in beside[record]:
                ending = str(path.relative_to(record.parent))[len(record.stem) :]
                if strange := [part for part in Path(f"_{ending}").parts if not untrusted.is_plain(part)]:
                    name = strange[-1].removeprefix("_") if strange[-1] == f"_{ending}" else strange[-1]
                    conflicts.append(
                        f"{path_text(path)}: {quoted(name)} is no name for a file beside records: letters, digits, '.', '_' and '-' "
                        "alone. Rename it, or take it out of the folder."
                    )
                elif log := _LOG.fullmatch(ending):
                    logs.setdefault(log["stem"], {})[_order(path, record.parent)] = path
                else:
                    holding.setdefault(ending, []).append((one, path))
    found = {}
    for ending, held in holding.items():
        chosen = _chosen(kept, ending, held, conflicts)
        if chosen is not None:
            found[place.parent / f"{place.name}{ending}"] = chosen
    for stem, of in logs.items():
        for number, key in enumerate(sorted(of), 1):
            again = f".{number}" if number > 1 else ""
            found[place.parent / f"{place.name}{stem}{again}{LOG_SUFFIX}"] = of[key]
    return found


def _order(log: Path, folder: Path) -> bytes:
    """A key that sorts logs by time, and is equal for logs of equal content only."""
    with untrusted.opened(log, folder) as file:
        return file.read(_FIRST_BYTES) + untrusted.digest(log, folder)


def _chosen(kept: Kept, ending: str, held: Sequence[tuple[Input, Path]], conflicts: list[str]) -> Path | None:
    """The one file of those that several records have beside them: of a ledger's samples, and of a search, that of a
    record which holds what is kept; of others that of the latest. None where it belongs to nothing that is kept."""
    key = _measured(ending)
    owners = kept.of.get(key, ()) if key else ()
    paths = [path for one, path in held if one in owners] if owners else []
    if not owners:
        paths = [path for one, path in held if one in kept.latest] or [path for _, path in held]
    if not paths:
        return None
    first, *others = paths
    if first.name.endswith(files.SAMPLES_SUFFIX) or f".{first.name}" == files.SAMPLES_SUFFIX:
        per_sample.read(first, _folder(first, ending))  # raises if it is damaged
    if others:
        content = untrusted.digest(first, _folder(first, ending))
        conflicts += [
            f"{first} and {other} differ. Take the one that does not belong to the records out of its folder."
            for other in others
            if untrusted.digest(other, _folder(other, ending)) != content
        ]
    return first


def _measured(ending: str) -> Key | None:
    """The key of the measurement that a file belongs to; None of a file that belongs to the whole record."""
    if ending == files.SAMPLES_SUFFIX:
        return ("accuracy",)
    return ("search",) if ending.startswith(_SEARCH) else None


def _folder(path: Path, ending: str) -> Path:
    """The folder that holds the record to which a file with this ending belongs."""
    return path.parents[len(Path(f"_{ending}").parts) - 1]
