"""Fixtures that several tests of the suite itself share: tiny models, servers, and processes to clean up."""

import collections.abc
import contextlib
import functools
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest
from msgspec import structs

from tests import helpers, private_shared_memory, toy
from tests.fake_nvml import Clock, Nvml, S, Stretch, in_place_of_nvml, watched
from tests.fake_perf_analyzer import FakePerfAnalyzer
from tests.helpers import Collect, Household
from tritonproof.client.input_data import input_data
from tritonproof.client.requests import ServedModel
from tritonproof.host import scratch
from tritonproof.host.process import EXTRA_VARIABLES
from tritonproof.host.processor_use import GpuStretch
from tritonproof.record.setup import ConfigVariant, Scenario
from tritonproof.reports.__main__ import main
from tritonproof.serve import wheels
from tritonproof.serve.launch import serve
from tritonproof.serve.loading import load_build
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup, ServerSpec

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts background jobs this way; processes that a test starts would then ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:anyio")
"""Plugins of packages that only tests need take a fifth of the start of each run that a test starts."""
for variable in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
    del os.environ[variable]  # a run that a test starts is not a worker of this run


_ASKED_FOR = ("campaign", "contract")
"""Marks of tests that take minutes or download much."""
_SLOWEST = (
    "tests/whole_runs/test_repository_runs.py",
    "tests/whole_runs/test_other_repository.py",
    "tests/whole_runs/",
    "tests/user_models/test_several_shapes.py",
)
"""The slowest tests, which start whole runs: first, so that none is left for one worker alone."""
_OF_TENSORFLOW = (
    "tests/efficiency/test_operations.py",
    "tests/formats/test_tensorflow.py",
    "tests/frameworks/test_checkpoints.py",
    "tests/models/test_micro.py",
    "tests/models/test_resnet50_tf.py",
    "tests/train/",
)
"""Tests that load TensorFlow share one xdist worker: loading takes 4 s of a core and 540 MiB a process."""


def pytest_configure(config: pytest.Config) -> None:
    """Each xdist worker has its own machine lock, so that workers do not wait for each other."""
    if hasattr(config, "workerinput"):
        private_shared_memory.enter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out a marked test unless `-m` has its mark or the command its id; put the slowest first."""
    marks = [mark for mark in _ASKED_FOR if mark not in config.option.markexpr]
    named = tuple(str(argument).split("::", 1)[1] for argument in config.args if "::" in str(argument))
    left_out = [
        item
        for item in items
        if any(item.get_closest_marker(mark) for mark in marks)
        and not item.nodeid.split("::", 1)[1].startswith(named)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    def rank(item: pytest.Item) -> int:
        starts = map(item.nodeid.startswith, _SLOWEST)
        return next((number for number, is_there in enumerate(starts) if is_there), len(_SLOWEST))

    items.sort(key=lambda item: (rank(item), item.path))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> collections.abc.Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each xdist worker starts to collect in a different folder. In a fresh checkout pytest has to rewrite
    all files' assertions, which takes seconds; workers reuse the files that others have rewritten."""
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and collector.path == Path(__file__).parent and report.passed:
        number, workers = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        first_folder = len(report.result) * number // workers
        report.result = report.result[first_folder:] + report.result[:first_folder]
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile` the tests of a file share an xdist worker, and so do all tests of TensorFlow."""
    from xdist.scheduler import LoadFileScheduling

    class SharingScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "TensorFlow" if nodeid.startswith(_OF_TENSORFLOW) else str(super()._split_scope(nodeid))

    return SharingScheduling(config, log) if config.getoption("dist") == "loadfile" else None


_WORKER_GIB = 4
"""Memory in GiB per xdist worker: a worker with both frameworks and their models takes up to 3.5."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers more than cores, if memory suffices: tests wait for servers a quarter of the time."""
    cores, memory = psutil.cpu_count() or 1, psutil.virtual_memory().total
    return max(1, min(cores + 2, round(memory / 2**30 / _WORKER_GIB)))


@pytest.fixture(scope="module")
def server_of_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A real server and its model folder, which tests fill: that of CPU builds below its parent."""
    folder = tmp_path_factory.mktemp("models") / "cpu"
    folder.mkdir()
    with serve(ServerSpec("embedded"), ServerSetup(folder, folder.parent / "models.log", "cpu")) as started:
        yield started, folder


LoadRuntime = Callable[..., ServedModel]


@pytest.fixture
def serving(server_of_models: tuple[Server, Path]) -> Iterator[LoadRuntime]:
    """`serving(runtime, 12, "online", instances=2)`: a model of this runtime with twelve samples, which that
    server has loaded until the test ends, in toy.DEPLOYMENT but for these changes."""
    triton, folder = server_of_models
    with contextlib.ExitStack() as stack:

        def load(runtime: str, count: int, scenario: Scenario, **changes: Any) -> ServedModel:
            built = toy.make_build(folder, f"F{os.getpid()}x{len(list(folder.iterdir()))}", runtime)
            model, name = built.case.model, str(built.case)
            rows = np.random.default_rng(0).standard_normal((count, 4)).astype(np.float32)
            samples = toy.samples_of({model.inputs[0].name: rows})
            data = stack.enter_context(input_data(model, samples, triton.scratch))
            load_build(triton, built, ConfigVariant(scenario, structs.replace(toy.DEPLOYMENT, **changes)))
            stack.callback(triton.unload, name)
            return ServedModel(triton, name, model, data)

        yield load


@pytest.fixture
def household(tmp_path: Path) -> Iterator[Household]:
    """Mark the processes that a test starts, and kill those that remain at its end."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    mark = {"TRITONPROOF_MARK": uuid.uuid4().hex, EXTRA_VARIABLES: "TRITONPROOF_MARK"}
    marked = Household(dict(os.environ) | mark | {"TMPDIR": str(temporary)}, temporary)
    yield marked
    for process in marked.processes():
        with contextlib.suppress(psutil.Error):
            process.kill()
    for caller in marked.callers:
        caller.wait(timeout=30)
    for folder in temporary.glob("*/runs/*"):  # if even the guards were killed, nobody has cleaned up
        for segment in Path("/dev/shm").glob(f"{folder.name}*"):
            segment.unlink(missing_ok=True)


@pytest.fixture
def analyzer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePerfAnalyzer:
    """A fake perf_analyzer in place of the real one."""
    fake = FakePerfAnalyzer(tmp_path)
    monkeypatch.setattr(wheels, "perf_analyzer", lambda: fake.program)
    monkeypatch.setattr(wheels, "perf_analyzer_libraries", lambda: "")
    memory = tmp_path / "memory"
    memory.mkdir()
    # A real one may use the names of the same tensors right now.
    monkeypatch.setattr(scratch, "SHARED_MEMORY_FOLDER", memory)
    fake.plan("good")
    return fake


class CommandResult(NamedTuple):
    """A command of the reports that has ended."""

    status: int
    out: str
    err: str


Reports = Callable[..., CommandResult]


@pytest.fixture
def reports(capsys: pytest.CaptureFixture[str]) -> Reports:
    """Run a command of `python -m tritonproof report`; returns its exit status and what it printed."""

    def run(*words: object) -> CommandResult:
        capsys.readouterr()
        status = main(list(map(str, words)))
        return CommandResult(status, *capsys.readouterr())

    return run


@pytest.fixture
def printed(reports: Reports) -> Callable[..., str]:
    """Run a command that ends well; returns what it printed on standard output."""

    def run(*words: object) -> str:
        ended = reports(*words)
        assert ended.status == 0, ended.err
        return ended.out

    return run


@pytest.fixture
def refused(reports: Reports) -> Callable[..., str]:
    """Run a command that refuses its input and prints nothing else; returns its error."""

    def run(*words: object) -> str:
        ended = reports(*words)
        assert (ended.status, ended.out) == (4, "")
        return ended.err

    return run


@pytest.fixture
def clock() -> Clock:
    """The time of the stand-in for NVML, and of the system too unless the test uses real time."""
    return Clock()


@pytest.fixture
def nvml(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    """A machine with one GPU at 100 W."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    with in_place_of_nvml(Nvml(clock), monkeypatch) as fake:
        yield fake


@pytest.fixture
def stretch(nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Stretch:
    """GPU use between two moments, by default of this process."""

    def take(opened_s: float = 0.5, closed_s: float = 1.5, **watch: Any) -> GpuStretch:
        taken = watched(clock, monkeypatch, **watch or {"roots": (os.getpid(),), "server": os.getpid()})
        return helpers.present(taken.between(round(opened_s * S), round(closed_s * S)))

    return take


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that only this test uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def collect(capsys: pytest.CaptureFixture[str]) -> Collect:
    """Collect the benchmarks with some options, as a command line would."""
    return functools.partial(helpers.collect, capsys)
