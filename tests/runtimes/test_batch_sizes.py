"""ONNX Runtime on a GPU has a session for each batch size, or it would plan convolutions again."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from fixtures.build import runtimes
from fixtures.build.configuration import model_config
from fixtures.formats import all_formats
from fixtures.host.targets import recognise
from fixtures.models import all_models
from fixtures.spec import Case, Deployment, Scenario
from tests.user_models import networks

SETTINGS = {
    "device": "cpu",
    "device_id": "0",
    "threads": "1",
    "accelerator": "",
    "engines": "",
    "precision": "fp32",
    "large": "0",
    "tf32": "1",
    "tensors": "torch",
}
DEPLOYMENT = Deployment(24, 1, (12, 24), 100, False, warmup=True, tf32=True)
RUNTIME = runtimes.load_runtime("onnx.py")


def images(count: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(count).normal(size=(count, 3, 5, 5)).astype(np.float32))


def answer(path: Path, rows: int) -> np.ndarray:
    """The network's output for a number of rows at once."""
    alone = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(alone.run(None, {"images": images(rows).numpy()})[0])


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """The batch sizes that each session computes, by the session's number; a CPU stands in for the GPU."""
    batches_of: dict[int, list[int]] = {}
    opened = RUNTIME._on_tensors

    def on_tensors(session: Any, settings: Any) -> Any:
        predict, computed = opened(session, settings), batches_of.setdefault(len(batches_of), [])

        def run(tensors: Any) -> Any:
            computed.append(len(tensors[0]))
            return predict(tensors)

        return run

    monkeypatch.setattr(RUNTIME, "_on_tensors", on_tensors)
    monkeypatch.setattr(RUNTIME, "_plans_anew", lambda _graph, _settings: True)
    return batches_of


@pytest.mark.parametrize(
    ("sizes", "computed"),
    [
        ("8,1,4", {0: [4, 4, 4], 1: [1], 2: [8, 8], 3: [9]}),
        ("", {0: [3, 3], 1: [1], 2: [8], 3: [4], 4: [5], 5: [9]}),
    ],
)
def test_batch_is_padded_to_next_session_size(
    sizes: str, computed: dict[int, list[int]], batches: dict[int, list[int]], tmp_path: Path
) -> None:
    path = networks.convolution(tmp_path / "model.onnx")
    predict = RUNTIME.load(path, SETTINGS | {"sizes": sizes})
    for rows in (3, 1, 8, 4, 5, 3, 9):
        np.testing.assert_allclose(predict([images(rows)])[0].numpy(), answer(path, rows), atol=1e-5)
    assert batches == computed


def test_each_shape_has_its_own_graph_and_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replayed CUDA graph reads and writes the memory that it was captured with, whatever its run gets. A
    CPU captures nothing, but the runtime binds and keeps the memory as for a graph."""
    places: dict[int, set[tuple[int, ...]]] = {}
    opened = RUNTIME._on_tensors

    def on_tensors(session: Any, settings: Any, outputs: Any = None, graph: Any = None) -> Any:
        predict = opened(session, settings, outputs, graph)

        def run(tensors: Any) -> Any:
            if graph > 0:
                used = tuple(tensor.data_ptr() for tensor in (*tensors, *outputs))
                places.setdefault(graph, set()).add(used)
            return predict(tensors)

        return run

    monkeypatch.setattr(RUNTIME, "_on_tensors", on_tensors)
    path = networks.convolution(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    predict = RUNTIME._captured(session, SETTINGS)
    answers = {}
    for rows in (2, 5, 2, 5, 1):
        (answers[rows],) = predict([images(rows)])
        predict([images(rows) + 1])
    for rows, predicted in answers.items():
        np.testing.assert_allclose(predicted.numpy(), answer(path, rows), atol=1e-5)
    assert {graph: len(used) for graph, used in places.items()} == {1: 1, 2: 1, 3: 1}
    assert len(set().union(*places.values())) == 3


def test_model_with_broken_session_does_not_load(batches: dict[int, list[int]], tmp_path: Path) -> None:
    path = networks.convolution(tmp_path / "model.onnx")
    path.write_bytes(b"no graph")
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidProtobuf):
        RUNTIME.load(path, SETTINGS)
    assert batches == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"device": "cpu"}, False),
        ({"accelerator": "trt"}, False),
        ({"large": "1"}, False),
        ({"batched": "0"}, False),
    ],
)
def test_gpu_convolutions_are_planned_per_batch_size(
    change: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    settings = SETTINGS | {"device": "cuda"} | change
    assert RUNTIME._plans_anew(networks.convolution(tmp_path / "model.onnx"), settings) is expected
    assert not RUNTIME._plans_anew(networks.linear(tmp_path / "model.onnx"), settings)


EVERY = set(range(1, 25))


@pytest.mark.parametrize(
    ("mnemonic", "target", "accelerator", "native", "scenario", "sizes", "warmed"),
    [
        ("onnx", "NVIDIA A100", None, False, "online", "1,2,4,8,12,16,24", EVERY),
        ("onnx", "NVIDIA A100", None, False, "offline", "", {1, 24}),
        ("onnx", "NVIDIA A100", None, True, "offline", "", {1, 24}),
        ("onnx", "NVIDIA A100", None, True, "online", "", EVERY),
        ("onnx", "NVIDIA A100", "trt", False, "online", "", EVERY),
        ("onnx", None, None, False, "online", "", {1, 24}),
        # PyTorch keeps the plan of each size: on an H200 130 of them took the micro ResNet50 13 s.
        ("ts-trace", "NVIDIA A100", None, False, "online", "", EVERY),
        ("ts-trace", "NVIDIA A100", None, False, "offline", "", {1, 24}),
    ],
)
def test_server_gets_batch_sizes_of_its_batcher(
    mnemonic: str,
    target: str | None,
    accelerator: str | None,
    native: bool,
    scenario: Scenario,
    sizes: str,
    warmed: set[int],
) -> None:
    format_ = next(entry for entry in all_formats() if entry.mnemonic == mnemonic)
    model = next(model for model in all_models() if model.name == "resnet50-micro")
    case = Case(recognise(target), model, format_, accelerator, "fp32")
    config = model_config(case, DEPLOYMENT, native=native, scenario=scenario)
    assert config.parameters["sizes"].string_value == sizes
    counts = {entry.batch_size: entry.count for entry in config.model_warmup}
    assert set(counts) == warmed
    # The largest comes right after the smallest, so TensorRT builds one engine for all between.
    assert list(counts)[:2] == [1, 24]
    assert counts.get(12, 3) == 3, "one that the batcher prefers"
