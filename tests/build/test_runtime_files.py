"""Engines are cached in a private folder of each build; the server gets a build as written, unchanged."""

import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from tests.build.conversions import MICRO, ONNX, UP_TO_32, build, case_with, writing
from tritonproof.base.errors import SetupError
from tritonproof.build import runtime_files
from tritonproof.build.runtime_files import engine_folder
from tritonproof.efficiency.worker import artifact_worker
from tritonproof.frameworks.gpu_libraries import TensorRT
from tritonproof.host import nvml, scratch
from tritonproof.host.targets import recognise
from tritonproof.record.setup import ConfigVariant
from tritonproof.serve.launch import serve
from tritonproof.serve.loading import load_build
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import Case

CASE = Case(recognise("NVIDIA A100"), MICRO, ONNX, "trt", "fp16")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "user_folder", lambda: tmp_path / "tritonproof")


def test_each_build_and_version_of_tensorrt_and_cuda_has_a_lasting_engine_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Engines are named after a graph's nodes, so engines of other weights would be confused. ONNX Runtime
    fails on an engine of another version, and does not rebuild it."""
    folders = {engine_folder(CASE, "0f3c"), engine_folder(CASE, "77aa")}
    assert {engine_folder(CASE, "0f3c")} < folders
    monkeypatch.setattr(runtime_files, "installed_tensorrt", lambda: TensorRT("tensorrt-cu13", "10.14.1.48"))
    folders |= {engine_folder(CASE, "0f3c"), engine_folder(CASE, "0f3c", tensorrt="10.5.0.18")}
    monkeypatch.setattr(nvml, "cuda_of_driver", lambda: 14)
    folders.add(engine_folder(CASE, "0f3c"))
    assert len(folders) == 5


def test_engine_folder_is_private_to_user(tmp_path: Path) -> None:
    """An engine holds code, which its reader runs."""
    folder = Path(engine_folder(CASE, "0f3c"))
    for path in (folder, folder.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    folder.with_name(folder.name.replace("0f3c", "77aa")).symlink_to(tmp_path)
    with pytest.raises(SetupError):
        engine_folder(CASE, "77aa")


RUNTIME = """
def load(artifact, parameters):
    return lambda arrays: [arrays[0].reshape(len(arrays[0]), -1)[:, :10]]
"""
ONES = {"INPUT__0": np.ones((1, *MICRO.inputs[0].shape), np.float32)}


def test_serving_leaves_build_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Python writes bytecode, nor the stub, which no environment variable keeps from doing so. The
    server ignores a version that somebody adds meanwhile."""
    own_runtimes = tmp_path / "runtimes"
    own_runtimes.mkdir()
    shutil.copyfile(runtime_files.RUNTIMES / "model.py", own_runtimes / "model.py")
    (own_runtimes / ONNX.runtime.file).write_text(RUNTIME)
    monkeypatch.setattr(runtime_files, "RUNTIMES", own_runtimes)
    case, deployment = case_with(writing("converted")), structs.replace(UP_TO_32, warmup=False)
    built = build(case, tmp_path / "repos", deployment=deployment)
    beside = built.folder / "2"
    shutil.copytree(built.folder / "1", beside)
    (beside / "runtime.py").write_text(RUNTIME.replace("lambda arrays: [", "lambda arrays: [2 * "))
    with serve(ServerSpec("embedded"), ServerSetup(built.folder.parent, tmp_path / "log", "cpu")) as server:
        load_build(server, built, ConfigVariant("online", deployment))
        (answer,) = server.infer(str(case), MICRO, ONES).values()
    assert answer.tolist() == [[1.0] * 10]
    shutil.rmtree(beside)
    with artifact_worker(built, deployment, ONES) as worker:
        worker.wait_ready()
    assert build(case, tmp_path / "repos", deployment=deployment).reused
    assert not list(built.folder.rglob("*.pyc"))
