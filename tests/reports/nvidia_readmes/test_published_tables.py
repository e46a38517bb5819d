"""Records give the published tables. tests/golden holds the names and positions of columns and settings."""

import csv
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests import sample_records
from tests.helpers import as_markdown, cells, present
from tritonproof.formats import all_formats
from tritonproof.models import all_models
from tritonproof.record import Record, setup
from tritonproof.reports import nvidia_readmes
from tritonproof.reports.nvidia_readmes import NvidiaRow, nvidia_column, nvidia_names, served_as
from tritonproof.reports.publishable import publishable
from tritonproof.reports.tables.case import configuration_list, parameters_table
from tritonproof.reports.tables.points import points_table

MODELS = ("resnet50", "nnunet", "resnet50-tf", "bert-dist4l", "fastpitch")

SHOWN_ACCELERATORS = {"trt": "TensorRT", "cuda": "CUDA", None: "-"}


def published_tables(model: str) -> list[list[NvidiaRow]]:
    """The rows of each table of a source."""
    tables: dict[int, list[NvidiaRow]] = {}
    for row in nvidia_readmes.rows():
        if row["model"] == model:
            tables.setdefault(row["table"], []).append(row)
    return list(tables.values())


def measured(rows: list[NvidiaRow]) -> Record:
    """A record of the figures in a published table, with its points in reverse order."""
    row = rows[0]
    format_, accelerator, precision = served_as(row)
    model_format = next(entry for entry in all_formats() if entry.name == format_)
    model = next(entry for entry in all_models() if entry.name == row["model"])
    inputs = {tensor.name: tensor.shape for tensor in model.inputs}
    changes: dict[str, Any] = {}
    if row["score_percent"]:
        score = sample_records.score(metric=row["metric"], served=row["score_percent"] / 100, limits=())
        changes = {"accuracy": sample_records.accuracy(score)}
    sizes = tuple(map(int, (row["preferred_batch_sizes"] or "").split()))
    return sample_records.record(
        case=setup.CaseKey(row["gpu"], row["model"], present(format_), accelerator, present(precision)),
        build=setup.Build("0f3c", "checkpoint", 1.0, 1.0, model_format.label, model_format.library, inputs),
        deployment=setup.Deployment(
            row["max_batch_size"], row["instances"], sizes, row["max_queue_delay_us"] or 0, False, True
        ),
        points=tuple(sample_records.published(entry) for entry in reversed(rows)),
        **changes,
    )


@pytest.mark.parametrize("model", MODELS)
def test_published_tables_are_reproduced_from_records(model: str) -> None:
    tables = published_tables(model)
    assert len(tables) == {"resnet50": 8, "resnet50-tf": 8}.get(model, 16)
    for rows in tables:
        shown = points_table(publishable(measured(rows)), rows[0]["scenario"])
        header, *lines = cells(as_markdown(shown))
        columns = [nvidia_column(name) for name in header]
        numbers = {name for name, kind in nvidia_readmes.TYPES.items() if kind is float}
        quantities = numbers - {"score_percent"}
        assert {name for name in quantities if rows[0][name] is not None} == quantities & {*columns}
        assert len(lines) == len(rows)
        for row, line in zip(rows, lines, strict=True):
            for column, cell in zip(columns, line, strict=True):
                if column == "precision":
                    assert cell == row[column].upper()
                elif column == "accelerator":
                    assert cell == SHOWN_ACCELERATORS[row[column]]
                else:
                    assert float(cell) == row[column], (rows[0]["table"], column)


def bullet_list(record: Record, scenario: str) -> dict[str, str]:
    lines = as_markdown(configuration_list(publishable(record), scenario)).splitlines()
    return {name: value for name, _, value in (line.removeprefix("- ").partition(": ") for line in lines)}


@pytest.mark.parametrize("model", [model for model in MODELS if model != "bert-dist4l"])
def test_settings_have_published_values(model: str) -> None:
    for rows in published_tables(model):
        row, record = rows[0], measured(rows)
        parameters = dict(cells(as_markdown(parameters_table(publishable(record), "online"))))
        assert parameters["Max Batch Size"] == str(row["max_batch_size"])
        assert parameters["Number of model instances"] == str(row["instances"])
        assert parameters["Triton Max Queue Delay"] == f"{row['max_queue_delay_us']} µs"
        assert parameters["Triton Preferred Batch Sizes"] == row["preferred_batch_sizes"]
        bullets = bullet_list(record, row["scenario"]) | parameters
        accelerator = bullets.get("Backend accelerator", bullets.get("Backend Accelerator", "TensorRT"))
        assert accelerator == SHOWN_ACCELERATORS[row["accelerator"]]
        assert bullets["Precision"] == row["precision"].upper()


def test_bert_settings_are_one_table() -> None:
    for rows in published_tables("bert-dist4l"):
        row, record = rows[0], measured(rows)
        values = dict(cells(as_markdown(parameters_table(publishable(record), "offline"))))
        assert ("NVIDIA TensorRT Capture CUDA Graph" in values) == (row["format"] == "trt")
        assert values["Max Seq Length"] == str(row["sequence_length"])
        assert values["SQuAD v1.1 F1 Score"] == f"{row['score_percent']:.2f}"
        assert values["Max batch size"] == str(row["max_batch_size"])
        assert values["Accelerator Precision"] == (row["accelerator_precision"] or "-").upper()
        assert values.get("NVIDIA TensorRT Capture CUDA Graph", "Disabled") == "Disabled"
        assert "Precision" not in bullet_list(record, "offline")


def test_frozen_files_are_unchanged() -> None:
    """As when every row was compared with the READMEs, digit by digit, by the tests below."""
    digest = hashlib.sha256()
    for path in sorted(nvidia_readmes.FOLDER.rglob("*.csv")):
        digest.update(path.read_bytes())
    assert digest.hexdigest() == "e638b90be918ba16e5ee54a236f5006528343267218bde2cf8a26d5cd9b4251d"


WHY = "needs the published READMEs: set TRITONPROOF_SEEDS to their folder"
needs_seeds = pytest.mark.skipif("TRITONPROOF_SEEDS" not in os.environ, reason=WHY)
FOLDERS = {
    "resnet50": "PyTorch/Classification/ConvNets",
    "nnunet": "PyTorch/Segmentation/nnUNet",
    "resnet50-tf": "TensorFlow/Classification/ConvNets",
    "bert-dist4l": "triton/dist4l",
    "fastpitch": "PyTorch/SpeechSynthesis/FastPitch",
}
"""A path that, of all published READMEs, only this model's names."""


@needs_seeds
@pytest.mark.parametrize("model", MODELS)
def test_headers_and_rows_match_seed_readmes(model: str) -> None:
    texts = [path.read_text() for path in Path(os.environ["TRITONPROOF_SEEDS"]).glob("*.txt")]
    (text,) = (text for text in texts if FOLDERS[model] in text)
    source = f" {' '.join(text.replace('|', ' ').split())} "  # without the bars of its tables
    scenarios = [rows[0]["scenario"] for rows in published_tables(model)]
    headers = {scenario: nvidia_names(model, scenario)["columns"] for scenario in scenarios}
    for scenario, header in headers.items():
        assert source.count(f" {' '.join(header)} ") == scenarios.count(scenario), scenario
    with (nvidia_readmes.FOLDER / f"{model}.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            shown = SHOWN_ACCELERATORS[row["accelerator"] or None]
            printed = row | {"precision": row["precision"].upper(), "accelerator": shown}
            cells = [printed[nvidia_column(name)] for name in headers[row["scenario"]]]
            assert f" {' '.join(cells)} " in source, row
