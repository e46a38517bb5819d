"""Runtimes on PyTorch tensors, with the GPU's code on a CPU, in process and in Triton."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import numpy as np
import pytest
import torch
from msgspec import structs
from torch import nn

from tritonproof.build import builds, runtime_files
from tritonproof.build.builds import CaseBuild
from tritonproof.build.configuration import model_config
from tritonproof.formats import all_formats
from tritonproof.frameworks.pytorch import infer, tf32_products
from tritonproof.host.targets import CPU
from tritonproof.models import all_models
from tritonproof.record.setup import Deployment
from tritonproof.serve.loading import load_folder
from tritonproof.serve.server import Server
from tritonproof.spec import Case, FrameworkModel, Samples, Tensor

MAX_BATCH = 8
DEPLOYMENT = Deployment(MAX_BATCH, 1, (MAX_BATCH,), 2_000_000, False, warmup=False)
FORMATS = {format_.name: format_ for format_ in all_formats()}


class Small(nn.Module):
    """Two inputs and two outputs of several types; one output is not contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 4)
        self.words = nn.Embedding(11, 4)

    def forward(self, x: torch.Tensor, word: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.fc(x.flatten(1)) + self.words(word).sum(1)
        return torch.stack([y, -y]).permute(1, 2, 0), y.argmax(dim=1, keepdim=True)


def inputs_of(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        "x": generator.normal(0, 1, (rows, 2, 3)).astype(np.float32),
        "word": generator.integers(0, 11, (rows, 5)),
    }


def samples(*_what: Any) -> Samples:
    return Samples(["a", "b"], lambda indices: inputs_of(len(indices)))


MODEL = dataclasses.replace(
    next(model for model in all_models() if model.name == "resnet50-micro"),
    name="small",
    inputs=(Tensor("x", "FP32", (2, 3)), Tensor("word", "INT64", (5,))),
    outputs=(Tensor("both", "FP32", (4, 2)), Tensor("class", "INT64", (1,))),
    infer=lambda network, inputs: infer(network, inputs, ("both", "class")),
    samples=samples,
)
NETWORK = Small().eval()


@pytest.fixture(scope="module", params=["onnx", "ts-trace", "ts-script"])
def built(request: pytest.FixtureRequest, server_of_models: tuple[Server, Path]) -> CaseBuild:
    case = Case(CPU, MODEL, FORMATS[request.param], None, "fp32")
    weights = FrameworkModel(NETWORK, "test", "w1", trained=False)
    root = server_of_models[1].parent
    return builds.build(case, weights, DEPLOYMENT, root, native=False, samples=samples)


def on_tensors(built: CaseBuild) -> Any:
    """The build's runtime, opened on the CPU as on a GPU."""
    parameters = runtime_files.runtime_parameters(built.case, DEPLOYMENT)
    parameters |= {"device": "cpu", "device_id": "0", "tensors": "torch"}
    return runtime_files.load_runtime(built.case.format.runtime.file).load(built.artifact, parameters)


@pytest.mark.parametrize("rows", [1, 3, MAX_BATCH])
def test_runtime_takes_and_returns_device_tensors(built: CaseBuild, rows: int) -> None:
    inputs = inputs_of(rows)
    expected = built.case.network_model.infer(NETWORK, inputs)
    tensors = on_tensors(built)([torch.from_numpy(values) for values in inputs.values()])
    assert all(isinstance(tensor, torch.Tensor) for tensor in tensors)
    # The conversion test runs it like this, on a GPU too.
    arrays = runtime_files.through_the_host(on_tensors(built), "cpu")(list(inputs.values()))
    assert all(isinstance(array, np.ndarray) for array in arrays)
    for tensor, array, values in zip(tensors, arrays, expected.values(), strict=True):
        np.testing.assert_allclose(tensor.numpy(), values, atol=1e-5)
        np.testing.assert_allclose(array, values, atol=1e-5)


def test_inputs_may_be_views_and_outputs_persist(built: CaseBuild) -> None:
    """Pointers have no strides, and reusing a buffer would change an answer before Triton sends it."""
    predict, inputs = on_tensors(built), inputs_of(4)
    arrays = inputs.values()
    turned = [torch.from_numpy(np.ascontiguousarray(array[..., ::-1])).flip(-1) for array in arrays]
    part = [torch.from_numpy(np.stack([array, array], axis=-1))[..., 0] for array in arrays]
    assert not part[0].is_contiguous()
    expected = built.case.network_model.infer(NETWORK, inputs)
    first, second = predict(turned), predict(part)
    predict([torch.from_numpy(values) for values in inputs_of(4, seed=1).values()])
    for answers in (first, second):
        for tensor, values in zip(answers, expected.values(), strict=True):
            np.testing.assert_allclose(tensor.numpy(), values, atol=1e-5)


@pytest.mark.parametrize("built", ["ts-trace"], indirect=True)
@pytest.mark.parametrize("tf32", [True, False])
def test_pytorch_products_follow_tf32_parameter(built: CaseBuild, tf32: bool) -> None:
    """PyTorch's default is TF32 for convolutions only."""
    parameters = runtime_files.runtime_parameters(built.case, structs.replace(DEPLOYMENT, tf32=tf32))
    parameters |= {"device": "cpu", "device_id": "0"}
    with tf32_products(allowed=not tf32):
        runtime_files.load_runtime("pytorch.py").load(built.artifact, parameters)
        assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (tf32, tf32)


def test_pytorch_waits_for_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    stream_of = Mock()
    runtime = runtime_files.load_runtime("pytorch.py")
    network = torch.nn.Identity()
    monkeypatch.setattr(runtime.torch.jit, "load", lambda _path, **_options: network)
    monkeypatch.setattr(runtime.torch.cuda, "current_stream", stream_of)
    with tf32_products(allowed=True):  # undoes what the runtime sets afterwards
        parameters = {"device": "cuda", "device_id": "1", "threads": "1", "large": "0", "tf32": "1"}
        runtime.load(Path("model.pt"), parameters | {"tensors": "torch"})([torch.ones(1)])
    assert stream_of.mock_calls == [call("cuda:1"), call().synchronize()], "that of the instance's own GPU"


def test_server_passes_and_batches_tensors(built: CaseBuild, server_of_models: tuple[Server, Path]) -> None:
    """By DLPack. Eight requests at once are one batch, and each gets its own rows."""
    server, _folder = server_of_models
    config = model_config(built.case, DEPLOYMENT, native=False)
    config.parameters["tensors"].string_value = "torch"
    config.parameters["FORCE_CPU_ONLY_INPUT_TENSORS"].string_value = "no"
    load_folder(server, built.folder, config)
    requests = [inputs_of(1, seed) for seed in range(MAX_BATCH)]

    def ask(inputs: dict[str, np.ndarray]) -> dict[str, Any]:
        return server.infer(str(built.case), built.case.model, inputs)

    with ThreadPoolExecutor(MAX_BATCH) as threads:
        answers = [*threads.map(ask, requests), ask(inputs_of(5))]
    for answer, inputs in zip(answers, [*requests, inputs_of(5)], strict=True):
        for name, values in built.case.network_model.infer(NETWORK, inputs).items():
            np.testing.assert_allclose(answer[name], values, atol=1e-5)
    (statistics,) = server.client.get_inference_statistics(str(built.case)).model_stats
    assert statistics.inference_count == MAX_BATCH + 5
    assert statistics.execution_count < MAX_BATCH + 1, "some were joined"


@pytest.mark.parametrize("name", ["onnx", "ts-trace", "ts-script", "pt2", "trt"])
def test_gpu_configuration_keeps_tensors_on_device(name: str) -> None:
    case = Case(dataclasses.replace(CPU, device="cuda"), MODEL, FORMATS[name], None, "fp32")
    config = model_config(case, DEPLOYMENT, native=False)
    assert config.parameters["tensors"].string_value == "torch"
    assert config.parameters["FORCE_CPU_ONLY_INPUT_TENSORS"].string_value == "no"
    on_cpu = model_config(dataclasses.replace(case, target=CPU), DEPLOYMENT, native=False)
    assert on_cpu.parameters["tensors"].string_value == "numpy"
    assert "FORCE_CPU_ONLY_INPUT_TENSORS" not in on_cpu.parameters
