"""One run of the load generator: what it is told, and what becomes of its good and bad runs."""

import base64
import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.measure import estimates, perf_analyzer
from fixtures.measure.job import Job, Run
from fixtures.measure.load_data import input_data
from fixtures.measure.stopping import window_for
from fixtures.spec import LoadPoint, Model, Tensor
from tests import toy
from tests.measure.generator import LATENCY_MS, Generator, option, server_of

ONLINE = LoadPoint("online", 1, 4)
WINDOW_S = 0.12


@pytest.fixture
def run(tmp_path: Path, generator: Generator) -> Callable[..., Run]:
    """One good run on the toy model."""

    def run(point: LoadPoint = ONLINE, model: Model | None = None, **changes: Any) -> Run:
        toy_model = model or toy.model()
        server = changes.pop("server", server_of(tmp_path))
        with input_data(toy_model, toy.samples(), None) as data:
            job = Job(server, "toy", toy_model, point, changes.pop("shared_memory", "system"), data)
            return perf_analyzer.take(job, WINDOW_S)

    return run


def rate(run: Run) -> float:
    """Requests per second."""
    return estimates.throughput([run.steady])


# --- good runs ---------------------------------------------------------------------------------------------


def test_a_run_yields_timestamps_and_components(run: Callable[..., Run]) -> None:
    found = run()

    assert rate(found) == pytest.approx(ONLINE.concurrency * 1000 / LATENCY_MS, rel=1e-6)
    assert found.components_us == {
        "client_send": 100,
        "network_server_send_recv": 200,
        "server_queue": 300,
        "server_compute_input": 400,
        "server_compute_infer": 8000,
        "server_compute_output": 600,
        "client_recv": 400,
    }
    assert found.elapsed_s >= found.cpu.children_s > 0
    assert found.damaged == ()


def test_the_command_names_the_model_the_server_and_the_point(
    run: Callable[..., Run], generator: Generator
) -> None:
    run(LoadPoint("offline", 8, 2))

    for name, value in {
        "-m": "toy",
        "-u": "127.0.0.1:1",
        "-i": "grpc",
        "-b": "8",
        "--concurrency-range": "2",
        "--shared-memory": "system",
        "--output-shared-memory-size": "128",  # 8 x 4 values of 4 bytes
        "--measurement-interval": "100",
    }.items():
        assert option(generator.calls[0], name) == value


def test_without_shared_memory_no_output_size_is_given(run: Callable[..., Run], generator: Generator) -> None:
    run(shared_memory="none")

    assert option(generator.calls[0], "--shared-memory") == "none"
    assert "--output-shared-memory-size" not in generator.calls[0]["arguments"]


def test_the_largest_output_decides_the_size(run: Callable[..., Run], generator: Generator) -> None:
    outputs = (Tensor("SMALL", "FP16", (3,)), Tensor("LARGE", "INT64", (2, 5)))

    run(LoadPoint("offline", 4, 1), toy.model(outputs=outputs))

    assert option(generator.calls[0], "--output-shared-memory-size") == str(4 * 2 * 5 * 8)


def test_requests_hold_many_real_samples(run: Callable[..., Run], generator: Generator) -> None:
    run(LoadPoint("offline", 8, 2))

    held = [base64.b64decode(step[toy.INPUT]["b64"]) for step in generator.calls[0]["data"]]
    assert held == [row.tobytes() for row in toy.rows(range(len(held)))]
    assert len(held) > 8, "requests of a batch of 8 differ"


def test_nobody_else_can_read_what_the_generator_makes(run: Callable[..., Run], generator: Generator) -> None:
    run()

    assert generator.program.with_name("calls.jsonl").stat().st_mode & 0o077 == 0


def test_the_generator_allocates_from_one_heap(run: Callable[..., Run], generator: Generator) -> None:
    run()

    assert {call["arenas"] for call in generator.calls} == {"1"}


# --- a rate ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_a_rate_is_sent_by_a_schedule_without_waiting_for_answers(
    run: Callable[..., Run], generator: Generator, arrivals: Any
) -> None:
    found = run(LoadPoint("online", 1, 0, 500.0, arrivals))

    arguments = generator.calls[0]["arguments"]
    assert "--async" in arguments
    assert "--concurrency-range" not in arguments
    assert found.timeline.offsets is not None
    gaps_ms = np.diff(found.timeline.offsets) / 1e6
    assert gaps_ms.mean() == pytest.approx(2, rel=0.4)  # of some 180 gaps
    assert gaps_ms.std() == pytest.approx(0 if arrivals == "constant" else 2, abs=1)
    part = found.steady
    assert part.latencies_ms == pytest.approx(np.full(len(part.latencies_ms), LATENCY_MS))
    assert part.slips_ms == pytest.approx(np.zeros(len(part.latencies_ms)), abs=1e-3)


# --- bad runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("empty", "its profile is damaged (DecodeError"),
        ("cut", "its profile is damaged (DecodeError"),
        ("half-nanosecond", "its profile is damaged (ValidationError"),
        ("backwards", "its profile has requests that end before they start"),
        ("cut-table", "its table is damaged"),
        ("no-numbers", "its table holds no latency"),
        ("refused", "it ended with status 99: error: the output does not fit"),
        ("killed", "it was ended by SIGKILL"),
        ("stopped", "it stood still for 5.0 s"),
    ],
)
def test_a_damaged_run_is_repeated_and_noted(
    run: Callable[..., Run], generator: Generator, behaviour: str, said: str
) -> None:
    generator.plan(behaviour, "good")

    found = run()

    assert rate(found) == pytest.approx(400, rel=1e-6)
    assert [text[: len(said)] for text in found.damaged] == [said]
    assert len(generator.calls) == 2


def test_a_load_that_delays_every_run_is_measured_all_the_same(
    run: Callable[..., Run], generator: Generator
) -> None:
    generator.plan("stopped", "stopped", "good")

    found = run()

    assert found.late_s == pytest.approx(5.0)
    assert len(found.damaged) == 1


def test_what_a_killed_client_left_registered_is_forgotten(
    run: Callable[..., Run], generator: Generator, tmp_path: Path
) -> None:
    generator.plan("killed", "good")
    server = server_of(tmp_path)

    run(server=server)

    assert server.client.forgotten == ["system", "cuda"]


def test_a_run_that_hangs_is_ended_and_repeated(
    run: Callable[..., Run], generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf_analyzer, "_STALL_S", 3.0)
    generator.plan("hang", "good")

    (said,) = run().damaged

    assert said.startswith("it did not end within ")


@pytest.mark.parametrize("behaviour", ["no-requests", "unstable", "unanswered"])
def test_a_window_too_short_for_the_requests_is_lengthened_and_stays_as_long_as_they_need(
    run: Callable[..., Run], generator: Generator, behaviour: str
) -> None:
    generator.plan(behaviour, behaviour, "long")

    found = run()

    assert generator.windows_ms() == [120, 480, 1920]
    assert found.next_window_s == pytest.approx(window_for(10 * LATENCY_MS / 1e3))
    assert found.damaged == ()


def test_a_machine_that_stood_still_for_once_does_not_make_later_windows_longer(
    run: Callable[..., Run], generator: Generator
) -> None:
    generator.plan("no-requests", "good")

    found = run()

    assert generator.windows_ms() == [120, 480]
    assert found.next_window_s == WINDOW_S


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("empty", "its profile is damaged"),
        ("cut-table", "its table is damaged"),
        ("refused", "it ended with status 99: error: the output does not fit"),
        ("unstable", "it ended with status 2: Failed to obtain stable measurement"),
    ],
)
def test_a_generator_that_never_succeeds_is_an_error_with_its_words(
    run: Callable[..., Run], generator: Generator, behaviour: str, message: str
) -> None:
    generator.plan(behaviour)

    with pytest.raises(ProofError) as caught:
        run()

    assert f"no result in 5 attempts; the last: {message}" in str(caught.value)
    assert f"where: {generator.program} -m toy" in str(caught.value), "the command, to run it by hand"
    assert "the last words" in str(caught.value), "the end of the server's log"


@pytest.mark.parametrize(("full", "fix"), [("temporary", "TMPDIR=DIR"), ("memory", "--shm-size")])
def test_where_there_is_no_room_that_is_said(
    full: str,
    fix: str,
    run: Callable[..., Run],
    generator: Generator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scratch = tmp_path / "temporary"
    scratch.mkdir()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        "shutil.disk_usage", lambda path: usage._replace(free=0 if path.name == full else 1 << 40)
    )
    generator.plan("refused")

    with pytest.raises(ProofError) as caught:
        run(server=dataclasses.replace(server_of(tmp_path), scratch=scratch))

    assert f"{full} is full: " in caught.value.fix
    assert fix in caught.value.fix


def test_a_server_that_ends_under_load_is_an_error_at_once(
    run: Callable[..., Run], generator: Generator, tmp_path: Path
) -> None:
    generator.plan("refused")

    with pytest.raises(ProofError, match=r"Triton no longer answers under load[^$]*the last words"):
        run(server=server_of(tmp_path, live=False))

    assert len(generator.calls) == 1


def test_a_server_beside_the_case_s_own_that_ends_under_load_is_named_as_what_it_is(
    run: Callable[..., Run], generator: Generator, tmp_path: Path
) -> None:
    generator.plan("refused")
    other = dataclasses.replace(server_of(tmp_path, live=False), called="the reference's Triton (cpu-m-ts)")

    with pytest.raises(ProofError, match=r"^the reference's Triton \(cpu-m-ts\) no longer answers"):
        run(server=other)


def test_a_server_that_ends_and_takes_its_folder_with_it_is_the_same_error(
    run: Callable[..., Run], generator: Generator, tmp_path: Path
) -> None:
    gone = dataclasses.replace(server_of(tmp_path, live=False), scratch=tmp_path / "gone")

    with pytest.raises(ProofError, match="Triton no longer answers under load"):
        run(server=gone)
