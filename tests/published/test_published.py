"""The published figures: the data in the repository, and the parser that makes it from the READMEs."""

import csv
import os
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from fixtures.host.targets import recognise
from reports import published
from reports.published import parse
from reports.published.layout import ParseError
from reports.record.schema import COMPONENTS

COMPONENTS_MS = [f"{name}_ms" for name in COMPONENTS]
PERCENTILES_MS = [f"latency_{name}_ms" for name in ("p50", "p90", "p95", "p99")]
POINT = ["model", "gpu", "scenario", "format", "accelerator", "precision", "batch", "concurrency"]


@pytest.fixture(scope="module")
def figures() -> pd.DataFrame:
    return published.load()


# The data.


def test_all_tables_and_rows_are_there(figures: pd.DataFrame) -> None:
    tables = figures.groupby("model")["table"]
    assert tables.nunique().to_dict() == {
        "bert-dist4l": 16,
        "fastpitch": 16,
        "nnunet": 16,
        "resnet50": 8,
        "resnet50-tf": 8,
    }
    assert tables.size().to_dict() == {
        "bert-dist4l": 48,
        "fastpitch": 160,
        "nnunet": 88,
        "resnet50": 96,
        "resnet50-tf": 96,
    }
    assert len(figures) == 488
    assert len(figures.drop_duplicates(["source", "table"])) == 64


def test_no_point_is_there_twice(figures: pd.DataFrame) -> None:
    assert not figures.duplicated(POINT).any()
    numbers = ["throughput_per_s", *COMPONENTS_MS, *PERCENTILES_MS, "latency_avg_ms"]
    assert not figures.duplicated(["model", *numbers]).any()


@pytest.mark.parametrize(
    ("model", "gpus", "precisions", "formats"),
    [
        ("resnet50", "a100 a40 t4 v100", "fp16", "onnx-trt"),
        ("nnunet", "a100 a40 t4 v100", "fp16 fp32", "ts-script-cuda"),
        ("resnet50-tf", "a100 a40 t4 v100", "fp16", "tf-trt-trt"),
        ("bert-dist4l", "a100 a30 t4 v100", "fp16", "onnx onnx-trt trt ts-trace"),
        ("fastpitch", "a100 a40 t4 v100", "fp16 fp32", "ts-trace-cuda"),
    ],
)
def test_every_gpu_has_every_format_and_precision(
    figures: pd.DataFrame, model: str, gpus: str, precisions: str, formats: str
) -> None:
    rows = figures[figures["model"] == model]
    served = rows["format"] + ("-" + rows["accelerator"]).fillna("")
    found = set(zip(rows["scenario"], rows["gpu"], rows["precision"], served, strict=True))
    scenarios = ("offline",) if model == "bert-dist4l" else ("offline", "online")
    assert found == {
        (scenario, gpu, precision, name)
        for scenario in scenarios
        for gpu in gpus.split()
        for precision in precisions.split()
        for name in formats.split()
    }


@pytest.mark.parametrize(
    ("model", "batches", "concurrencies"),
    [
        ("resnet50", [1, 2, 4, 8, 16, 32, 64, 128], range(16, 257, 16)),
        ("nnunet", [1, 2, 4], range(1, 9)),
        ("resnet50-tf", [1, 2, 4, 8, 16, 32, 64, 128], range(16, 257, 16)),
        ("bert-dist4l", [1, 8, 16], range(0)),
        ("fastpitch", [1, 2, 4, 8], range(1, 17)),
    ],
)
def test_every_table_sweeps_its_scenario(
    figures: pd.DataFrame, model: str, batches: list[int], concurrencies: range
) -> None:
    for _, rows in figures[figures["model"] == model].groupby("table"):
        points = list(zip(rows["batch"], rows["concurrency"], strict=True))
        if (rows["scenario"] == "offline").all():
            assert points == [(batch, 1) for batch in batches]
        else:
            assert points == [(1, concurrency) for concurrency in concurrencies]


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("resnet50", (128, 1, 1, "64 128")),
        ("nnunet", (4, 1, 1, "2 4")),
        ("resnet50-tf", (128, 2, 1, "64 128")),
        ("bert-dist4l", (16, 1, None, None)),
        ("fastpitch", (8, 2, 1, "4 8")),
    ],
)
def test_settings_are_those_beside_the_tables(
    figures: pd.DataFrame, model: str, settings: tuple[object, ...]
) -> None:
    columns = ["max_batch_size", "instances", "max_queue_delay_us", "preferred_batch_sizes"]
    rows = figures.loc[figures["model"] == model, columns].drop_duplicates()
    found = [
        tuple(None if pd.isna(value) else value for value in row) for row in rows.itertuples(index=False)
    ]
    assert found == [settings]


def test_gpus_are_targets_of_the_suite(figures: pd.DataFrame) -> None:
    for label, gpu in set(zip(figures["gpu_label"], figures["gpu"], strict=True)):
        assert recognise(label).name == gpu


def test_components_add_up_to_the_average(figures: pd.DataFrame) -> None:
    rows = figures.dropna(subset=COMPONENTS_MS)
    assert len(rows) == 48 + 64 + 64 + 64 + 128
    off_ms = (rows[COMPONENTS_MS].sum(axis=1) - rows["latency_avg_ms"]).abs()
    # Eight roundings of half a digit in BERT, which prints 0.1 ms; one, of six digits, in the other sources.
    limit_ms = rows["latency_avg_ms"].mul(5e-6).clip(lower=1e-9).where(rows["model"] != "bert-dist4l", 0.4)
    assert list(rows.loc[off_ms > limit_ms, "model"]) == []


def test_throughput_times_latency_is_what_is_in_flight(figures: pd.DataFrame) -> None:
    """Little's law, within 1 %, the rounding of both figures, and one batch more or less in the counting window.

    The throughputs are whole batches in 10 s, in BERT in 1 s.
    """
    in_flight = (figures["batch"] * figures["concurrency"]).astype(float)
    throughput, latency_s = figures["throughput_per_s"], figures["latency_avg_ms"] / 1000
    bert = figures["model"] == "bert-dist4l"
    latency_rounding_s = bert.map({True: 0.05e-3, False: 0.0005e-3})
    finished_at_once = figures["max_batch_size"].clip(upper=figures["concurrency"])
    finished_at_once = finished_at_once.where(figures["scenario"] == "online", figures["batch"]).astype(float)
    window_s = bert.map({True: 1, False: 10})
    limit = (
        0.01 * in_flight + throughput * latency_rounding_s + (0.05 + finished_at_once / window_s) * latency_s
    )
    off = (throughput * latency_s - in_flight).abs()
    exceptions = figures.loc[off > limit, [*POINT[:2], "format", "precision", "batch", "concurrency"]]
    assert exceptions.to_numpy().tolist() == [
        # One inference takes 1.27 ms, of which the latency has at most 1.25: the client needs some between two.
        ["bert-dist4l", "v100", "onnx", "fp16", 1, 1],
        # The average is the sum of its components, of which the network's was negative and printed as 0.
        ["nnunet", "a100", "ts-script", "fp32", 1, 6],
    ]
    clipped = figures[figures["network_server_send_recv_ms"] == 0]
    assert clipped[["gpu", "concurrency"]].to_numpy().tolist() == [["a100", 6], ["v100", 7]]


def test_percentiles_rise(figures: pd.DataFrame) -> None:
    p50, p90, p95, p99 = (figures[name] for name in PERCENTILES_MS)
    assert p50.notna().sum() == 368
    assert ((p50 <= p90) | p50.isna()).all()
    assert (p90 <= p95).all()
    assert (p95 <= p99).all()
    assert (figures["latency_avg_ms"] <= p99).all()


def _one(figures: pd.DataFrame, **wanted: object) -> pd.Series:
    rows = figures
    for name, value in wanted.items():
        rows = rows[rows[name].isna()] if value is None else rows[rows[name] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_values_of_each_source(figures: pd.DataFrame) -> None:
    row = _one(figures, model="resnet50", gpu="v100", scenario="offline", batch=16)
    assert (row["throughput_per_s"], row["latency_p90_ms"], row["latency_avg_ms"]) == (1726.4, 9.736, 9.266)
    row = _one(figures, model="nnunet", gpu="a100", scenario="online", precision="fp16", concurrency=8)
    assert [*row[COMPONENTS_MS]] == [0.031, 0.147, 81.538, 0.101, 3.46, 78.08, 0]
    row = _one(figures, model="nnunet", gpu="t4", scenario="offline", precision="fp32", batch=4)
    assert [*row[PERCENTILES_MS[1:]], row["latency_avg_ms"]] == [1188.76, 1189.1, 1189.1, 1187.24]
    row = _one(figures, model="resnet50-tf", gpu="v100", scenario="offline", batch=128)
    assert (row["throughput_per_s"], row["latency_p99_ms"]) == (704, 191.259)
    row = _one(figures, model="resnet50-tf", gpu="t4", scenario="online", concurrency=32)
    assert [*row[PERCENTILES_MS]] == [31.339, 50.564, 52.684, 55.823]
    row = _one(figures, model="bert-dist4l", gpu="a30", format="onnx", accelerator="trt", batch=8)
    assert (row["score_percent"], row["throughput_per_s"], row["latency_p99_ms"]) == (83.34, 3616, 2.4)
    assert (row["metric"], row["accelerator_precision"], row["sequence_length"]) == ("F1", "fp16", 384)
    row = _one(figures, model="bert-dist4l", gpu="a100", format="trt", accelerator=None, batch=16)
    assert (row["cuda_graphs"], row["throughput_per_s"], row["latency_p99_ms"]) == (False, 6544, 6.5)
    row = _one(figures, model="fastpitch", gpu="a40", scenario="online", precision="fp32", concurrency=16)
    assert (row["throughput_per_s"], row["server_compute_output_ms"]) == (411.4, 4.969)
    assert row["sequence_length"] == 128


def test_rows_under_the_wrong_gpu_bullet_are_not_those_of_that_gpu(figures: pd.DataFrame) -> None:
    rows = figures[(figures["model"] == "resnet50-tf") & (figures["scenario"] == "offline")]
    throughput = rows.pivot_table(index="batch", columns="gpu", values="throughput_per_s")
    assert (throughput["v100"] < 0.75 * throughput["a100"]).all()


def test_only_bert_publishes_a_score(figures: pd.DataFrame) -> None:
    scores = figures.dropna(subset=["score_percent"])
    assert set(scores["model"]) == {"bert-dist4l"}
    assert set(scores["score_percent"]) == {83.34, 83.35, 83.37}
    assert len(scores) == 48


def test_files_are_as_the_parser_writes_them() -> None:
    for path in published.FOLDER.glob("*.csv"):
        text = path.read_text()
        assert parse.as_csv(list(csv.DictReader(text.splitlines()))) == text
        assert {row["model"] for row in csv.DictReader(text.splitlines())} == {path.stem}


# The parser, on excerpts of each shape.

SPACES = """\
Deploying the ResNet50 v1.5 model on Triton Inference Server

     cd DeepLearningExamples/PyTorch/Classification/ConvNets

Offline scenario

This table lists the common variable parameters for all performance measurements:

Parameter Name Parameter Value
Max Batch Size 128.0
Number of model instances 1.0
Triton Max Queue Delay 1.0
Triton Preferred Batch Sizes 64 128

Offline: NVIDIA A40, ONNX Runtime TensorRT with FP16

Our results were obtained using the following configuration:

  • Backend: ONNX Runtime
  • Backend accelerator: TensorRT
  • Precision: FP16
  • Model format: ONNX

Full tabular data
Precision Backend Accelerator Client Batch Size Inferences/second P90 Latency P95 Latency P99 Latency Avg Latency
FP16 TensorRT 1 491.5 2.046 2.111 2.126 2.031
FP16 TensorRT 2 811.8 2.509 2.568 2.594 2.459

Release Notes
"""

ONE_LINE = """\
Deploying the nnUNet model on Triton Inference Server

    cd DeepLearningExamples/PyTorch/Segmentation/nnUNet

Online scenario

This table lists the parameters: | Parameter Name | Parameter Value | |:---------|:---------| | Max Batch Size | 4 | \
| Number of model instances | 1 | | Backend Accelerator | CUDA |

GPU: NVIDIA DGX A100 (1x A100 80GB)

Online: NVIDIA DGX A100 (1x A100 80GB) with FP16

  • GPU: NVIDIA DGX A100 (1x A100 80GB)
  • Backend: PyTorch
  • Model Format: TorchScript
  • Conversion variant: Script

Full tabular data | Concurrent client requests | Inferences/second | Server Queue | P99 Latency | Avg Latency | \
|-----:|-----:|-----:|----:|----:| | 1 | 26.1 | 0.012 | 38.356 | 38.284 | | 2 | 26.2 | 38.109 | 76.433 | 76.379 |

Release Notes
"""

MARKDOWN = """\
# Deploying the BERT model on Triton Inference Server

./triton/dist4l/scripts/docker/build.sh

### Offline scenario

#### Offline: NVIDIA T4, ONNX Runtime with FP16, Backend accelerator TensorRT

| Parameter Name               | Parameter Value |
|:-----------------------------|:----------------|
| GPU                          |NVIDIA T4        |
| Backend accelerator          | NVIDIA TensorRT |
| Accelerator Precision | -               |
| Model format                 | ONNX            |
| NVIDIA TensorRT Capture CUDA Graph | Disabled |
| SQuAD v1.1 F1 Score       | 83.34           |

|![](plots/l.svg)|![](plots/r.svg)|
|-----|-----|

|   Batch |   Concurrency |   Inferences/Second |   Client Send (ms) |   p50 latency (ms) |   avg latency (ms) |
|--------:|--------------:|--------------------:|-------------------:|-------------------:|-------------------:|
|       1 |             1 |               749.0 |                0.0 |                1.3 |                1.3 |
|       8 |             1 |              1536.0 |                0.1 |                5.2 |                5.2 |

## Advanced
| Inference runtime | Mnemonic used in scripts |
|-------------------|--------------------------|
| [ONNX](https://onnx.ai) | `onnx` |
"""


def _published(row: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in row.items() if value and name not in ("model", "source", "table")}


def test_cells_separated_by_spaces_are_rows() -> None:
    model, rows = parse.rows(SPACES, "README")
    assert (model, len(rows)) == ("resnet50", 2)
    assert list(rows[0]) == list(published.COLUMNS)
    assert _published(rows[1]) == {
        "gpu": "a40",
        "gpu_label": "NVIDIA A40",
        "scenario": "offline",
        "format": "onnx",
        "accelerator": "trt",
        "precision": "fp16",
        "max_batch_size": "128",
        "instances": "1",
        "max_queue_delay_us": "1",
        "preferred_batch_sizes": "64 128",
        "batch": "2",
        "concurrency": "1",
        "throughput_per_s": "811.8",
        "latency_p90_ms": "2.509",
        "latency_p95_ms": "2.568",
        "latency_p99_ms": "2.594",
        "latency_avg_ms": "2.459",
    }


def test_a_table_on_one_line_is_rows() -> None:
    model, rows = parse.rows(ONE_LINE, "README")
    assert (model, len(rows)) == ("nnunet", 2)
    assert _published(rows[1]) == {
        "gpu": "a100",
        "gpu_label": "NVIDIA DGX A100 (1x A100 80GB)",
        "scenario": "online",
        "format": "ts-script",
        "accelerator": "cuda",
        "precision": "fp16",
        "max_batch_size": "4",
        "instances": "1",
        "batch": "1",
        "concurrency": "2",
        "throughput_per_s": "26.2",
        "server_queue_ms": "38.109",
        "latency_p99_ms": "76.433",
        "latency_avg_ms": "76.379",
    }


def test_markdown_is_rows() -> None:
    model, rows = parse.rows(MARKDOWN, "README")
    assert (model, len(rows)) == ("bert-dist4l", 2)
    assert _published(rows[1]) == {
        "gpu": "t4",
        "gpu_label": "NVIDIA T4",
        "scenario": "offline",
        "format": "onnx",
        "accelerator": "trt",
        "precision": "fp16",
        "cuda_graphs": "False",
        "metric": "F1",
        "score_percent": "83.34",
        "batch": "8",
        "concurrency": "1",
        "throughput_per_s": "1536.0",
        "client_send_ms": "0.1",
        "latency_p50_ms": "5.2",
        "latency_avg_ms": "5.2",
    }


COMPLETE = """\
# Deploying the ResNet-50 v1.5 model on Triton Inference Server

    cd DeepLearningExamples/TensorFlow/Classification/ConvNets

### Online scenario

#### Online: NVIDIA T4, TF-TRT with FP16

 * **GPU:** NVIDIA T4
 * **Model binding:** TF-TRT
 * **Model format:** TensorFlow SavedModel

{}
{}
"""
HEADER = (
    "Concurrent client requests|Inferences/second|Client Send|Network+server Send/recv|Server Queue|"
    "Server Compute Input|Server Compute Infer|Server Compute Output|Client Recv|"
    "P50 Latency|P90 Latency|P95 Latency|P99 Latency|Avg Latency"
)
VALUES = "48|1253|0.298|12.331|5.313|4.623|15.634|0.178|0.001|38.099|60.665|64.537|72.38|38.378"


@pytest.mark.parametrize("shape", [lambda text: text.replace("|", " "), lambda text: f"|{text}|"])
def test_every_column_has_its_name(shape: Callable[[str], str]) -> None:
    _, rows = parse.rows(COMPLETE.format(shape(HEADER), shape(VALUES)), "README")
    names = ["concurrency", "throughput_per_s", *COMPONENTS_MS, *PERCENTILES_MS, "latency_avg_ms"]
    assert [rows[0][name] for name in names] == VALUES.split("|")
    assert (rows[0]["format"], rows[0]["accelerator"], rows[0]["batch"]) == ("tf-trt", "trt", "1")


def test_the_gpu_of_a_heading_holds_against_the_one_bullet_known_to_be_wrong() -> None:
    text = COMPLETE.format(HEADER.replace("|", " "), VALUES.replace("|", " "))
    text = text.replace("Online: NVIDIA T4", "Online: NVIDIA DGX-1 (1x V100 32GB)")
    with pytest.raises(ParseError, match="README:7: the heading's GPU is 'NVIDIA DGX-1"):
        parse.rows(text, "README")
    offline = text.replace("Online", "Offline").replace("Concurrent client requests", "Client Batch Size")
    _, rows = parse.rows(offline, "README")
    assert (rows[0]["gpu"], rows[0]["gpu_label"]) == ("v100", "NVIDIA DGX-1 (1x V100 32GB)")


def _change(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "change", "line", "message"),
    [
        (SPACES, _change(" 2.594 2.459", " 2.594"), 27, "7 cells in a table of 8 columns"),
        (SPACES, _change("2 811.8", "2 811,8"), 27, "throughput_per_s is '811,8'"),
        (SPACES, _change("2 811.8", "2.5 811.8"), 27, "batch is '2.5'"),
        (SPACES, _change("FP16 TensorRT 2", "FP32 TensorRT 2"), 27, "precision fp32 in a table of fp16"),
        (SPACES, _change("FP16 TensorRT 2", "FP16 CUDA 2"), 27, "accelerator 'CUDA' in a table of 'trt'"),
        (SPACES, _change("\nFP16 TensorRT 2", "\n\nFP16 TensorRT 2"), 28, "a row apart from the table"),
        (SPACES, _change("P90 Latency", "P80 Latency"), 25, "unknown column 'P80 Latency'"),
        (SPACES, _change("P90 Latency", "P95 Latency"), 25, "a column stands there twice"),
        (SPACES, _change("Client Batch Size ", ""), 26, "8 cells in a table of 7 columns"),
        (SPACES, _change("Precision: FP16", "Precision: FP32"), 15, "its bullet's 'FP32'"),
        (SPACES, _change("Precision: FP16", "Colour: red"), 21, "unknown setting 'Colour'"),
        (SPACES, _change("Precision: FP16", "Model format: Caffe"), 22, "'Model format' is both"),
        (SPACES, _change("Model format: ONNX", "Model format: Caffe"), 15, "unknown model format 'caffe'"),
        (SPACES, _change("accelerator: TensorRT", "accelerator: XLA"), 15, "unknown accelerator 'XLA'"),
        (SPACES, _change("Size 128.0", "Size 128.5"), 15, "max batch size is '128.5'"),
        (SPACES, _change("NVIDIA A40", "NVIDIA K80"), 15, "names no GPU that is known here"),
        (SPACES, _change(" with FP16", ""), 15, "names no GPU and precision"),
        (
            SPACES,
            _change("Offline: NVIDIA", "Online: NVIDIA"),
            15,
            "'Online' heading in the offline scenario",
        ),
        (SPACES, lambda text: text[: text.index("Precision Backend")], 15, "no table under this heading"),
        (SPACES, lambda text: text[: text.index("FP16 TensorRT 1")], 25, "this table has no rows"),
        (SPACES, lambda text: text[: text.index("Offline: ")], 1, "no section such as"),
        (SPACES, _change("ResNet50 v1.5", "EfficientNet"), 1, "not one of the READMEs"),
        (SPACES, _change("PyTorch/Classification/ConvNets", "elsewhere"), 1, "not one of the READMEs"),
        (ONE_LINE, _change("| 76.433 | 76.379 |", "| 76.433 |"), 18, "do not all have its 5 columns"),
        (ONE_LINE, _change("| 76.379 |", "| 76.3"), 18, "cut short"),
        (
            ONE_LINE,
            _change("• GPU: NVIDIA DGX A100 (1x A100 80GB)", "• GPU: NVIDIA T4"),
            11,
            "its bullet's 'NVIDIA T4'",
        ),
        (MARKDOWN, _change("1.3 |\n", "1.3\n"), 23, "cut short"),
        (MARKDOWN, _change("Disabled", "Perhaps"), 7, "CUDA graphs are 'Perhaps'"),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_an_error_names_file_and_line(
    text: str, change: Callable[[str], str], line: int, message: str
) -> None:
    changed = change(text)
    assert changed != text
    with pytest.raises(ParseError, match=re.escape(message)) as raised:
        parse.rows(changed, "a/README")
    assert str(raised.value).startswith(f"a/README:{line}: ")


def test_a_table_that_lacks_points_of_the_others_is_an_error() -> None:
    section = SPACES[SPACES.index("Offline: NVIDIA") : SPACES.index("FP16 TensorRT 2")]
    with pytest.raises(ParseError, match=r"README:40: .* has 1 load points, .* not the 2 "):
        parse.rows(SPACES.replace("Release Notes\n", section), "README")


def test_the_command_writes_a_file_per_readme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.txt").write_text(SPACES)
    (tmp_path / "two.txt").write_text(ONE_LINE)
    assert parse.main([str(tmp_path), "--output", str(tmp_path)]) == 0
    assert "nnunet.csv: 1 tables, 2 rows" in capsys.readouterr().out
    read = published.load(tmp_path)
    assert list(read["model"]) == ["nnunet", "nnunet", "resnet50", "resnet50"]
    assert list(read["throughput_per_s"]) == [26.1, 26.2, 491.5, 811.8]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"one.txt": SPACES.encode(), "two.txt": SPACES.encode()}, "two.txt:1: a second README of resnet50"),
        ({"one.txt": b"caf\xe9\n"}, "one.txt:1: not UTF-8 text"),
        ({"one.txt": SPACES.encode(), "two.txt": b"# Other\n"}, "two.txt:1: not one of the READMEs"),
    ],
)
def test_the_command_writes_nothing_after_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, bytes], message: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert parse.main([str(tmp_path), "--output", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("*.csv"))


def test_a_readme_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse.main(["nowhere/README.md"]) == 2
    assert "nowhere/README.md: No such file or directory" in capsys.readouterr().err


# The READMEs themselves, where they are at hand.

needs_seeds = pytest.mark.skipif(
    "TRITONPROOF_SEEDS" not in os.environ,
    reason="needs the published READMEs: set TRITONPROOF_SEEDS to their folder",
)


@needs_seeds
def test_the_readmes_give_the_files_again() -> None:
    parsed = parse.read([Path(os.environ["TRITONPROOF_SEEDS"])])
    assert {model: parse.as_csv(rows) for model, rows in parsed.items()} == {
        path.stem: path.read_text() for path in published.FOLDER.glob("*.csv")
    }


@needs_seeds
def test_the_numbers_of_every_row_stand_in_a_readme_in_their_order() -> None:
    """Without the parser: the text with its rules and bars taken out holds each row's numbers, once."""
    folder = Path(os.environ["TRITONPROOF_SEEDS"])
    texts = dict.fromkeys(("bert-dist4l", "fastpitch", "nnunet", "resnet50", "resnet50-tf"), "")
    for path in folder.glob("*.txt"):
        text = path.read_text()
        titles = (document.model for document in parse.DOCUMENTS if document.title in text)
        texts[next(titles)] = " ".join(text.replace("|", " ").split())
    numbers = ["throughput_per_s", *COMPONENTS_MS, *PERCENTILES_MS, "latency_avg_ms"]
    for path in published.FOLDER.glob("*.csv"):
        for row in csv.DictReader(path.read_text().splitlines()):
            point = row["batch"] if row["scenario"] == "offline" else row["concurrency"]
            if row["metric"]:
                point = f"{row['batch']} {row['concurrency']}"
            published_row = " ".join([point, *(row[name] for name in numbers if row[name])])
            assert texts[path.stem].count(f" {published_row} ") == 1, published_row
