"""The figures NVIDIA published for its Triton deployments, as data, and the records to compare with them.

A CSV per model has a line per table row; `names/<model>.csv` names the settings and columns in order."""

import csv
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from tritonproof.record import Record, fields, setup
from tritonproof.record.quantities import SCORE
from tritonproof.record.speed import COMPONENTS, LoadPoint, PointResult
from tritonproof.reports import correctness_text, phrases

FOLDER = Path(__file__).parent
_INTEGERS = ("max_batch_size", "instances", "max_queue_delay_us", "sequence_length", "batch", "concurrency")
_LATENCIES = ("p50", "p90", "p95", "p99", "avg")
TYPES: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys((*_INTEGERS, "table"), int),
    "cuda_graphs": lambda cell: cell == "True",
    **dict.fromkeys(("score_percent", "throughput_per_s", *(f"{name}_ms" for name in COMPONENTS)), float),
    **dict.fromkeys((f"latency_{name}_ms" for name in _LATENCIES), float),
}
"""The parsers of the columns that are no text. A cell is empty where the source has no such figure."""
NvidiaRow = Mapping[str, Any]
"""A published row by column; None where the source does not publish the quantity."""


@functools.cache
def rows() -> Sequence[NvidiaRow]:
    """Every published row, ordered by model and then as in its source."""
    return [
        {name: TYPES.get(name, str)(cell) if cell else None for name, cell in row.items()}
        for path in sorted(FOLDER.glob("*.csv"))
        for row in _lines_of(path)
    ]


def _lines_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


_PRINTED = {
    "precision": "precision",
    "backend accelerator": "accelerator",
    "sequence length": "sequence_length",
    "client batch size": "batch",
    "batch": "batch",
    "concurrent client requests": "concurrency",
    "concurrency": "concurrency",
    "inferences/second": "throughput_per_s",
    "network+server send/recv": "network_server_send_recv_ms",
    **{name.replace("_", " "): f"{name}_ms" for name in COMPONENTS},
    **{f"{name} latency": f"latency_{name}_ms" for name in _LATENCIES},
}
"""The names of columns by those in print, in lower case and without `(ms)`."""


@functools.cache
def nvidia_names(model: str, scenario: str) -> Mapping[str, tuple[str, ...]]:
    """The names that a model's tables print, in their order: the `columns`; the `parameters`, settings that
    all tables of the scenario share, unless each table lists all of its own; and the `configuration`,
    settings beside each table, some only where they apply. A micro model uses the names of its full size, an
    unpublished model ResNet50's, and an unpublished scenario those of the model's other scenario."""
    path = FOLDER / "names" / f"{model.removesuffix('-micro')}.csv"
    if not path.exists():
        path = FOLDER / "names" / "resnet50.csv"
    lines = _lines_of(path)
    chosen = [line for line in lines if line["scenario"] == scenario] or lines
    parts = ("parameters", "configuration", "columns")
    return {part: tuple(line["name"] for line in chosen if line["part"] == part) for part in parts}


def nvidia_column(name: str) -> str:
    """The name of the column printed as `name`; KeyError if there is none."""
    return _PRINTED[name.lower().removesuffix("(ms)").strip()]


def nvidia_settings(record: Record, scenario: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """The names and values of those settings in `names`, which `nvidia_names` gives, that apply to the case.
    A value leaves out what the value of another name says. Add a line here for a new name."""
    case, build, deployment = record.case, record.build, record.deployment
    listed = {name.lower() for name in names}
    joins_requests = scenario == "online" or case.from_repository
    is_tf_trt = case.format == "tf-trt"
    is_bound = is_tf_trt and "model binding" in listed
    variant = {"ts-trace": "Trace", "ts-script": "Script"}.get(case.format, "")
    saved = "TorchScript" if variant and "conversion variant" in listed else build.format
    is_in_python = record.serving is not None and record.serving.backend == "python"
    shape = next(iter(build.inputs.values()), ())
    score = record.main_score
    graphs = "Enabled" if deployment.cuda_graphs else "Disabled"
    sizes = " ".join(map(str, deployment.preferred_batch_sizes)) or "none"
    values = {
        "gpu": phrases.device_text(record),
        "backend": ("TensorFlow" if is_bound else build.library)
        + (", in Triton's Python backend" if is_in_python else ""),
        "backend accelerator": phrases.backend_accelerator(record),
        "accelerator precision": case.precision.upper() if case.accelerator == "trt" else "-",
        "precision": case.precision.upper(),
        "model binding": "TF-TRT" if is_tf_trt else "",
        "model format": "TensorFlow SavedModel" if is_bound else saved,
        "conversion variant": variant,
        "image resolution": "x".join(map(str, shape)) if len(shape) > 1 else "-",
        "max batch size": str(deployment.max_batch_size),
        "max seq length": phrases.sequence_length(record),
        "number of model instances": str(deployment.instances),
        "nvidia tensorrt capture cuda graph": graphs if case.format == "trt" else "",
        "squad v1.1 f1 score": SCORE.cell(score.served) if score else correctness_text.missing_score(record),
        "triton max queue delay": f"{deployment.max_queue_delay_us} µs" if joins_requests else "-",
        "triton preferred batch sizes": sizes if joins_requests else "-",
    }
    of_target = {"cpu": "CPU", setup.REMOTE: "Hardware"}
    own_names = {"GPU": of_target.get(case.target, "GPU")}  # a name has to be true of this case
    if case.model.endswith("-micro"):
        own_names["SQuAD v1.1 F1 Score"] = "F1 Score"  # on data of its own
    return [(own_names.get(name, name), value) for name in names if (value := values[name.lower()])]


# Accelerators that the format implies: NVIDIA lists them beside it, and the name of a case leaves them out.
_IMPLIED = {"ts-trace": "cuda", "ts-script": "cuda", "tf-trt": "trt"}


def nvidia_rows(record: Record) -> list[NvidiaRow]:
    """The published rows of the record's model, format, accelerator and precision: those of its GPU if there
    are any, else of every published GPU."""
    if not _is_of_whole_device(record):
        return []
    case, served = record.case, served_as(structs.asdict(record.case))
    alike = [row for row in rows() if row["model"] == case.model and served_as(row) == served]
    return [row for row in alike if row["gpu"] == case.target] or alike


def why_no_nvidia_rows(record: Record) -> str | None:
    """The reason why the record has no published rows, a sentence; None if it has some."""
    if not _is_of_whole_device(record):
        return f"It was measured on {phrases.device_text(record)}; NVIDIA's figures are of one whole GPU."
    served = " ".join(filter(None, served_as(structs.asdict(record.case))))
    return None if nvidia_rows(record) else f"NVIDIA published no figures of {record.case.model} as {served}."


def _is_of_whole_device(record: Record) -> bool:
    """Whether the record is neither of several GPUs nor of a slice of one. A slice may have its GPU's target,
    so the driver's name for it counts too."""
    is_slice = record.case.target == "mig" or re.search(r"\bMIG\b", record.machine.gpu or "")
    return record.case.gpus == 1 and not is_slice


def served_as(case: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Format, accelerator unless the format implies it, and precision, of a published row or a case."""
    format_, accelerator = case["format"], case["accelerator"]
    return format_, None if accelerator == _IMPLIED.get(format_) else accelerator, case["precision"]


def nvidia_point(row: NvidiaRow) -> LoadPoint:
    return LoadPoint(row["scenario"], row["batch"], row["concurrency"])


def nvidia_ratio(record: Record, result: PointResult) -> fields.Ratio | None:
    """The throughput over that published for the same GPU, format, precision and load point, or None."""
    row_of = {nvidia_point(row): row for row in nvidia_rows(record) if row["gpu"] == record.case.target}
    return ratio_to_nvidia(result.throughput_per_s, row_of.get(result.point, {}).get("throughput_per_s"))


def ratio_to_nvidia(measured: fields.Estimate | None, published: float | None) -> fields.Ratio | None:
    """A measured figure over a published one. NVIDIA gives no interval: the ratio has the measured one."""
    if measured is None or not published:
        return None
    bounds = (measured.value / published, measured.low / published, measured.high / published)
    return fields.Ratio(*bounds, measured.confidence, open_above=measured.open_above)
