"""Takes the names of machines out of a merged folder, so that it can be published.

It needs the standard library alone.
"""

from pathlib import Path

from reports.merge.beside import LOG_SUFFIX
from reports.record import anonymous, files, machines


def without_names(folder: Path) -> list[Path]:
    """Take hosts and UUIDs out of the records of a folder, and out of the names of files. Logs of servers, which may say
    anything, are taken out whole, and returned by their former place in the folder.

    Machines of records that stand beside others of their case are numbered, since they would be one without a name; so
    are those of parts of one record.
    """
    logs = sorted(folder.rglob(f"*{LOG_SUFFIX}"))
    for log in logs:
        log.unlink()
    paths = files.record_paths(folder)
    names = anonymous.numbered(
        machine
        for path in paths
        if len(of := machines.machines_of(files.checked(path)[1])) > 1 or files.machine_in(path)
        for machine in of
    )
    renamed = []
    for path in paths:
        record = anonymous.without_names(files.read(path), names)
        path.write_bytes(files.encode(record))
        if files.machine_in(path):
            renamed.append((path, files.path_of(record.case, folder, machines.label_of(record)).stem))
    for path, stem in renamed:
        entries = [entry for entry in path.parent.iterdir() if entry.name.startswith(f"{path.stem}.")]
        for entry in entries:
            entry.rename(entry.with_name(f".{stem}{entry.name[len(path.stem) :]}"))
    for hidden in folder.glob("*/.*"):
        hidden.rename(hidden.with_name(hidden.name[1:]))
    return [log.relative_to(folder) for log in logs]
