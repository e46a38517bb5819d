"""Tables of the published READMEs in every shape are read, and what does not fit is an error with its place."""

import re
from collections.abc import Callable

import pytest

from reports import published
from reports.published import parse
from reports.published.layout import ParseError
from tests.published.readmes import COMPONENTS_MS, ONE_LINE, PERCENTILES_MS, SPACES

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
