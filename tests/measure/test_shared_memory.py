"""Answers that come through shared memory: what can go wrong on that way alone is found, and nothing stays behind."""

import dataclasses
import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.accuracy.compare_answers import Closeness, expect
from fixtures.errors import NotAvailableError, ProofError
from fixtures.host import machine
from fixtures.measure import shared_memory
from fixtures.measure.job import Check, Job, SharedMemory
from fixtures.measure.load_data import LoadData
from fixtures.measure.shared_memory import Cudart
from fixtures.measure.verifying import ask_once, ask_server, verify
from fixtures.serve.server import Server
from fixtures.spec import LoadPoint
from reports.record.schema import VerifiedAnswers
from tests import toy
from tests.measure.memory_server import INPUTS, OUTPUTS, Fault, StandIn, answers, memory_server

MEMORY = Path("/dev/shm")
POINTS = [LoadPoint("online", 1, 3), LoadPoint("offline", 4, 1)]


def job_of(
    server: Server, point: LoadPoint = POINTS[0], *, samples: int = 7, through: SharedMemory = "system"
) -> Job:
    """A load point of the server's model, with the right answers."""
    generator = np.random.default_rng(0)
    rows: dict[str, np.ndarray] = {
        "VALUES": generator.standard_normal((samples, 5)).astype(np.float32),
        "COUNT": generator.integers(100, 1000, (samples, 1)),
    }
    ids = [f"row-{number}" for number in range(samples)]
    check = Check(expect(ids, answers(rows["VALUES"], rows["COUNT"])), Closeness(1e-4, 5e-4, 1.0))
    model = dataclasses.replace(toy.model(), inputs=INPUTS, outputs=OUTPUTS)
    return Job(server, "m", model, point, through, LoadData(Path(), ids, rows), check=check)


def look(job: Job) -> VerifiedAnswers:
    assert job.check is not None
    return verify(job.check, ask_server(job, 0.05), 0.05)


@pytest.fixture(autouse=True)
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU of the tests' own."""
    monkeypatch.setattr(shared_memory, "Cudart", StandIn)


@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("through", ["system", "cuda", "none"])
def test_right_answers_are_right_through_shared_memory_and_through_messages(
    point: LoadPoint, through: SharedMemory
) -> None:
    with memory_server() as (server, seen):
        found = look(job_of(server, point, through=through))

    assert found.verified == found.requests * point.batch > 0
    assert found.wrong == 0
    assert (seen.sent_bytes == 0) == (through != "none")
    assert bool(seen.keys) == (through == "system")
    assert bool(seen.handles) == (through == "cuda")
    assert not seen.regions
    assert not StandIn.memory


@pytest.mark.parametrize(
    "fault", ["writes half", "another's place", "reads the first", "in the message", "longer"]
)
@pytest.mark.parametrize("through", ["system", "cuda"])
def test_a_fault_of_the_way_through_shared_memory_is_found(fault: Fault, through: SharedMemory) -> None:
    with memory_server(fault) as (server, _seen):
        found = look(job_of(server, through=through))
        in_messages = look(job_of(server, through="none"))

    assert found.wrong > 0
    assert found.first_wrong is not None
    assert in_messages.wrong == (in_messages.verified if fault == "longer" else 0), "it is that way's alone"


def test_the_answer_that_lies_there_from_the_request_before_is_not_taken_for_the_next() -> None:
    """One sample alone, so that what the server wrote once is right each time it writes nothing."""
    with memory_server("writes once") as (server, _seen):
        job = job_of(server, LoadPoint("online", 1, 1), samples=1)
        assert job.check is not None
        found = verify(job.check, ask_once(job, [np.array([0])] * 20), 0.0)

    assert (found.verified, found.wrong) == (20, 19)
    assert found.first_wrong is not None
    assert found.first_wrong.given in ("nan", "-1")


def test_requests_that_are_sent_once_go_the_same_way() -> None:
    with memory_server() as (server, seen):
        job = job_of(server)
        got = ask_once(job, [np.array([5, 2]), np.array([1, 1]), np.array([0, 6]), np.array([3, 4])])

    assert job.check is not None
    assert sorted(tuple(one.samples) for one in got) == [(0, 6), (1, 1), (3, 4), (5, 2)]
    assert verify(job.check, got, 0.0).wrong == 0
    assert seen.sent_bytes == 0


@pytest.mark.parametrize("in_use", [0, 3], ids=["at once", "when it lets go of the last request"])
def test_nothing_of_it_stays_with_the_server_or_in_the_memory_s_folder(in_use: int) -> None:
    scratch = Path(f"tritonproof-{secrets.token_hex(8)}")
    with memory_server(scratch=scratch, in_use=in_use) as (server, seen):
        look(job_of(server))
        look(job_of(server))

    assert len(set(seen.keys)) == 2, "each has a name of its own"
    assert all(key.startswith(scratch.name) for key in seen.keys), "what the server's guard removes"
    assert not seen.regions
    assert not list(MEMORY.glob(f"{scratch.name}*"))


def test_a_killed_process_leaves_no_name_behind_since_there_is_none_once_the_server_has_the_memory() -> None:
    with memory_server() as (server, seen), shared_memory.shared_region(server, 100, "m") as (_name, memory):
        (key,) = seen.keys
        assert not (MEMORY / key).exists()
        memory[:3] = b"abc"
        (region,) = seen.regions.values()
        assert region[:3] == b"abc"


def test_a_request_that_fails_is_an_error_and_leaves_nothing() -> None:
    with memory_server() as (server, seen):
        with pytest.raises(ProofError, match="unknown model"):
            look(dataclasses.replace(job_of(server), name="gone"))
        assert not seen.regions
        assert not (MEMORY / seen.keys[0]).exists()


def test_a_server_that_takes_no_memory_of_clients_is_an_error_with_its_words_and_leaves_nothing() -> None:
    with (
        memory_server(refuses=True) as (server, seen),
        pytest.raises(ProofError, match="not allowed") as raised,
    ):
        look(job_of(server))

    assert "--shared-memory none" in raised.value.fix
    assert not (MEMORY / seen.keys[0]).exists()


def test_a_server_that_takes_no_cuda_memory_is_an_error_and_leaves_nothing() -> None:
    with memory_server(refuses=True) as (server, _seen), pytest.raises(ProofError) as raised:
        look(job_of(server, through="cuda"))
    assert "--shared-memory system" in raised.value.fix
    assert not StandIn.memory


def test_what_cannot_be_verified_in_cuda_memory_is_not_measured_there() -> None:
    with memory_server() as (server, _seen):
        job = job_of(server, through="cuda")
        outputs = (dataclasses.replace(OUTPUTS[0], shape=(-1,)), OUTPUTS[1])
        with pytest.raises(NotAvailableError):
            look(dataclasses.replace(job, model=dataclasses.replace(job.model, outputs=outputs)))


def test_the_real_library_has_what_is_called_of_it_and_tells_what_is_missing() -> None:
    """perf_analyzer brings it, on a CPU too; there its first call fails with CUDA's own words."""
    real = Cudart()
    for name in shared_memory.FUNCTIONS:
        assert hasattr(real._library, name), name
    if not machine.gpus():
        with pytest.raises(OSError, match="cudaMalloc: "):
            real.allocate(1)


def test_memory_that_is_not_there_is_an_error_before_anything_is_written_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_call: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with memory_server() as (server, seen), pytest.raises(ProofError, match="No space left") as raised:
        look(job_of(server))

    assert "shm-size" in raised.value.fix
    assert not seen.keys


def test_only_this_user_can_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    with memory_server() as (server, _seen), ExitStack() as stack:
        register = server.client.register_system_shared_memory

        def watched(name: str, *arguments: Any, **options: Any) -> None:
            modes.append((MEMORY / name).stat().st_mode & 0o777)
            register(name, *arguments, **options)

        monkeypatch.setattr(server.client, "register_system_shared_memory", watched)
        stack.enter_context(shared_memory.shared_region(server, 100, "m"))

    assert modes == [0o600]
