"""What load points, devices and settings are called, and the cells of a load point: one way for all tables."""

from collections.abc import Iterable
from string import ascii_lowercase

from reports.record.quantities import GIVEN_SHARE, LATENCY, REQUEST_RATE, THROUGHPUT
from reports.record.schema import Case, Load, LoadSetting, Record

# The names a reader knows, by mnemonic. One that is not here is shown as it is.
_ACCELERATORS = {"trt": "TensorRT", "cuda": "CUDA"}


def latency(load: Load, name: str) -> str:
    """A latency of a load point in milliseconds, for a cell: avg, p50, p90, p95 or p99."""
    estimate = load.latency_ms.get(name)
    return LATENCY.cell(estimate.value if estimate else None)


def marked_throughput(load: Load) -> str:
    """The throughput of a load point for a cell, with a star where it has marks."""
    return THROUGHPUT.cell(load.throughput_per_s.value) + ("*" if load.marks else "")


def confidence_levels(loads: Iterable[Load]) -> str:
    """`95 %`, or `90 % or 95 %`: the confidence of the intervals."""
    return " or ".join(map(GIVEN_SHARE.text, sorted({load.throughput_per_s.confidence for load in loads})))


def point(load: LoadSetting) -> str:
    """What a load point is called within its scenario."""
    if load.request_rate_per_s is not None:
        return schedule(load)
    return size(load.scenario, load.batch, load.concurrency)


def full_point(load: LoadSetting) -> str:
    """The load point with its scenario: `offline, batch 8`."""
    return f"{load.scenario}, {point(load)}"


def size(scenario: str, batch: int, concurrency: int) -> str:
    """The batch offline, the concurrency online."""
    return f"batch {batch}" if scenario == "offline" else f"concurrency {concurrency}"


def schedule(load: LoadSetting) -> str:
    """The request rate, and how requests arrive."""
    return f"{REQUEST_RATE.cell(load.request_rate_per_s)}/s, {load.arrivals}"


def device(record: Record) -> str:
    """The CPU or GPU that the case was measured on, with their number where it is several."""
    name = kind_of_device(record)
    return f"{record.case.gpus} x {name}" if record.case.gpus > 1 else name


def kind_of_device(record: Record) -> str:
    """The name of the CPU or GPU that the case was measured on, without their number."""
    if record.case.target == "cpu":
        return record.machine.cpu
    return record.machine.gpu or record.case.target.upper()


def several_gpus(case: Case) -> str:
    """`2 GPUs`; empty for one, which goes without saying."""
    return f"{case.gpus} GPUs" if case.gpus > 1 else ""


def accelerator(case: Case) -> str:
    """The accelerator that the case's name says, as a reader knows it; empty where it says none."""
    return _ACCELERATORS.get(case.accelerator, case.accelerator) if case.accelerator else ""


def format_text(record: Record) -> str:
    """What a case was converted to and runs on, as a reader knows it: `ONNX, TensorRT, 2 GPUs`."""
    parts = (record.build.format, accelerator(record.case), several_gpus(record.case))
    return ", ".join(filter(None, parts))


def backend_accelerator(record: Record) -> str:
    """The accelerator as published tables name it: the case's own, and what its format brings: CUDA for PyTorch on a
    GPU, TensorRT for TF-TRT."""
    if record.case.accelerator is None and record.case.target != "cpu":
        if record.case.format == "tf-trt":
            return _ACCELERATORS["trt"]
        if record.build.engine == "PyTorch":
            return _ACCELERATORS["cuda"]
    return accelerator(record.case) or "-"


def sequence_length(record: Record) -> str:
    """Tokens or symbols of the model's first input, where that is a sequence."""
    shape = _first_input(record)
    return str(shape[0]) if len(shape) == 1 else "-"


def image_resolution(record: Record) -> str:
    """The shape of the model's first input, where that is an image or a volume: `4x128x128x128`."""
    shape = _first_input(record)
    return "x".join(map(str, shape)) if len(shape) > 1 else "-"


def counted(number: int, noun: str) -> str:
    """`1 run`, `1,200 runs`: a number of things by their noun, whose plural ends in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def letter(place: int) -> str:
    """The name of a note: a, b ... z, aa, ab ..."""
    more, last = divmod(place, len(ascii_lowercase))
    return (letter(more - 1) if more else "") + ascii_lowercase[last]


def _first_input(record: Record) -> tuple[int, ...]:
    return tuple(next(iter(record.build.inputs.values()), ()))
