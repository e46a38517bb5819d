"""Words that all outputs share: names of load points, devices, formats, times, origins; counts, sentences."""

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from string import ascii_lowercase
from typing import Any, TypeVar

from msgspec import structs

from tritonproof.record import Record, speed
from tritonproof.record.quantities import GIVEN_SHARE, REQUEST_RATE
from tritonproof.record.setup import REMOTE, CaseKey

# The names that a reader knows, by name. Any other name is shown as it is.
_ACCELERATORS = {"trt": "TensorRT", "cuda": "CUDA"}


def confidence_levels(results: Iterable[speed.PointResult]) -> str:
    """The confidence of the intervals: `95 %`, or `90 % or 95 %`."""
    levels = sorted({result.throughput_per_s.confidence for result in results})
    return " or ".join(map(GIVEN_SHARE.text, levels))


def point_text(point: speed.LoadPoint) -> str:
    """The load point within its scenario."""
    if point.is_at_rate:
        return schedule_text(point)
    return f"batch {point.batch}" if point.scenario == "offline" else f"concurrency {point.concurrency}"


def full_point_text(point: speed.LoadPoint) -> str:
    """The load point with its scenario: `offline, batch 8`."""
    return f"{point.scenario}, {point_text(point)}"


def schedule_text(point: speed.LoadPoint) -> str:
    return f"{REQUEST_RATE.cell(point.request_rate_per_s)}/s, {point.arrivals}"


def server_name(version: str) -> str:
    """The server's name, by its version: Triton's is only a number."""
    return f"Triton {version}" if version[:1].isdigit() else version


def device_text(record: Record) -> str:
    several = f"{record.case.gpus} x " if record.case.gpus > 1 else ""
    return several + kind_of_device(record)


def kind_of_device(record: Record) -> str:
    """The CPU or GPU of a case, without the number of GPUs."""
    if record.machine.is_client:
        return "a remote server" if record.case.target == REMOTE else f"{record.case.target.upper()}, remote"
    if record.case.target == "cpu":
        return record.machine.cpu
    return record.machine.gpu or record.case.target.upper()


def accelerator_text(case: CaseKey) -> str:
    """The accelerator in the case's name, as a reader knows it; may be empty."""
    return _ACCELERATORS.get(case.accelerator, case.accelerator) if case.accelerator else ""


def format_text(record: Record) -> str:
    """The format and what it runs on, as a reader knows it: `ONNX, TensorRT, 2 GPUs`."""
    gpus = f"{record.case.gpus} GPUs" if record.case.gpus > 1 else ""
    return ", ".join(filter(None, (record.build.format, accelerator_text(record.case), gpus)))


def backend_accelerator(record: Record) -> str:
    """The accelerator as in published tables, or the format's: PyTorch's CUDA, TF-TRT's TensorRT."""
    if record.case.accelerator is None and record.case.target not in ("cpu", REMOTE):
        if record.case.format == "tf-trt":
            return _ACCELERATORS["trt"]
        if record.build.library == "PyTorch":
            return _ACCELERATORS["cuda"]
    return accelerator_text(record.case) or "-"


def sequence_length(record: Record) -> str:
    """The length of the model's first input, if that is a sequence."""
    shape = next(iter(record.build.inputs.values()), ())
    return str(shape[0]) if len(shape) == 1 else "-"


def setting_text(value: Any) -> str:
    """A setting as text: `on` or `off`, parts joined by spaces, or `none`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, int | str) else " ".join(map(str, value or ())) or "none"


def setup_facts(record: Record) -> Mapping[str, Any]:
    """The settings of case, machine, server, deployment and build by their names: `versions.torch`."""
    machine = structs.asdict(record.machine)
    serving = structs.asdict(record.serving) if record.serving else {}
    build = {name: getattr(record.build, name) for name in ("weights_source", "format", "library")}
    parts: dict[str, Mapping[str, Any]] = {
        "case": structs.asdict(record.case),
        "versions": machine.pop("versions"),
        "machine": machine,
        "serving.versions": serving.pop("versions", {}),
        "serving": serving,
        "deployment": structs.asdict(record.deployment),
        "build": {"digest": record.build.digest[:12], **build},  # its time and size are results
    }
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def counted(number: int, noun: str) -> str:
    """`1 run`, `1,200 runs`, for a noun with a plural in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def letter(index: int) -> str:
    """The name of a note: a, b ... z, aa, ab ..."""
    quotient, last = divmod(index, len(ascii_lowercase))
    return (letter(quotient - 1) if quotient else "") + ascii_lowercase[last]


def days_text(times: Iterable[str]) -> str:
    """The days of times in ISO 8601: `2026-03-04 to 2026-03-06`, or a single day; empty without any."""
    days = sorted({time[:10] for time in times} - {""})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def measured_text(records: Sequence[Record]) -> str:
    """`on node7, node8; commit c0ffee000000 (changed); run began 2026-11-22 07:25 UTC`, as far as known."""
    values = [getattr(record, name) for record in records for name in record.__struct_fields__]
    results = itertools.chain(*(value if isinstance(value, tuple) else (value,) for value in values))
    origins_found = {result.origin for result in results if getattr(result, "origin", None)}
    origins = sorted(origins_found, key=attrgetter("started", "run", "host", "gpu_uuids"))
    commits = [(origin.commit[:12], origin.clean) for origin in origins if origin.commit]
    facts = {
        "on": [origin.host for origin in origins],
        "commit": [commit if is_clean else f"{commit} (changed)" for commit, is_clean in commits],
        "run began": [f"{origin.started[:16].replace('T', ' ')} UTC" for origin in origins],
    }
    distinct = {name: list(dict.fromkeys(filter(None, values))) for name, values in facts.items()}
    return "; ".join(f"{name} {first_of(values, 4)}" for name, values in distinct.items() if values)


def first_of(values: Sequence[str], most: int, count: int | None = None) -> str:
    """The first `most` of the values, and how many of `count` are left: `a, b and 3 more`."""
    left = (len(values) if count is None else count) - most
    return ", ".join(values[:most]) + (f" and {left} more" if left > 0 else "")


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop; empty stays empty."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}." if text else ""


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def grouped(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    """Lists of the values by `key`. Keys and values stay in the order in which they come."""
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def swept_text(point: speed.LoadPoint) -> str:
    """What a sweep changes from the point to the next: `concurrency`, `poisson rate, client batch 8`."""
    swept = f"{point.arrivals} rate" if point.is_at_rate else "concurrency"
    return swept if point.batch == 1 else f"{swept}, client batch {point.batch}"


def short_name(case: CaseKey) -> str:
    """The format, accelerator, precision and number of GPUs, if a title has the rest."""
    return str(case).removeprefix(f"{case.target}-{case.model}-")
