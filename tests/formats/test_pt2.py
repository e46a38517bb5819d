"""AOTInductor packages: right at every batch size, built silently, opened without a compiler."""

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fixtures.build import runtimes
from fixtures.errors import NotAvailableError, ProofError
from fixtures.formats import pt2
from fixtures.frameworks.pytorch import run
from fixtures.models import all_models
from fixtures.spec import Arrays, ConversionJob, Model, Samples, Tensor

MOST = 6
OUTPUTS = ("scores", "class")
SETTINGS = {"device": "cpu", "device_id": "0", "threads": "2", "large": "0", "tf32": "1", "tensors": "numpy"}


class Small(nn.Module):
    """Two inputs and two outputs; a convolution to fold BatchNorm into, and a shape with the batch size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.words = nn.Embedding(11, 8)
        self.fc = nn.Linear(8 * 16 * 16, 5)

    def forward(self, x: torch.Tensor, word: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        dtype = self.conv.weight.dtype
        y = torch.relu(self.norm(self.conv(torch.sin(x.to(dtype)))))
        y = y + self.words(word).view(x.shape[0], 8, 1, 1)
        scores = self.fc(y.reshape(x.shape[0], -1)).float()
        return scores, scores.argmax(dim=1)


def arrays(indices: Sequence[int]) -> dict[str, np.ndarray]:
    generators = [np.random.default_rng([7, i]) for i in indices]
    return {
        "x": np.stack([generator.normal(0, 1, (3, 16, 16)).astype(np.float32) for generator in generators]),
        "word": np.stack([generator.integers(0, 11, 1) for generator in generators]),
    }


def model_of(name: str = "small", count: int = 2) -> Model:
    """The micro model's value with the small network's tensors, and its first `count` inputs."""
    micro = next(model for model in all_models() if model.micro)

    def load(indices: Sequence[int]) -> Arrays:
        return dict(list(arrays(indices).items())[:count])

    return dataclasses.replace(
        micro,
        name=name,
        inputs=(Tensor("x", "FP32", (3, 16, 16)), Tensor("word", "INT64", (1,)))[:count],
        outputs=(Tensor("scores", "FP32", (5,)), Tensor("class", "INT64", ())),
        run=lambda network, inputs: run(network, inputs, OUTPUTS),
        samples=lambda _split, _dataset, _checkpoint: Samples([str(i) for i in range(40)], load),
    )


def job_of(network: nn.Module, model: Model, max_batch_size: int = MOST, **changes: Any) -> ConversionJob:
    job = ConversionJob(model, network, "fp32", None, "cpu", max_batch_size, None, lambda _step: None)
    return dataclasses.replace(job, **changes)


@pytest.fixture(scope="module")
def network() -> Small:
    torch.manual_seed(0)
    small = Small()
    small.train()(*(torch.from_numpy(array) for array in arrays(range(16)).values()))
    return small.eval()


@pytest.fixture(scope="module")
def package(network: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Converted with one thread; the tests run it with two."""
    path = tmp_path_factory.mktemp("package") / "model.pt2"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        pt2.convert(job_of(network, model_of()), path)
    finally:
        torch.set_num_threads(threads)
    return path


def open_package(path: Path) -> Callable[[Arrays], list[np.ndarray]]:
    predict = runtimes.load_runtime("pytorch.py").load(path, SETTINGS)
    return lambda inputs: predict(list(inputs.values()))


def error_of(network: Small, inputs: Arrays, found: list[np.ndarray]) -> float:
    """The largest error of the scores over the largest score."""
    expected = run(network, inputs, OUTPUTS)["scores"]
    scores, _classes = found
    assert scores.dtype == np.float32
    assert scores.shape == expected.shape
    return float(np.abs(scores - expected).max() / np.abs(expected).max())


def assert_equal_to_framework(network: Small, inputs: Arrays, found: list[np.ndarray]) -> None:
    assert error_of(network, inputs, found) <= pt2.FORMAT.tolerances["fp32"].relative_error
    np.testing.assert_array_equal(found[1], run(network, inputs, OUTPUTS)["class"])


# --- outputs -----------------------------------------------------------------------------------------------


def test_package_matches_framework_at_every_batch(package: Path, network: Small) -> None:
    predict = open_package(package)
    for batch in range(1, MOST + 1):
        inputs = arrays(range(batch))
        assert_equal_to_framework(network, inputs, predict(inputs))


def test_export_with_largest_batch_of_one_matches_framework(
    network: Small,
) -> None:
    inputs = arrays([3])
    exported = pt2.exported_program(job_of(network, model_of(), max_batch_size=1)).module()
    with torch.no_grad():
        outputs = exported(*(torch.from_numpy(array) for array in inputs.values()))
    assert_equal_to_framework(network, inputs, [tensor.numpy() for tensor in outputs])


def test_inputs_may_have_any_memory_layout(package: Path, network: Small) -> None:
    predict = open_package(package)
    inputs = arrays(range(4))
    channels_last = np.ascontiguousarray(inputs["x"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    every_second = np.repeat(inputs["word"], 2, axis=0)[::2]
    assert not channels_last.flags.c_contiguous
    assert not every_second.flags.c_contiguous
    assert_equal_to_framework(network, inputs, predict({"x": channels_last, "word": every_second}))
    # Triton passes views into the middle of a buffer.
    shifted = np.frombuffer(bytearray(4) + inputs["x"].tobytes(), np.float32, offset=4).reshape(
        inputs["x"].shape
    )
    assert shifted.ctypes.data % 64
    assert_equal_to_framework(network, inputs, predict({"x": shifted, "word": inputs["word"]}))


def test_batch_normalization_is_folded_into_convolution_weights(package: Path) -> None:
    constants = torch._C._aoti.AOTIModelPackageLoader(str(package), "model", False, 1, -1).get_constant_fqns()
    assert "words.weight" in constants, "what nothing is folded into keeps its name"
    assert "conv.weight" not in constants


# --- files, compiler and messages --------------------------------------------------------------------------


def test_bf16_conversion_is_silent_and_rounds_as_allowed(
    network: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It leaves a single file."""
    places = [tmp_path / name for name in ("build", "home", "temporary", "here")]
    for place in places:
        place.mkdir()
    build, home, temporary, current = places
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(current)
    environment = dict(os.environ)
    capfd.readouterr()
    steps: list[str] = []
    pt2.convert(job_of(network, model_of(), precision="bf16", report=steps.append), build / "model.pt2")
    assert steps
    assert capfd.readouterr() == ("", "")
    assert dict(os.environ) == environment
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [build / "model.pt2"]
    predict = open_package(build / "model.pt2")
    for batch in (1, 3, MOST):
        error = error_of(network, arrays(range(batch)), predict(arrays(range(batch))))
        assert 1e-4 < error <= pt2.FORMAT.tolerances["bf16"].relative_error, "FP32 does not round so far"


def test_package_opens_without_compiler_and_temporary_files(
    package: Path, network: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def compile_probes(_device: str) -> dict[str, str]:
        raise AssertionError("this finds the CPU's vector instructions by compiling for each")

    monkeypatch.setattr("torch._inductor.codecache.get_device_information", compile_probes)
    predict = open_package(package)
    assert_equal_to_framework(network, arrays(range(2)), predict(arrays(range(2))))
    assert list(tmp_path.iterdir()) == [], "what is unpacked would stay when the process is killed"


def test_format_is_missing_without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    assert "g++" in str(pt2.FORMAT.missing("cpu", None, "fp32"))
    monkeypatch.undo()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "no-such-compiler" in str(pt2.FORMAT.missing("cpu", None, "fp32"))
    monkeypatch.setenv("CXX", str(shutil.which("env")))
    assert pt2.FORMAT.missing("cpu", None, "fp32") is None


# --- failures ----------------------------------------------------------------------------------------------


class Branching(nn.Module):
    """A network that branches on its data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x if x.sum() > 0 else x


class Pairing(nn.Module):
    """A network that is right only for the batch size of the example inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, -1) * 2


@pytest.mark.parametrize("refused", [Branching, Pairing])
def test_unexportable_network_is_refused_in_one_line(
    refused: type[nn.Module], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ProofError, check=lambda e: e.where == "refused" and "\n" not in e.what):
        pt2.convert(job_of(refused(), model_of("refused", count=1)), tmp_path / "model.pt2")
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def compile_at_once(monkeypatch: pytest.MonkeyPatch, problem: str = "") -> None:
    """Replaces the compiler: it writes a package of one byte, or raises a problem."""

    def compiled(_exported: object, *, package_path: Any, **_options: object) -> None:
        if problem:
            raise RuntimeError(problem)
        package_path.write(b"x")

    monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", compiled)


@pytest.mark.parametrize(
    ("problem", "on_cpu", "on_gpu"),
    [
        ("CUDA_HOME environment variable is not set. Please set it.", ProofError, NotAvailableError),
        ("m.cpp:1:10: fatal error: cuda_runtime.h: No such file or directory", ProofError, NotAvailableError),
        ("/usr/bin/ld: cannot find -lcuda: No such file or directory", ProofError, NotAvailableError),
        ("much\nm.cpp:7:1: error: 'at' is no member\nmore", ProofError, ProofError),
        ("fatal error: error writing to m.s: No space left on device", OSError, OSError),
    ],
)
def test_failing_compiler_leaves_nothing(
    problem: str,
    on_cpu: type[Exception],
    on_gpu: type[Exception],
    network: Small,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The compiler's message decides whether the case fails or is not available."""
    compile_at_once(monkeypatch, problem)
    inputs = pt2.network_and_inputs(job_of(network, model_of()))
    monkeypatch.setattr(pt2, "network_and_inputs", lambda _job: inputs)
    for device, error in (("cpu", on_cpu), ("cuda", on_gpu)):
        with pytest.raises(error) as caught:
            pt2.convert(job_of(network, model_of(), device=device), tmp_path / "model.pt2")
        assert "'at' is no member" in str(caught.value) or "m.cpp:7" not in problem
    assert list(tmp_path.iterdir()) == []
