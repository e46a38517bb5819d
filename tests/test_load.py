"""Load points: what becomes of perf_analyzer's good and bad runs, and one real run of known speed."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures import load, statistics, wheels
from fixtures.errors import ProofError
from fixtures.launch import Choice
from fixtures.load import Measurement, measure
from fixtures.server import Server, serve
from fixtures.spec import LoadPoint, Model, Samples, Tensor
from reports import record
from tests import samples, toy

ONLINE = LoadPoint("online", 1, 4)
LATENCY_MS = 10

FAKE = f"""\
#!{sys.executable} -S
# Behaves like perf_analyzer, each call as the next word of its plan says; the last word holds for all later calls.
import json, os, sys, time
from pathlib import Path

folder, arguments = Path(__file__).parent, sys.argv[1:]
calls = folder / "calls.jsonl"
number = len(calls.read_text().splitlines()) if calls.exists() else 0
data = Path(arguments[arguments.index("--input-data") + 1])
with calls.open("a") as file:
    held = {{path.name: path.read_bytes().hex() for path in data.iterdir()}}
    file.write(json.dumps({{"arguments": arguments, "data": held, "arenas": os.environ.get("MALLOC_ARENA_MAX")}}) + "\\n")
plan = (folder / "plan").read_text().split()
behaviour = plan[min(number, len(plan) - 1)]
after = lambda option: arguments[arguments.index(option) + 1]
window_ns = int(after("--measurement-interval")) * 10**6
concurrency = int(after("--concurrency-range"))

if behaviour == "hang":
    time.sleep(600)
if behaviour == "no-requests":
    print("No valid requests recorded within time interval. Please use a larger time window.")
    sys.exit(3)
if behaviour == "unstable":
    print("Failed to obtain stable measurement.")
    sys.exit(2)
if behaviour == "refused":
    print("error: the output does not fit")
    sys.exit(99)

latency_ns, opened = {LATENCY_MS} * 10**6, 10**18
requests = [
    {{"timestamp": opened + client + n * latency_ns, "response_timestamps": [opened + client + (n + 1) * latency_ns]}}
    for client in range(concurrency)
    for n in range((3 * window_ns - client) // latency_ns)
]
if behaviour == "backwards":
    requests[3]["response_timestamps"] = [requests[3]["timestamp"] - 1]
if behaviour == "unanswered":
    requests = [request | {{"response_timestamps": []}} for request in requests]
windows = [opened + n * window_ns for n in range(4)]
text = json.dumps({{"experiments": [{{"requests": requests, "window_boundaries": windows}}]}})
text = {{"empty": "", "cut": (text * 50)[:65536]}}.get(behaviour, text)
Path(after("--profile-export-file")).write_text(text)
table = (
    "Concurrency,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,"
    "Server Compute Output,Client Recv\\n{{}},100,200,300,400,8000,600,400\\n"
).format(concurrency)
table = {{"cut-table": table[:60], "no-numbers": table.replace("8000", "nan")}}.get(behaviour, table)
Path(after("-f")).write_text(table)
"""


class Generator:
    """The fake load generator in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "perf_analyzer"
        self.program.write_text(FAKE)
        self.program.chmod(0o755)

    def plan(self, *behaviours: str) -> None:
        """One word for each call, the last for all later ones."""
        self.program.with_name("plan").write_text(" ".join(behaviours))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What each call was given."""
        return [json.loads(line) for line in self.program.with_name("calls.jsonl").read_text().splitlines()]

    def windows_ms(self) -> list[int]:
        """The window each call was given."""
        return [int(option(call, "--measurement-interval")) for call in self.calls]


def option(call: dict[str, Any], name: str) -> str:
    """The value of an option in a call."""
    arguments: list[str] = call["arguments"]
    return arguments[arguments.index(name) + 1]


@pytest.fixture
def generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator:
    """A fake load generator in place of the real one; two passes per point, to be quick."""
    fake = Generator(tmp_path)
    monkeypatch.setattr(wheels, "perf_analyzer", lambda: fake.program)
    monkeypatch.setattr(wheels, "perf_analyzer_libraries", lambda: "")
    monkeypatch.setattr(load, "PASSES", 2)
    fake.plan("good")
    return fake


class Client:
    """A server's client that knows one thing."""

    def __init__(self, *, live: bool) -> None:
        self.live = live

    def is_server_live(self, **_options: float) -> bool:
        return self.live


def server_of(folder: Path, *, live: bool = True) -> Server:
    """A server that is only spoken of."""
    log = folder / "server.log"
    log.write_text("began\nthe last words\n")
    return Server("embedded", "127.0.0.1:1", "2.51.0", log, Client(live=live))


@pytest.fixture
def run(tmp_path: Path, generator: Generator) -> Callable[..., Measurement]:
    """Measure the toy model with the fake load generator."""

    def run(point: LoadPoint = ONLINE, model: Model | None = None, **changes: Any) -> Measurement:
        options: dict[str, Any] = {"shared_memory": "system", "budget_s": 0.5, **changes}
        server = options.pop("server", server_of(tmp_path))
        return measure(server, "toy", model or toy.model(), point, toy.samples().load([0]), **options)

    return run


# --- good runs ---------------------------------------------------------------------------------------------


def test_a_point_has_the_speed_of_its_timestamps(run: Callable[..., Measurement]) -> None:
    measured = run(ONLINE).load

    assert measured.throughput_per_s.value == pytest.approx(ONLINE.concurrency * 1000 / LATENCY_MS, rel=1e-6)
    assert {name: value.value for name, value in measured.latency_ms.items()} == pytest.approx(
        dict.fromkeys(("avg", "p50", "p90", "p95", "p99"), LATENCY_MS)
    )
    assert (measured.passes, measured.notes) == (2, ())


def test_throughput_counts_inferences_not_requests(run: Callable[..., Measurement]) -> None:
    point = LoadPoint("offline", 8, 1)

    assert run(point).load.throughput_per_s.value == pytest.approx(8 * 1000 / LATENCY_MS, rel=1e-6)


def test_every_latency_of_the_estimates_is_returned_in_seconds(run: Callable[..., Measurement]) -> None:
    measured = run()

    assert len(measured.latencies_s) == measured.load.requests > 100
    assert set(measured.latencies_s) == {LATENCY_MS / 1e3}


def test_few_requests_are_noted(run: Callable[..., Measurement]) -> None:
    measured = run(LoadPoint("offline", 1, 1), budget_s=0.3)

    assert measured.load.notes == (f"{measured.load.requests} requests in all: p99 is the largest latency",)


def test_components_are_shares_of_the_average_latency(run: Callable[..., Measurement]) -> None:
    components = run().load.components_ms

    assert tuple(components) == record.COMPONENTS
    assert sum(components.values()) == pytest.approx(LATENCY_MS)
    assert components["network_server_send_recv"] == pytest.approx(0.2)
    assert components["server_compute_infer"] == pytest.approx(8.0)


@pytest.mark.parametrize("factor", [0.5, 1, 2])
def test_components_make_up_the_average_even_where_the_start_up_was_slow(factor: float) -> None:
    means_us = dict.fromkeys(record.COMPONENTS, 1000.0)
    timeline = statistics.Pass(np.arange(3), np.arange(3) + 1, 0, 4, 1)
    average = samples.estimate(7.0 * factor)

    components = load._components([load._Run(timeline, means_us)], average)

    assert sum(components.values()) == pytest.approx(average.value)
    assert min(components.values()) >= 0


def test_passes_last_several_latencies(run: Callable[..., Measurement], generator: Generator) -> None:
    run(budget_s=0.001)

    probe_ms, *windows_ms = generator.windows_ms()
    assert probe_ms == 100
    assert windows_ms == [50, 50], "the least, which holds more than four latencies in three windows"


def test_passes_share_the_budget(run: Callable[..., Measurement], generator: Generator) -> None:
    run(budget_s=0.9)

    assert generator.windows_ms()[1:] == [150, 150]


def test_progress_names_the_pass_and_the_running_estimate(run: Callable[..., Measurement]) -> None:
    said: list[str] = []

    run(ONLINE, report=said.append)

    assert said == ["warm up", "pass 1 of 2", "pass 2 of 2, 400.0 infer/s"]


# --- the command -------------------------------------------------------------------------------------------


def test_the_command_names_the_model_the_server_and_the_point(
    run: Callable[..., Measurement], generator: Generator
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
    }.items():
        assert option(generator.calls[0], name) == value


def test_without_shared_memory_no_output_size_is_given(
    run: Callable[..., Measurement], generator: Generator
) -> None:
    run(shared_memory="none")

    assert option(generator.calls[0], "--shared-memory") == "none"
    assert "--output-shared-memory-size" not in generator.calls[0]["arguments"]


def test_the_largest_output_decides_the_size(run: Callable[..., Measurement], generator: Generator) -> None:
    outputs = (Tensor("SMALL", "FP16", (3,)), Tensor("LARGE", "INT64", (2, 5)))

    run(LoadPoint("offline", 4, 1), toy.model(outputs=outputs))

    assert option(generator.calls[0], "--output-shared-memory-size") == str(4 * 2 * 5 * 8)


def test_requests_hold_a_real_sample(run: Callable[..., Measurement], generator: Generator) -> None:
    run()

    assert generator.calls[0]["data"] == {toy.INPUT: toy.rows([0])[0].tobytes().hex()}


def test_the_generator_allocates_from_one_heap(run: Callable[..., Measurement], generator: Generator) -> None:
    run()

    assert {call["arenas"] for call in generator.calls} == {"1"}


# --- bad runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", ["empty", "cut", "backwards", "cut-table", "no-numbers", "refused"])
def test_a_damaged_pass_is_repeated_and_noted(
    run: Callable[..., Measurement], generator: Generator, behaviour: str
) -> None:
    generator.plan("good", "good", behaviour, "good")

    measured = run().load

    assert measured.throughput_per_s.value == pytest.approx(400, rel=1e-6)
    assert measured.passes == 2
    assert measured.notes == ("runs of perf_analyzer repeated because they left nothing usable: 1",)
    assert len(generator.calls) == 4


def test_a_run_that_hangs_is_ended_and_repeated(
    run: Callable[..., Measurement], generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "_STALL_S", 0.2)
    monkeypatch.setattr(load, "_PROBE_WINDOW_S", 0.05)
    generator.plan("good", "hang", "good")

    assert run(budget_s=0.3).load.passes == 2


@pytest.mark.parametrize("behaviour", ["no-requests", "unstable", "unanswered"])
def test_a_window_too_short_for_the_requests_is_lengthened(
    run: Callable[..., Measurement], generator: Generator, behaviour: str
) -> None:
    generator.plan(behaviour, behaviour, "good")

    measured = run().load

    assert generator.windows_ms()[:3] == [100, 400, 1600]
    assert measured.notes == (), "nothing was damaged"


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
    run: Callable[..., Measurement], generator: Generator, behaviour: str, message: str
) -> None:
    generator.plan(behaviour)

    with pytest.raises(ProofError) as caught:
        run()

    assert f"no result in 5 attempts; the last: {message}" in str(caught.value)
    assert f"where: {generator.program} -m toy" in str(caught.value), "the command, to run it by hand"
    assert "the last words" in str(caught.value), "the end of the server's log"


def test_a_server_that_ends_under_load_is_an_error_at_once(
    run: Callable[..., Measurement], generator: Generator, tmp_path: Path
) -> None:
    generator.plan("refused")

    with pytest.raises(ProofError, match=r"Triton does not answer any more under load[^$]*the last words"):
        run(server=server_of(tmp_path, live=False))

    assert len(generator.calls) == 1


# --- the real parts ----------------------------------------------------------------------------------------

SLEEP_MS = 5

SLEEPING_MODEL = f"""\
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep({SLEEP_MS / 1e3})
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("{{output}}", tensor.as_numpy())])
            for tensor in (pb_utils.get_input_tensor_by_name(request, "{{input}}") for request in requests)
        ]
"""

SLEEPING_CONFIG = """\
backend: "python"
max_batch_size: 8
input {{ name: "{input}" data_type: TYPE_FP32 dims: 4 }}
output {{ name: "{output}" data_type: TYPE_FP32 dims: 4 }}
instance_group {{ count: 1 kind: KIND_CPU }}
"""


def test_a_server_of_known_speed_is_measured_right(tmp_path: Path) -> None:
    # perf_analyzer names its shared memory after the tensors, and others may measure on this machine.
    names = {"input": f"TOY_IN_{os.getpid()}", "output": f"TOY_OUT_{os.getpid()}"}
    folder = tmp_path / "models" / "sleeping" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(SLEEPING_MODEL.format(**names))
    (folder.parent / "config.pbtxt").write_text(SLEEPING_CONFIG.format(**names))
    model = toy.model(
        inputs=(Tensor(names["input"], "FP32", (4,)),),
        outputs=(Tensor(names["output"], "FP32", (4,)),),
        samples=lambda _split, _dataset, _checkpoint: Samples(
            ["ones"], lambda indices: {names["input"]: np.ones((len(indices), 4), np.float32)}
        ),
    )

    with serve(Choice("embedded"), tmp_path / "models", tmp_path / "log", device="cpu") as server:
        server.client.load_model("sleeping")
        alone, crowded = (
            measure(
                server,
                "sleeping",
                model,
                LoadPoint("online", 1, concurrency),
                model.samples("evaluation", None, None).load([0]),
                shared_memory="system",
                budget_s=0.5,
            ).load
            for concurrency in (1, 4)
        )

    for measured in (alone, crowded):
        in_flight = measured.throughput_per_s.value * measured.latency_ms["avg"].value / 1e3
        assert in_flight == pytest.approx(measured.concurrency, rel=0.1)
        assert 10 < measured.throughput_per_s.value <= 1000 / SLEEP_MS
        assert sum(measured.components_ms.values()) == pytest.approx(measured.latency_ms["avg"].value)
        assert measured.components_ms["server_compute_infer"] > 0.9 * SLEEP_MS
    assert alone.latency_ms["p50"].value >= SLEEP_MS
    assert crowded.latency_ms["p50"].value >= 4 * SLEEP_MS
    assert crowded.components_ms["server_queue"] > 2 * SLEEP_MS
    assert not list(Path("/dev/shm").glob(f"TOY_*_{os.getpid()}*"))
