"""The in-process worker."""

import contextlib
import dataclasses
import itertools
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from msgspec import structs

from tests import toy
from tritonproof.base.errors import ProofError
from tritonproof.build.builds import CaseBuild
from tritonproof.efficiency import worker as process_module
from tritonproof.efficiency import worker_main
from tritonproof.efficiency.worker import artifact_worker
from tritonproof.host import machine, scratch

SAMPLE = np.array([[1, 2, 3, 4]], np.float32)

NOTING = """
import json
def load(artifact, parameters):
    def predict(arrays):
        (artifact.parent / "seen.json").write_text(json.dumps([arrays[0].tolist(), parameters, str(artifact)]))
        return arrays
    return predict
"""
SIZES = """
def load(artifact, parameters):
    def predict(arrays):
        with (artifact.parent / "sizes").open("a") as file:
            file.write(f"{len(arrays[0])} ")
        return arrays
    return predict
"""
BROKEN = "def load(artifact, parameters):\n    raise RuntimeError('no such operator')\n"
DYING = "import os\ndef load(artifact, parameters):\n    return lambda arrays: os.kill(os.getpid(), 9)\n"
HANGING = "import time\ndef load(artifact, parameters):\n    return lambda arrays: time.sleep(60)\n"


def sample_of(build: CaseBuild) -> dict[str, np.ndarray]:
    return {build.case.model.inputs[0].name: SAMPLE}


def run_once(build: CaseBuild, batch: int = 1) -> None:
    with artifact_worker(build, toy.DEPLOYMENT, sample_of(build)) as worker:
        worker.wait_ready()
        worker.measure_per_s(batch, 0, 1)


@pytest.mark.parametrize(
    ("backend", "resident", "spinning"), [("onnxruntime", False, True), ("python", True, False)]
)
def test_worker_runs_runtime_with_backend_parameters(
    tmp_path: Path, *, backend: str, resident: bool, spinning: bool
) -> None:
    """The worker runs a batch of samples with all threads of the server's instances, which spin if those of
    the backend do. A file beside the runtime does not hide a package that it imports."""
    build = toy.make_build(tmp_path, "noting", f"import colorsys{NOTING}")
    build.artifact.with_name("colorsys.py").write_text("raise RuntimeError('this is no package')")
    deployment, sample = structs.replace(toy.DEPLOYMENT, instances=2), sample_of(build)
    with artifact_worker(build, deployment, sample, backend=backend, resident=resident) as worker:
        worker.wait_ready()
        worker.measure_per_s(3, 0, 1)
        assert json.loads((worker.folder / "task.json").read_text())["resident"] is resident
    rows, parameters, artifact = json.loads((build.artifact.parent / "seen.json").read_text())
    assert rows == SAMPLE.tolist() * 3
    assert artifact == str(build.artifact)
    assert parameters["device"] == "cpu"
    assert parameters["threads"] == str(worker.threads) == str(machine.cores())
    assert worker.spinning is (parameters.get("spinning", "0") == "1") is spinning


SAMPLES = [np.ones((2, 3), np.float32)]


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls to a GPU that fake PyTorch tensors and streams simulate."""
    calls: list[str] = []
    is_copied = itertools.count(1)

    def noted(call: str, result: Any) -> Any:
        def note(*_arguments: Any, non_blocking: bool = True) -> Any:
            calls.append(call if non_blocking else f"{call} and wait")
            return result

        return note

    on_gpu = SimpleNamespace(record_stream=lambda _stream: None)
    host = SimpleNamespace(shape=(2, 3), copy_=noted("copy out", None))
    stream = SimpleNamespace(
        record_event=lambda: next(is_copied),
        wait_event=lambda event: calls.append(f"wait for copy {event}"),
        synchronize=lambda: calls.append("wait"),
    )
    monkeypatch.setattr(torch.cuda, "Stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _stream: contextlib.nullcontext())
    pinned = {"dtype": torch.float32, "pin_memory": True}
    monkeypatch.setattr(torch, "empty", lambda _shape, **how: host if how == pinned else None)
    copied_in = SimpleNamespace(to=noted("copy in", on_gpu))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda _tensor: copied_in)
    monkeypatch.setattr(torch.Tensor, "to", noted("lay on the GPU", None))
    return calls


BACK = ["compute", "copy out", "wait"]


@pytest.mark.parametrize(
    ("is_resident", "expected"),
    [
        (False, ["copy in", *("copy in", "wait for copy 1", *BACK), *("copy in", "wait for copy 2", *BACK)]),
        (True, ["lay on the GPU", "compute", "compute"]),
    ],
)
def test_gpu_copies_overlap_unless_data_is_resident(
    *, is_resident: bool, expected: list[str], cuda: list[str]
) -> None:
    def predict(_tensors: Any) -> list[torch.Tensor]:
        cuda.append("compute")
        return [torch.ones(2, 3)]

    timed, batch_of = worker_main.on_tensors(predict, "cuda", is_resident=is_resident)
    assert len(worker_main.time_batches(timed, batch_of(iter(SAMPLES)), 0, 2)) == 2
    assert cuda == expected


def test_overlapped_copy_skips_batch_of_another_run(cuda: list[str]) -> None:
    timed, batch_of = worker_main.on_tensors(lambda _tensors: [], "cuda", is_resident=False)
    for _batch in range(2):
        worker_main.time_batches(timed, batch_of(iter(SAMPLES)), 0, 1)
    assert [call for call in cuda if "wait for" in call] == ["wait for copy 1", "wait for copy 3"]


def test_accelerator_first_builds_for_all_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server does, so that both compute with engines of the same range of sizes."""
    monkeypatch.setattr(scratch, "user_folder", lambda: tmp_path / "tritonproof")
    build = toy.make_build(tmp_path, "sizes", SIZES)
    run_once(build, 3)
    run_once(dataclasses.replace(build, case=dataclasses.replace(build.case, accelerator="trt")), 3)
    assert (build.artifact.parent / "sizes").read_text() == "3 1 4 3 "


def test_worker_runs_as_long_as_asked_and_then_ends(tmp_path: Path) -> None:
    """Its rate counts for each of the two GPUs on which the case is served."""
    build = toy.make_build(tmp_path, "sleeping", toy.SLEEPING.format(seconds=0.005))
    build = dataclasses.replace(build, case=dataclasses.replace(build.case, gpus=2))
    with artifact_worker(build, toy.DEPLOYMENT, sample_of(build)) as worker:
        worker.wait_ready()
        for batch, seconds, least in ((1, 0.2, 1), (4, 0, 40)):
            started = time.monotonic()
            per_s = worker.measure_per_s(batch, seconds, least)
            elapsed_s = time.monotonic() - started
            assert 2 * batch * least / elapsed_s < per_s < 2 * batch * 200, "each takes 5 ms and more"
            assert elapsed_s > 0.2, "as long as asked, or forty batches"
        assert worker.process.poll() is None
    assert worker.process.poll() is not None
    assert not worker.folder.exists()


@pytest.mark.parametrize(
    ("runtime", "said"),
    [(BROKEN, "no such operator"), (DYING, "SIGKILL, as where memory runs out"), (HANGING, "")],
    ids=["cannot load", "dies", "hangs"],
)
def test_failing_worker_is_an_error_with_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str, said: str
) -> None:
    if runtime == HANGING:
        monkeypatch.setattr(process_module, "REQUEST_S", 1.0)
    build = toy.make_build(tmp_path, "failing", runtime)
    with pytest.raises(ProofError, match=rf"(?s){said}.*\n  where: {build.case}\n"):
        run_once(build)
