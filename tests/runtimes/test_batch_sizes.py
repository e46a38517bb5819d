"""ONNX Runtime on a GPU: a session for each batch size where one would plan its convolutions anew."""

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


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """The batches that each session computes, by the session's number; a CPU plays the GPU."""
    found: dict[int, list[int]] = {}
    opened = RUNTIME._on_tensors

    def on_tensors(session: Any, settings: Any) -> Any:
        predict, computed = opened(session, settings), found.setdefault(len(found), [])

        def run(tensors: Any) -> Any:
            computed.append(len(tensors[0]))
            return predict(tensors)

        return run

    monkeypatch.setattr(RUNTIME, "_on_tensors", on_tensors)
    monkeypatch.setattr(RUNTIME, "_plans_anew", lambda _graph, _settings: True)
    return found


def test_a_batch_is_filled_up_to_the_next_size_and_answered_as_it_is(
    batches: dict[int, list[int]], tmp_path: Path
) -> None:
    path = networks.convolution(tmp_path / "model.onnx")
    alone = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    predict = RUNTIME.load(path, SETTINGS | {"sizes": "8,1,4"})
    for rows in (3, 1, 8, 4, 5, 3, 9):
        (answer,) = predict([images(rows)])
        (expected,) = alone.run(None, {"images": images(rows).numpy()})
        np.testing.assert_allclose(answer.numpy(), expected, atol=1e-5)
    assert batches == {0: [4, 4, 4], 1: [1], 2: [8, 8], 3: [9]}, "a session for each size, and no other there"


def test_graphs_of_several_shapes_answer_as_the_network_does(tmp_path: Path) -> None:
    """On a CPU nothing is captured, but the memory is bound and kept as for a graph."""
    path = networks.convolution(tmp_path / "model.onnx")
    alone = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    predict = RUNTIME._captured(alone, SETTINGS)
    answers = {}
    for rows in (2, 5, 2, 5, 1):
        (answers[rows],) = predict([images(rows)])
        predict([images(rows) + 1])  # which an answer that was given before is not changed by
    for rows, answer in answers.items():
        (expected,) = alone.run(None, {"images": images(rows).numpy()})
        np.testing.assert_allclose(answer.numpy(), expected, atol=1e-5)


def test_each_shape_has_a_graph_of_its_own_and_memory_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph that is replayed reads and writes the memory that it was captured with, whatever the run is given."""
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
    for rows in (2, 5, 2, 5, 2):
        predict([images(rows)])
    assert {graph: len(used) for graph, used in places.items()} == {1: 1, 2: 1}
    assert len(set().union(*places.values())) == 2


def test_without_sizes_a_batch_is_computed_as_it_comes(batches: dict[int, list[int]], tmp_path: Path) -> None:
    predict = RUNTIME.load(networks.convolution(tmp_path / "model.onnx"), SETTINGS)
    for rows in (3, 7, 3):
        predict([images(rows)])
    assert batches == {0: [3, 3], 1: [7]}


def test_a_model_whose_session_cannot_be_opened_does_not_load(
    batches: dict[int, list[int]], tmp_path: Path
) -> None:
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
def test_convolutions_on_a_gpu_are_planned_anew(
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
def test_a_server_is_told_the_sizes_of_the_batches_that_its_batcher_forms(
    mnemonic: str,
    target: str | None,
    accelerator: str | None,
    native: bool,
    scenario: Scenario,
    sizes: str,
    warmed: set[int],
) -> None:
    format_ = next(one for one in all_formats() if one.mnemonic == mnemonic)
    model = next(model for model in all_models() if model.name == "resnet50-micro")
    case = Case(recognise(target), model, format_, accelerator, "fp32")
    config = model_config(case, DEPLOYMENT, native=native, scenario=scenario)
    assert config.parameters["sizes"].string_value == sizes
    counts = {one.batch_size: one.count for one in config.model_warmup}
    assert set(counts) == warmed
    assert counts.get(12, 3) == 3, "one that the batcher prefers"
