"""What the tables of a published README say, as tidy rows: `python -m reports.published.parse README...`.

The rows go to `reports/published/<model>.csv`, the names of settings and columns to `names/`. Numbers stay as published, digit by digit. What the sources get
wrong, and what is done about it, is in `reports/published/README.md`.
"""

import argparse
import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.commands import INPUT
from reports.published import COLUMNS, FOLDER
from reports.published.layout import ParseError, PublishedTable, TableRow, sections
from reports.published.names import FOLDER as NAMES
from reports.published.names import NAME_COLUMNS, names_of_sections
from reports.record import untrusted
from reports.record.files import replace


@dataclass(frozen=True)
class Document:
    """A README that was published with NVIDIA's DeepLearningExamples."""

    model: str
    """What the model is called here."""
    title: str
    folder: str
    """A path that its commands name: titles alone do not tell the variants of one network apart."""


DOCUMENTS = tuple(
    Document(model, f"Deploying the {name} model on Triton Inference Server", folder)
    for model, name, folder in (
        ("resnet50", "ResNet50 v1.5", "PyTorch/Classification/ConvNets"),
        ("nnunet", "nnUNet", "PyTorch/Segmentation/nnUNet"),
        ("resnet50-tf", "ResNet-50 v1.5", "TensorFlow/Classification/ConvNets"),
        ("bert-dist4l", "BERT", "triton/dist4l"),
        ("fastpitch", "FastPitch", "PyTorch/SpeechSynthesis/FastPitch"),
    )
)

_HEADING = re.compile(r"([^,]+?)(?:, .+?)? with (FP16|FP32)(?:, .+)?")
_GPU = re.compile(r"\b(A30|A40|A100|V100|T4)\b")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WHOLE = re.compile(r"(\d+)(?:\.0)?")

#: Sections whose GPU bullet contradicts their heading, by model, scenario and heading; the heading is right.
_WRONG_GPU_BULLETS = {("resnet50-tf", "offline", "v100")}

_FORMATS = {
    "onnx": "onnx",
    "nvidia tensorrt": "trt",
    "torchscript trace": "ts-trace",
    "torchscript script": "ts-script",
    "tensorflow savedmodel": "tf-savedmodel",
}
_ACCELERATORS = {"tensorrt": "trt", "nvidia tensorrt": "trt", "cuda": "cuda", "-": "", "": ""}


def rows(text: str, file: str) -> tuple[str, list[dict[str, str]]]:
    """The model that the README `text` is about, and its rows: every column of COLUMNS, empty where not published.

    ParseError names `file` and the line.
    """
    document = _document(text, file)
    found = []
    tables = sections(text, file)
    _same_points(tables, file)
    for table, section in enumerate(tables, 1):
        common = _common(section, document, file) | {"source": document.title, "table": str(table)}
        found += [_row(row, section, common, file) for row in section.rows]
    if not found:
        raise ParseError(f"{file}:1: no section such as 'Offline: NVIDIA A40 with FP16' in this file")
    return document.model, found


def names(text: str, file: str) -> tuple[str, list[dict[str, str]]]:
    """The model that the README `text` is about, and what its tables call settings and columns; see NAMES."""
    return _document(text, file).model, names_of_sections(sections(text, file), file)


def _same_points(found: Sequence[PublishedTable], file: str) -> None:
    """Every table of a scenario covers the same load points in the sources; one that does not was cut short."""
    first: dict[str, list[tuple[str, str]]] = {}
    for section in found:
        points = [(row.cells.get("batch", ""), row.cells.get("concurrency", "")) for row in section.rows]
        if points != first.setdefault(section.scenario, points):
            raise ParseError(
                f"{file}:{section.rows[-1].line}: the table that ends here has {len(points)} load points, which are "
                f"not the {len(first[section.scenario])} of the first {section.scenario} table"
            )


def as_csv(table: Sequence[dict[str, str]], columns: Iterable[str] = COLUMNS) -> str:
    """Rows of text as CSV with these columns."""
    target = io.StringIO()
    writer = csv.DictWriter(target, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return target.getvalue()


Reader = Callable[[str, str], tuple[str, list[dict[str, str]]]]
"""A README's text and file name to its model and what was wanted of it: `rows` or `names`."""


def read(paths: Sequence[Path], wanted: Reader = rows) -> dict[str, list[dict[str, str]]]:
    """What is wanted of READMEs, and of all text files in folders, by model."""
    found: dict[str, list[dict[str, str]]] = {}
    for path in _files(paths):
        try:
            model, table = wanted(untrusted.given(path).decode(), str(path))
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise ParseError(f"{path}:{line}: not UTF-8 text") from error
        if model in found:
            raise ParseError(f"{path}:1: a second README of {model}")
        found[model] = table
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the CSV of every README that is given; returns the exit status, 4 for an error."""
    parser = argparse.ArgumentParser(prog="python -m reports.published.parse", description=__doc__)
    parser.add_argument("readme", type=Path, nargs="+", help="a README, or a folder of them as *.txt or *.md")
    parser.add_argument(
        "--output", type=Path, default=FOLDER, metavar="DIR", help="default: beside this module"
    )
    options = parser.parse_args(arguments)
    try:
        tables, called = read(options.readme), read(options.readme, names)
        for model, table in tables.items():
            path = options.output / f"{model}.csv"
            replace(path, as_csv(table).encode())
            replace(options.output / NAMES.name / path.name, as_csv(called[model], NAME_COLUMNS).encode())
            print(f"{path}: {len({row['table'] for row in table})} tables, {len(table)} rows")
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return INPUT
    except ParseError as error:
        print(f"error: {error}", file=sys.stderr)
        return INPUT
    return 0


def _files(paths: Sequence[Path]) -> list[Path]:
    return [
        file
        for path in paths
        for file in (sorted([*path.glob("*.txt"), *path.glob("*.md")]) if path.is_dir() else [path])
    ]


def _document(text: str, file: str) -> Document:
    titles = {line.removeprefix("# ").strip() for line in text.split("\n")}
    for document in DOCUMENTS:
        if document.title in titles and document.folder in text:
            return document
    known = "; ".join(f"'{d.title}' that names {d.folder}" for d in DOCUMENTS)
    raise ParseError(f"{file}:1: not one of the READMEs this parser knows, which are {known}")


def _common(section: PublishedTable, document: Document, file: str) -> dict[str, str]:
    """What all rows of a section share."""
    where = f"{file}:{section.line}"
    heading = _HEADING.fullmatch(section.heading)
    if heading is None:
        raise ParseError(f"{where}: this heading names no GPU and precision: {section.heading!r}")
    label, precision = heading[1], heading[2].lower()
    gpu = _gpu(label, where)
    settings = section.settings
    known_slip = (document.model, section.scenario, gpu) in _WRONG_GPU_BULLETS
    if _gpu(settings.get("gpu", label), where) != gpu and not known_slip:
        raise ParseError(f"{where}: the heading's GPU is {label!r}, its bullet's {settings['gpu']!r}")
    if settings.get("precision", precision).lower() != precision:
        raise ParseError(
            f"{where}: the heading's precision is {precision}, its bullet's {settings['precision']!r}"
        )
    score = settings.get("squad v1.1 f1 score", "")
    return {
        "model": document.model,
        "gpu": gpu,
        "gpu_label": label,
        "scenario": section.scenario,
        "format": _format(settings, where),
        "accelerator": _accelerator(settings, where),
        "precision": precision,
        "accelerator_precision": settings.get("accelerator precision", "").lower().strip("-"),
        "max_batch_size": _whole(settings, "max batch size", where),
        "instances": _whole(settings, "number of model instances", where),
        "max_queue_delay_us": _whole(settings, "triton max queue delay", where),
        "preferred_batch_sizes": settings.get("triton preferred batch sizes", ""),
        "cuda_graphs": _cuda_graphs(settings, where),
        "sequence_length": _whole(settings, "max seq length", where),
        "metric": "F1" if score else "",
        "score_percent": score,
    }


def _row(row: TableRow, section: PublishedTable, common: dict[str, str], file: str) -> dict[str, str]:
    """One row, checked against what its section says.

    Neither the offline tables without a concurrency nor the online tables without a batch leave it open: one request
    is in flight offline, and online requests are of batch 1, as throughput times latency shows.
    """
    where = f"{file}:{row.line}"
    cells = dict(row.cells)
    precision = cells.pop("precision", common["precision"]).lower()
    if precision != common["precision"]:
        raise ParseError(f"{where}: precision {precision} in a table of {common['precision']}")
    accelerator = cells.pop("accelerator", None)
    if accelerator is not None and _ACCELERATORS.get(accelerator.lower()) != common["accelerator"]:
        raise ParseError(f"{where}: accelerator {accelerator!r} in a table of {common['accelerator']!r}")
    for column, cell in cells.items():
        pattern = _WHOLE if COLUMNS[column] == "Int64" else _NUMBER
        if not pattern.fullmatch(cell):
            raise ParseError(f"{where}: {column} is {cell!r}, which is not a number of its kind")
    missing = {"batch", "concurrency"} - cells.keys()
    if missing - {"concurrency" if section.scenario == "offline" else "batch"}:
        raise ParseError(f"{where}: the {section.scenario} table lacks {' and '.join(sorted(missing))}")
    return dict.fromkeys(COLUMNS, "") | common | dict.fromkeys(missing, "1") | cells


def _gpu(label: str, where: str) -> str:
    names = _GPU.findall(label)
    if len(set(names)) != 1:
        raise ParseError(f"{where}: {label!r} names no GPU that is known here")
    return names[0].lower()


def _format(settings: dict[str, str], where: str) -> str:
    """The mnemonic: the model format, and what else is said about the way there."""
    if settings.get("model binding") == "TF-TRT":
        return "tf-trt"
    text = f"{settings.get('model format', '')} {settings.get('conversion variant', '')}".strip().lower()
    if text not in _FORMATS:
        raise ParseError(f"{where}: unknown model format {text!r}")
    return _FORMATS[text]


def _accelerator(settings: dict[str, str], where: str) -> str:
    """`trt`, `cuda` or nothing. TF-TRT is the binding of TensorRT: its offline tables say so in a column."""
    text = (
        "tensorrt" if settings.get("model binding") == "TF-TRT" else settings.get("backend accelerator", "")
    )
    if text.lower() not in _ACCELERATORS:
        raise ParseError(f"{where}: unknown accelerator {text!r}")
    return _ACCELERATORS[text.lower()]


def _whole(settings: dict[str, str], name: str, where: str) -> str:
    """A setting that is a whole number; some sources print 128 as 128.0."""
    if name not in settings:
        return ""
    whole = _WHOLE.fullmatch(settings[name])
    if whole is None:
        raise ParseError(f"{where}: {name} is {settings[name]!r}, which is not a whole number")
    return whole[1]


def _cuda_graphs(settings: dict[str, str], where: str) -> str:
    text = settings.get("nvidia tensorrt capture cuda graph", "")
    known = {"": "", "Disabled": "False", "Enabled": "True"}
    if text not in known:
        raise ParseError(f"{where}: CUDA graphs are {text!r}, neither Enabled nor Disabled")
    return known[text]


if __name__ == "__main__":
    sys.exit(main())
