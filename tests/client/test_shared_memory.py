"""Shared memory under load: its own faults are found, and nothing but others' segments stays behind."""

import ctypes
import dataclasses
import mmap
import secrets
import subprocess
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests import toy
from tests.client.memory_server import INPUTS, OUTPUTS, Fault, StandIn, answers, memory_server
from tests.fake_perf_analyzer import FakePerfAnalyzer, server_of
from tests.helpers import give_to_another_user, present
from tritonproof.base.errors import ProofError
from tritonproof.client import shared_memory
from tritonproof.client.input_data import InputData, input_data
from tritonproof.client.requests import ServedModel, SharedMemory
from tritonproof.client.shared_memory import CudaMemory
from tritonproof.host import machine, scratch
from tritonproof.host.scratch import SHARED_MEMORY_FOLDER
from tritonproof.measure import perf_analyzer
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.verifying import ask_server
from tritonproof.record import correctness, speed
from tritonproof.serve.server import Server
from tritonproof.spec import Tensor

POINTS = [speed.LoadPoint("online", 1, 3), speed.LoadPoint("offline", 4, 1)]


def job_of(
    server: Server, point: speed.LoadPoint = POINTS[0], *, samples: int = 7, through: SharedMemory = "system"
) -> LoadJob:
    """A load point of the server's model, with the right answers."""
    generator = np.random.default_rng(0)
    rows: dict[str, np.ndarray] = {
        "VALUES": generator.standard_normal((samples, 5)).astype(np.float32),
        "COUNT": generator.integers(100, 1000, (samples, 1)),
    }
    ids = [f"row-{number}" for number in range(samples)]
    expected = toy.expected_answers(ids, answers(rows["VALUES"], rows["COUNT"]))
    model, data = toy.model(inputs=INPUTS, outputs=OUTPUTS), InputData(ids, rows)
    return LoadJob(ServedModel(server, "m", model, data), point, through, expected_answers=expected)


def look(job: LoadJob) -> correctness.AnswerComparison:
    return present(job.expected_answers).compare(ask_server(job, 0.05)).result


@pytest.fixture(autouse=True)
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated GPU."""
    monkeypatch.setattr(shared_memory, "CudaMemory", StandIn)


@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("through", ["system", "cuda", "none"])
def test_shared_memory_transports_give_right_answers(point: speed.LoadPoint, through: SharedMemory) -> None:
    with memory_server() as (server, seen):
        checked = look(job_of(server, point, through=through))
    assert checked.count >= point.batch
    assert checked.wrong == 0
    assert (seen.sent_bytes == 0) == (through != "none")
    assert (bool(seen.keys), bool(seen.handles)) == (through == "system", through == "cuda")
    assert not seen.regions
    assert not StandIn.memory


@pytest.mark.parametrize(
    "fault", ["writes half", "another's slice", "reads the first", "in the message", "longer"]
)
@pytest.mark.parametrize("through", ["system", "cuda"])
def test_shared_memory_fault_is_found(fault: Fault, through: SharedMemory) -> None:
    with memory_server(fault) as (server, _seen):
        checked = look(job_of(server, through=through))
        in_messages = look(job_of(server, through="none"))
    assert checked.wrong > 0
    assert checked.first_wrong is not None
    assert in_messages.wrong == (in_messages.count if fault == "longer" else 0), "it is that way's alone"


def test_stale_answer_in_shared_memory_is_detected() -> None:
    """A single sample: the answer that the server wrote once would stay right if it were not erased."""
    with memory_server("writes once") as (server, _seen):
        job = job_of(server, speed.LoadPoint("online", 1, 1), samples=1)
        given = job.served.ask([[0]] * 20, shared_memory="system")
        checked = present(job.expected_answers).compare(given).result
    assert (checked.count, checked.wrong) == (20, 19)
    assert present(checked.first_wrong).actual in ("nan", "-1")


def test_region_is_private_and_never_stays_registered_or_on_disk() -> None:
    """The server first refuses to let go of one, as a request uses it."""
    scratch = Path(f"tritonproof-{secrets.token_hex(8)}")
    with memory_server(scratch=scratch, in_use=3) as (server, seen):
        with shared_memory.shared_region(server, 100, "m"):
            assert seen.modes == [0o600]
            assert not (SHARED_MEMORY_FOLDER / seen.keys[0]).exists(), "a killed process leaves none behind"
        look(job_of(server))

    assert len(set(seen.keys)) == 2, "each has a name of its own"
    assert all(key.startswith(scratch.name) for key in seen.keys), "what the server's guard removes"
    assert not seen.regions
    assert not list(SHARED_MEMORY_FOLDER.glob(f"{scratch.name}*"))


@pytest.mark.parametrize(
    ("through", "model"),
    [("system", "m"), ("cuda", "m"), ("system", "gone")],
    ids=["system memory", "CUDA memory", "a request"],
)
def test_refused_region_is_an_error_and_leaves_nothing(through: SharedMemory, model: str) -> None:
    fix = "another --shared-memory" if model == "m" else ""
    with memory_server(refuses=model == "m") as (server, seen):
        job = job_of(server, through=through)
        with pytest.raises(ProofError, check=lambda error: fix in str(error.fix)):
            look(dataclasses.replace(job, served=dataclasses.replace(job.served, name=model)))
        assert not seen.regions
    assert not StandIn.memory
    assert not any((SHARED_MEMORY_FOLDER / key).exists() for key in seen.keys)


@pytest.mark.skipif(bool(machine.gpus()), reason="needs a machine without a GPU, where CUDA refuses")
def test_cuda_library_error_names_its_call() -> None:
    """perf_analyzer ships the library, on a CPU too."""
    with pytest.raises(OSError, match="cudaMalloc"):
        CudaMemory(1)


def test_cuda_memory_is_offset_in_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    block, freed = [0x1000], []

    class Library:
        cudaGetErrorString = SimpleNamespace()  # noqa: N815 - CUDA's name

        def cudaMalloc(self, pointer: Any, _size: object) -> int:  # noqa: N802
            pointer._obj.value = block[-1]
            block.append(block[-1] + 512)
            return 0

        def cudaFree(self, address: Any) -> int:  # noqa: N802
            freed.append(address.value)
            return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda _path: Library())
    memory = CudaMemory(64)
    assert memory._at(slice(0, 64)).value != block[0]
    memory.free()
    assert sorted(freed) == block[:-1]


def test_full_shared_memory_is_an_error_before_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.posix_fallocate", Mock(side_effect=OSError(28, "No space left on device")))
    with (
        memory_server() as (server, seen),
        pytest.raises(ProofError, check=lambda error: "--shm-size" in error.fix),
    ):
        look(job_of(server))
    assert not seen.keys


USING = """\
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    memory = mmap.mmap(file.fileno(), 0)
print("mapped", flush=True)
sys.stdin.read()
"""


def test_left_segments_are_removed_unless_another_process_uses_them() -> None:
    """The other server would crash if this run's load generator shrank its memory."""
    name = f"test{uuid.uuid4().hex}"
    inputs, outputs = (Tensor(f"{name}/IN", "FP32", (4,)),), (Tensor(f"{name}_OUT", "FP32", (4,)),)
    model = toy.model(inputs=inputs, outputs=outputs)
    job = LoadJob(dataclasses.replace(toy.job(POINTS[0]).served, model=model), POINTS[0], "system")
    unused, used = (SHARED_MEMORY_FOLDER / segment for segment in (f"{name}IN_0_12", f"{name}_OUT"))
    for path in (unused, used):
        path.write_bytes(b"\0" * mmap.PAGESIZE)
    command = [sys.executable, "-c", USING, str(used)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert present(other.stdout).readline() == b"mapped\n"
        with pytest.raises(ProofError, check=lambda error: str(error.where).startswith(str(used))):
            perf_analyzer.remove_stale_regions(job)
        assert used.stat().st_size == mmap.PAGESIZE
        other.communicate()
    perf_analyzer.remove_stale_regions(job)
    assert not unused.exists()
    assert not used.exists()


def test_memory_of_dead_analyzer_goes_once_server_lets_go(tmp_path: Path, analyzer: FakePerfAnalyzer) -> None:
    analyzer.plan("killed", "good")
    segment, held = scratch.SHARED_MEMORY_FOLDER / toy.OUTPUT, list[Any]()

    def unregister(**_options: Any) -> None:
        """At first the server still has the memory, as it is at work on a request."""
        if held:
            held[0].close()
        else:
            held.append(segment.open("xb"))

    server, model = server_of(tmp_path), toy.model()
    server.client.unregister_system_shared_memory = unregister
    with input_data(model, toy.samples(), None) as data:
        perf_analyzer.run_pass(LoadJob(ServedModel(server, "toy", model, data), POINTS[0], "system"), 0.12)

    assert not segment.exists()


def test_segment_of_another_user_stops_the_pass(tmp_path: Path, analyzer: FakePerfAnalyzer) -> None:
    other = scratch.SHARED_MEMORY_FOLDER / toy.OUTPUT
    other.touch()
    give_to_another_user(other)
    model, point = toy.model(), speed.LoadPoint("online", 1, 4)

    with input_data(model, toy.samples(), None) as data:
        job = LoadJob(ServedModel(server_of(tmp_path), "toy", model, data), point, "system")
        with pytest.raises(ProofError, check=lambda error: error.where == f"{other} of user 12345"):
            perf_analyzer.run_pass(job, 0.12)
        perf_analyzer.run_pass(dataclasses.replace(job, shared_memory="none"), 0.12)

    assert other.exists()
    assert len(analyzer.calls) == 1
