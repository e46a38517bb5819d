"""AOTInductor packages: right at every batch size, built silently, opened without a compiler."""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from tests.formats.converting import ON_CPU, Small, job_of, samples_of
from tritonproof.base.errors import NotAvailableError, ProofError
from tritonproof.build import runtime_files
from tritonproof.formats import pt2
from tritonproof.frameworks.pytorch import infer
from tritonproof.models import all_models
from tritonproof.spec import Arrays, ConversionJob, NetworkModel

MAX_BATCH = 6


def arrays(count: int) -> Arrays:
    """The inputs of the first samples."""
    return samples_of("evaluation").read(range(count))


class Built(NamedTuple):
    """A package, and everything else that its conversion left."""

    path: Path
    activities: list[str]
    files: list[Path]
    environment: dict[str, str]


@pytest.fixture(scope="module")
def built(model: NetworkModel, network: Small, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Compiled once, with one thread; the tests run it with two."""
    root = tmp_path_factory.mktemp("package")
    build, home, temporary, current = (root / name for name in ("build", "home", "temporary", "current"))
    for folder in (build, home, temporary, current):
        folder.mkdir()
    activities: list[str] = []
    path, threads = build / "model.pt2", torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.chdir(current)
        # Otherwise PyTorch compiles a program for each kind of vector instructions, to see whether it can.
        patch.setattr(torch._inductor.config.cpp, "vec_isa_ok", True)
        before = dict(os.environ)
        torch.set_num_threads(1)
        try:
            pt2.convert(job_of(model, network, max_batch_size=MAX_BATCH, on_progress=activities.append), path)
        finally:
            torch.set_num_threads(threads)
        changed = {name: value for name, value in os.environ.items() if before.get(name) != value}
    files = [file for file in root.rglob("*") if file.is_file()]
    return Built(path, activities, files, changed)


def open_package(built: Built) -> Callable[[Arrays], list[np.ndarray]]:
    predict = runtime_files.load_runtime("pytorch.py").load(built.path, ON_CPU)
    return lambda inputs: predict(list(inputs.values()))


def error_of(network: Small, inputs: Arrays, found: Sequence[np.ndarray]) -> float:
    """The largest error of the output over the largest output."""
    expected = infer(network, inputs, ("y",))["y"]
    (outputs,) = found
    assert outputs.dtype == np.float32
    assert outputs.shape == expected.shape
    return float(np.abs(outputs - expected).max() / np.abs(expected).max())


def assert_equal_to_framework(network: Small, inputs: Arrays, found: Sequence[np.ndarray]) -> None:
    assert error_of(network, inputs, found) <= pt2.PT2.tolerances["fp32"].max_relative_error


def test_package_matches_framework_at_every_batch(built: Built, network: Small) -> None:
    predict = open_package(built)
    for batch in range(1, MAX_BATCH + 1):
        assert_equal_to_framework(network, arrays(batch), predict(arrays(batch)))


@pytest.mark.parametrize(
    ("precision", "most", "least_error"), [("fp32", 1, 0.0), ("bf16", MAX_BATCH, 1e-4)], ids=["alone", "bf16"]
)
def test_export_is_right_in_its_precision(
    precision: str, most: int, least_error: float, model: NetworkModel, network: Small
) -> None:
    """FP32 does not round so far as BF16, and the largest batch may be 1."""
    job = job_of(model, network, precision, max_batch_size=most)
    exported = pt2.exported_program(job).module()
    for batch in {1, most // 2, most} - {0}:
        error = error_of(network, arrays(batch), list(infer(exported, arrays(batch), ("y",)).values()))
        assert least_error <= error <= pt2.PT2.tolerances[precision].max_relative_error


def test_export_takes_several_inputs_of_any_batch() -> None:
    micro = next(model for model in all_models() if model.name == "bert-dist4l-micro")
    job = job_of(micro)
    exported = pt2.exported_program(job).module()
    for batch in (1, 3):
        inputs = micro.samples("evaluation", None, None).read(range(batch))
        for name, values in micro.infer(exported, inputs).items():
            np.testing.assert_allclose(values, micro.infer(job.network, inputs)[name], atol=1e-3)


def test_inputs_may_have_any_memory_layout(built: Built, network: Small) -> None:
    predict, inputs = open_package(built), arrays(4)
    channels_last = np.ascontiguousarray(inputs["x"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    every_second = np.repeat(inputs["x"], 2, axis=0)[::2]
    assert not channels_last.flags.c_contiguous
    assert not every_second.flags.c_contiguous
    # Triton passes views into the middle of a buffer.
    shifted = np.frombuffer(bytearray(4) + inputs["x"].tobytes(), np.float32, offset=4)
    assert shifted.ctypes.data % 64
    for x in (channels_last, every_second, shifted.reshape(inputs["x"].shape)):
        assert_equal_to_framework(network, inputs, predict({"x": x}))


def test_batch_normalization_is_folded_into_convolution_weights(built: Built) -> None:
    loader = torch._C._aoti.AOTIModelPackageLoader(str(built.path), "model", False, 1, -1)
    constants = loader.get_constant_fqns()
    assert constants
    assert not [name for name in constants if name.startswith(("conv.", "norm."))]


def test_conversion_leaves_a_single_file(built: Built) -> None:
    assert built.activities
    assert (built.environment, built.files) == ({}, [built.path])


def test_package_opens_without_compiler_and_temporary_files(
    built: Built, network: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    probes = AssertionError("this finds the CPU's vector instructions by compiling for each")
    monkeypatch.setattr("torch._inductor.codecache.get_device_information", Mock(side_effect=probes))
    predict = open_package(built)
    assert_equal_to_framework(network, arrays(2), predict(arrays(2)))
    assert list(tmp_path.iterdir()) == [], "what is unpacked would stay when the process is killed"


def test_format_is_missing_without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    assert "g++" in str(pt2.PT2.why_missing("cpu", None, "fp32"))
    monkeypatch.undo()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "no-such-compiler" in str(pt2.PT2.why_missing("cpu", None, "fp32"))
    monkeypatch.setenv("CXX", str(shutil.which("env")))
    assert pt2.PT2.why_missing("cpu", None, "fp32") is None


@pytest.mark.parametrize(
    ("problem", "errors"),
    [
        ("CUDA_HOME environment variable is not set. Please set it.", (ProofError, NotAvailableError)),
        (
            "m.cpp:1:10: fatal error: cuda_runtime.h: No such file or directory",
            (ProofError, NotAvailableError),
        ),
        ("/usr/bin/ld: cannot find -lcuda: No such file or directory", (ProofError, NotAvailableError)),
        ("much\nm.cpp:7:1: error: 'at' is no member\nmore", (ProofError, ProofError)),
        ("fatal error: error writing to m.s: No space left on device", (OSError, OSError)),
    ],
)
def test_failing_compiler_leaves_nothing(
    problem: str, errors: Any, job: ConversionJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler's message decides whether the case fails or, on a GPU, is not available."""
    compiled = Mock(side_effect=RuntimeError(problem))
    monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", compiled)
    inputs = pt2.network_and_inputs(job)
    monkeypatch.setattr(pt2, "network_and_inputs", lambda _job: inputs)
    for device, error in zip(("cpu", "cuda"), errors, strict=True):
        with pytest.raises(error) as caught:
            pt2.convert(job_of(job.model, job.network, device=device), tmp_path / "model.pt2")
        assert "'at' is no member" in str(caught.value) or "m.cpp:7" not in problem
    assert list(tmp_path.iterdir()) == []
