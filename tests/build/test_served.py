"""The server gets a build as written, and does not change it."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from fixtures.build import runtimes
from fixtures.efficiency.in_process import in_process
from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice
from tests.build.conversions import DEPLOYMENT, MICRO, ONNX, build, case_with, writing

RUNTIME = (
    "def load(artifact, settings):\n    return lambda arrays: [arrays[0].reshape(len(arrays[0]), -1)[:, "
    ":10]]\n"
)
ONES = {"INPUT__0": np.ones((1, *MICRO.inputs[0].shape), np.float32)}


@pytest.fixture
def own_runtimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runtimes; the format's own answers with a part of its input."""
    folder = tmp_path / "runtimes"
    folder.mkdir()
    shutil.copyfile(runtimes.RUNTIMES / "model.py", folder / "model.py")
    (folder / ONNX.runtime).write_text(RUNTIME)
    monkeypatch.setattr(runtimes, "RUNTIMES", folder)


def test_serving_leaves_build_unchanged(own_runtimes: None, tmp_path: Path) -> None:
    """Neither Python writes bytecode, nor the stub, which no environment variable keeps from doing so.

    The server ignores a version that somebody adds meanwhile.
    """
    case, deployment = case_with(writing("converted")), structs.replace(DEPLOYMENT, warmup=False)
    built = build(case, tmp_path / "repos", deployment=deployment)
    beside = built.folder / "2"
    shutil.copytree(built.folder / "1", beside)
    (beside / "runtime.py").write_text(RUNTIME.replace("lambda arrays: [", "lambda arrays: [2 * "))
    with serve(Choice("embedded"), built.folder.parent, tmp_path / "log", device="cpu") as server:
        server.load(built, deployment, "online")
        (answer,) = server.infer(str(case), MICRO, ONES).values()
    assert answer.tolist() == [[1.0] * 10]
    shutil.rmtree(beside)
    with in_process(built, deployment, ONES) as worker:
        worker.wait_ready()
    assert build(case, tmp_path / "repos", deployment=deployment).reused
    assert not list(built.folder.rglob("*.pyc"))
