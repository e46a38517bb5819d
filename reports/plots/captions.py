"""The text around every plot: hardware and versions below it, and the meaning of its marks."""

from collections.abc import Iterable, Mapping, Sequence

from reports.record.schema import MARKS, Load, Machine, Record
from reports.text.labels import confidence_levels, days_text, letter
from reports.text.publishable import Publishable, name_of

#: The plots show intervals, so a wide one needs no mark.
SHOWN_ANYWAY = {"wide-interval"}


def caption(records: Sequence[Record]) -> str:
    """Hardware, server, versions and date; several machines are set apart by a semicolon."""
    machines = dict.fromkeys(machine_text(record.machine) for record in records)
    servers = dict.fromkeys(
        f"Triton {s.triton} ({s.kind}, {s.backend} backend)" for r in records if (s := r.serving) is not None
    )
    versions = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in record.machine.versions.items())
        for record in records
    )
    days = days_text(record.updated for record in records)
    measured = f"measured {days}" if days else ""
    parts = ("; ".join(machines), "; ".join(servers), "; ".join(filter(None, versions)), measured)
    return " · ".join(part for part in parts if part)


def machine_text(machine: Machine) -> str:
    """GPU with driver where there is one, CPU, cores, memory and system; which of several GPUs it was is in the tables."""
    gpu = f"{machine.gpu} (driver {machine.gpu_driver}), " if machine.gpu else ""
    return f"{gpu}{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.system}"


def is_marked(load: Load) -> bool:
    """Whether a point is drawn hollow."""
    return bool(_codes(load))


def mark_notes(loads: Iterable[tuple[str, Load]], sign: str) -> list[str]:
    """A line for each kind of mark, with the names of the points that have it."""
    found: dict[str, list[str]] = {}
    for name, load in loads:
        for code in _codes(load):
            found.setdefault(code, []).append(name)
    return [f"{sign}, {', '.join(names)}: {MARKS.get(code, code)}." for code, names in found.items()]


def letters(loads: Iterable[Load]) -> dict[str, str]:
    """A letter for each kind of mark that any of the points has."""
    codes = dict.fromkeys(code for load in loads for code in throughput_codes(load))
    return {code: letter(place) for place, code in enumerate(codes)}


def letters_note(found: Mapping[str, str]) -> list[str]:
    """The note that explains the letters."""
    said = "; ".join(f"({one}) {MARKS.get(code, code)}" for code, one in found.items())
    return [f"Hollow: {said}."] if found else []


def throughput_codes(load: Load) -> list[str]:
    """The marks that matter where no latency is shown."""
    return [code for code in _codes(load) if code != "few-requests"]


def intervals_note(records: Sequence[Publishable]) -> str:
    """The note that explains the error bars."""
    loads = [load for record in records for load in record.loads]
    return f"Error bars: {confidence_levels(loads)} confidence intervals."


def open_intervals_note(loads: Sequence[Load]) -> list[str]:
    """What the arrows on error bars of latencies are, where there are any."""
    is_open = any(one.open_above for load in loads for one in load.latency_ms.values())
    return ["Arrow: open above, the requests are too few for an upper end."] if is_open else []


def subtitle(records: Sequence[Record]) -> str:
    """The name of a single case, or how many cases there are."""
    return name_of(records[0]) if len(records) == 1 else f"{len(records)} cases"


def _codes(load: Load) -> list[str]:
    return [mark.code for mark in load.marks if mark.code not in SHOWN_ANYWAY]
