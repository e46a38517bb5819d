"""A pass of the load generator: its command line, success and failure."""

import base64
import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests import toy
from tests.fake_perf_analyzer import LATENCY_MS, FakePerfAnalyzer, option, server_of
from tritonproof.accuracy.expected import expect_by_signature
from tritonproof.base.errors import ProofError
from tritonproof.client.input_data import InputData, input_data
from tritonproof.client.requests import ServedModel
from tritonproof.host import processor_use
from tritonproof.measure import estimates, perf_analyzer, perf_analyzer_io, verifying
from tritonproof.measure.passes import LoadJob, Pass
from tritonproof.record.speed import COMPONENTS, LoadPoint
from tritonproof.serve.server import Server
from tritonproof.spec import Model, Tensor

ONLINE = LoadPoint("online", 1, 4)
WINDOW_S = 0.12
TakePass = Callable[..., Pass]


@pytest.fixture
def take_pass(tmp_path: Path, analyzer: FakePerfAnalyzer, monkeypatch: pytest.MonkeyPatch) -> TakePass:
    """One good pass on the toy model; one that hangs is ended soon."""
    monkeypatch.setattr(perf_analyzer, "_STALL_S", 6.0)

    def take_pass(
        point: LoadPoint = ONLINE, model: Model | None = None, server: Server | None = None
    ) -> Pass:
        model, server = model or toy.model(), server or server_of(tmp_path)
        with input_data(model, toy.samples(), None) as data:
            served = ServedModel(server, "toy", model, data)
            return perf_analyzer.run_pass(LoadJob(served, point, "system"), WINDOW_S)

    return take_pass


def test_pass_yields_timestamps_and_components(take_pass: TakePass, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU's use is that until the load generator ends, before its files are read, which may be large."""
    read, read_cpu = perf_analyzer_io.read_profile, Mock(side_effect=processor_use.start_cpu_clock(None))
    monkeypatch.setattr(processor_use, "start_cpu_clock", lambda _pid: read_cpu)
    monkeypatch.setattr(perf_analyzer_io, "read_profile", lambda folder: read_cpu.called and read(folder))
    one_pass = take_pass()
    assert estimates.requests_per_s([one_pass.steady]) == pytest.approx(4 * 1000 / LATENCY_MS, rel=1e-6)
    assert one_pass.components_us == dict(zip(COMPONENTS, (100, 200, 300, 400, 8000, 600, 400), strict=True))
    assert one_pass.cpu.children_s > 0
    assert one_pass.failed_attempts == ()
    starts_ns, ends_ns = np.array([[0, 10, 20], [90, 50, 70]]) * 10**6
    monkeypatch.setattr(perf_analyzer_io, "read_profile", lambda _folder: (starts_ns, ends_ns, (0, 10**8)))
    one_pass = take_pass()
    assert (one_pass.all_latencies_ms.tolist(), one_pass.under_load_s) == ([40, 50, 90], 0.09), "by answer"


@pytest.mark.parametrize(("batch", "size"), [(1, 40 * 40 * 4), (2, 2 * 4 * 4 * 4)])
def test_memory_of_outputs_fits_those_expected(batch: int, size: int, tmp_path: Path) -> None:
    """Of each length n an answer has n x n numbers; batches have the shorter one."""
    pairs = toy.model(outputs=(Tensor("OUT", "FP32", (-1, -1)),))
    rows = [{"IN": np.zeros((1, length), np.float32)} for length in (4, 40)]
    data = InputData(["short", "long"], rows[0], others=rows[1:])
    answers = {index: {"OUT": np.zeros((n, n), np.float32)} for index, n in enumerate((4, 40))}
    by_signature = expect_by_signature(answers, data.ids)
    expected = dataclasses.replace(toy.expected_answers([], {}), by_signature=by_signature)
    served = dataclasses.replace(toy.job(ONLINE).served, server=server_of(tmp_path), model=pairs, data=data)
    job = verifying.with_expected(LoadJob(served, LoadPoint("online", batch, 4), "system"), expected)
    command = perf_analyzer_io.command(job, Path(), tmp_path, WINDOW_S)
    assert command[command.index("--output-shared-memory-size") + 1] == str(size)


def test_command_names_model_server_and_point(take_pass: TakePass, analyzer: FakePerfAnalyzer) -> None:
    outputs = (Tensor("SMALL", "FP16", (3,)), Tensor("LARGE", "INT64", (2, 5)))
    take_pass(LoadPoint("offline", 8, 2), toy.model(outputs=outputs))

    call = analyzer.calls[0]
    for name, value in {
        "-m": "toy",
        "-u": "127.0.0.1:1",
        "-i": "grpc",
        "-b": "8",
        "--concurrency-range": "2",
        "--shared-memory": "system",
        "--output-shared-memory-size": str(8 * 2 * 5 * 8),  # of the largest output
        "--measurement-interval": "100",
    }.items():
        assert option(call, name) == value
    assert call["arenas"] == "1", "its own heaps are what damages its files"
    mode = analyzer.program.with_name("calls.jsonl").stat().st_mode
    assert mode & 0o077 == 0, "nobody else reads what it makes"
    rows = [base64.b64decode(step[toy.INPUT]["b64"]) for step in call["data"]]
    assert rows == [row.tobytes() for row in toy.rows(range(len(rows)))]
    assert len(rows) > 8, "requests of a batch of 8 differ"


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_rate_is_sent_by_schedule(take_pass: TakePass, analyzer: FakePerfAnalyzer, arrivals: Any) -> None:
    steady = take_pass(LoadPoint("online", 1, 0, 500.0, arrivals)).steady

    arguments = analyzer.calls[0]["arguments"]
    assert "--async" in arguments
    assert "--concurrency-range" not in arguments
    gaps_ms = np.array(analyzer.calls[0]["intervals_us"]) / 1e3
    assert gaps_ms.mean() == pytest.approx(2, rel=0.4)  # of some 180 gaps
    assert gaps_ms.std() == pytest.approx(0 if arrivals == "constant" else 2, abs=1)
    assert steady.latencies_ms == pytest.approx(np.full(len(steady.latencies_ms), LATENCY_MS))
    assert steady.slips_ms == pytest.approx(np.zeros(len(steady.latencies_ms)), abs=1e-3)
    fast = LoadPoint("online", 1, 0, 60_000.0, arrivals)
    gaps_us = perf_analyzer_io.write_schedule(fast, 1.0, analyzer.program.parent)
    assert gaps_us.mean() == pytest.approx(1e6 / 60_000, rel=0.015), "not whole microseconds"
    assert gaps_us.min() >= 1


@pytest.mark.parametrize(
    ("behaviour", "named"),
    [
        *(("empty", "profile"), ("cut", "profile"), ("backwards", "profile")),
        *(("cut-table", "table"), ("no-numbers", "table")),
        *(("refused", "99"), ("killed", "SIGKILL"), ("stopped", "5.0 s"), ("hang", "")),
    ],
)
def test_damaged_pass_is_repeated_and_noted(
    take_pass: TakePass, analyzer: FakePerfAnalyzer, tmp_path: Path, behaviour: str, named: str
) -> None:
    analyzer.plan(behaviour, "good")
    server = server_of(tmp_path)

    one_pass = take_pass(server=server)

    assert estimates.requests_per_s([one_pass.steady]) == pytest.approx(400, rel=1e-6)
    (text,) = one_pass.failed_attempts
    assert named in text
    assert len(analyzer.calls) == 2
    was_cut_off = behaviour != "stopped"
    assert server.client.forgotten == (["system", "cuda"] if was_cut_off else []), "what it left registered"


@pytest.mark.parametrize(("gib", "said"), [(4.0, "half of the free memory"), (9.0, "within 3 s")])
def test_rate_far_above_capacity_is_an_error(
    take_pass: TakePass, analyzer: FakePerfAnalyzer, monkeypatch: pytest.MonkeyPatch, gib: float, said: str
) -> None:
    """An attempt that ends late is repeated once, as the server may have compiled; memory is not risked."""
    analyzer.plan("hang")
    free_gib = itertools.chain([9.0], itertools.repeat(gib))
    monkeypatch.setattr(perf_analyzer, "free_memory_gib", lambda: next(free_gib))
    with pytest.raises(ProofError, match=f"faster than they are answered.*{said}"):
        take_pass(LoadPoint("online", 1, 0, 500.0, "constant"))
    assert len(analyzer.calls) == (1 if "memory" in said else 2)


@pytest.mark.parametrize(
    ("plan", "windows_ms"),
    [
        (("no-requests", "no-requests", "good"), [120, 480, 1920]),
        (("unstable", "unanswered", "good"), [120, 480, 1920]),
        (("stopped", "stopped", "good"), [120, 120]),  # a pass that the load delays is still measured
        ((*["unstable"] * 4, "stopped"), [120, 480, 1920, 7680, 30720]),
    ],
)
def test_window_grows_unless_load_delays_it(
    take_pass: TakePass, analyzer: FakePerfAnalyzer, plan: tuple[str, ...], windows_ms: list[int]
) -> None:
    analyzer.plan(*plan)
    one_pass = take_pass()
    assert analyzer.windows_ms() == windows_ms
    assert (1e3 * one_pass.window_s, len(one_pass.failed_attempts)) == (windows_ms[-1], len(windows_ms) - 1)
    assert one_pass.steady.duration_s > 5.0, "also of one that stood still"


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [("empty", "profile"), ("refused", "output does not fit"), ("unstable", "status 2")],
)
def test_failing_load_generator_is_an_error_with_its_output(
    take_pass: TakePass, analyzer: FakePerfAnalyzer, behaviour: str, said: str
) -> None:
    analyzer.plan(behaviour)
    with pytest.raises(ProofError) as caught:
        take_pass()
    assert caught.value.where == f"toy, {ONLINE}", "its command needs files that are gone"
    assert said in str(caught.value)
    assert "the last words" in str(caught.value), "the end of the server's log"


@pytest.mark.parametrize(
    ("changes", "calls"),
    [({}, 1), ({"label": "the reference's Triton (cpu-m-ts)"}, 1), ({"scratch": Path("/nowhere/gone")}, 0)],
    ids=["the case's own", "another", "with its folder"],
)
def test_server_ending_under_load_is_an_error(
    take_pass: TakePass, analyzer: FakePerfAnalyzer, tmp_path: Path, changes: dict[str, Any], calls: int
) -> None:
    analyzer.plan("refused")
    ended = dataclasses.replace(server_of(tmp_path, live=False), **changes)
    with pytest.raises(ProofError) as caught:
        take_pass(server=ended)
    assert str(caught.value).startswith(ended.label)
    assert caught.value.where == f"toy, {ONLINE}"
    assert len(analyzer.calls) == calls
