"""Long load and repeated loading, on a simulated clock and on real servers with and without leaks."""

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import toy
from tests.helpers import present
from tests.measure.leaking_server import LEAKS, served
from tritonproof.host.scratch import SHARED_MEMORY_FOLDER
from tritonproof.measure import soak as soaking
from tritonproof.measure.passes import LoadJob, Pass
from tritonproof.measure.soak import end_over_begin, keep_under_load, reload_repeatedly, soak_entry
from tritonproof.measure.usage import Usage, read_usage, read_usage_after_unloading, watch
from tritonproof.record import Soak, speed
from tritonproof.reports.tables.soak import soak_text

POINT = speed.LoadPoint("online", 1, 4)


@dataclass
class LeakingServer:
    """A server on a simulated clock that leaks so many bytes per request."""

    leak: float = 0.0
    left_behind: float = 0.0
    """Bytes that each loading leaks."""
    loading_s: float = 1.0
    now_s: float = 1000.0
    answered: int = 50
    """Requests of earlier tests at first."""
    loadings: int = 0
    passes: dict[float, Pass] = field(default_factory=dict)

    def run_pass(self, job: LoadJob, window_s: float) -> Pass:
        if window_s not in self.passes:
            server = toy.SimulatedServer(changes=lambda *_: {"failed_attempts": ("killed",)})
            self.passes[window_s] = server.run_pass(job, window_s)
        result = self.passes[window_s]
        if self.answered == 50:  # one request loads kernels
            latencies_ms = np.append(result.all_latencies_ms, 20_000.0)
            result = dataclasses.replace(result, all_latencies_ms=latencies_ms)
        self.now_s += 3 * window_s + 0.1
        self.answered += len(result.all_latencies_ms)
        return result

    def read(self) -> Usage:
        used = 1e8 + self.leak * self.answered + self.left_behind * self.loadings
        return {"memory of the server": used, "threads": 40.0}

    def load(self) -> None:
        self.now_s += self.loading_s
        self.loadings += 1

    def monotonic(self) -> float:
        return self.now_s

    def soak(self, duration_s: float) -> Soak:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(soaking, "time", self)
            patch.setattr(soaking, "counts_by_model", lambda _server: {"toy": [self.answered]})
            under_load = keep_under_load(toy.job(POINT), duration_s, self.read, run_pass=self.run_pass)
            loadings = reload_repeatedly(self.load, duration_s, self.read)
        return soak_entry(POINT, under_load, loadings)


def verdicts(soak: Soak) -> set[tuple[str, str]]:
    return {(growth.resource, growth.per) for growth in soak.growth if growth.verdict == "failed"}


@pytest.mark.parametrize("duration_s", [60.0, 600.0])
def test_soak_lasts_as_asked_with_enough_passes(duration_s: float) -> None:
    machine = LeakingServer(loading_s=duration_s)
    entry = machine.soak(duration_s)
    assert duration_s <= entry.duration_s < 1.1 * duration_s
    assert entry.pass_count >= 2 * soaking.MIN_SAMPLES["request"]
    assert entry.requests == machine.answered - 50
    assert f"{entry.pass_count - 1} failed attempts at passes" in soak_text(entry)
    assert entry.requests_per_s == pytest.approx(entry.requests / entry.duration_s)
    assert [(growth.first, growth.last) for growth in entry.growth] == [(1e8, 1e8), (40.0, 40.0)]


def test_request_and_loading_leaks_are_distinguished() -> None:
    assert verdicts(LeakingServer().soak(60.0)) == set()
    assert verdicts(LeakingServer(leak=1024.0).soak(60.0)) == {("memory of the server", "request")}
    assert verdicts(LeakingServer(left_behind=8e6).soak(60.0)) == {("memory of the server", "loading")}


def test_slow_loading_reports_number_of_loadings() -> None:
    machine = LeakingServer(loading_s=30.0)
    soak = machine.soak(300.0)
    assert soak.loadings == machine.loadings == 3
    assert not any(growth.per == "loading" for growth in soak.growth)
    assert "3 of" in soak.not_watched[0]


def test_slowdown_is_found_and_slow_start_ignored() -> None:
    steady = [100.0, 101.0, 99.0, 100.5] * 20
    slower = end_over_begin([*steady, *(0.8 * rate for rate in steady)])
    warmed = end_over_begin([*(0.5 * rate for rate in steady[:20]), *steady[20:]])
    assert present(slower).high < 0.9
    assert present(warmed).low <= 1.0 <= present(warmed).high
    assert end_over_begin(steady[:8]) is None


# --- real servers -------------------------------------------------------------------------------------------

SECONDS = 40.0
"""Length of a soak: a fifteenth of what users are advised, so a leak adds up to a fifteenth."""
LOADING_S = 540.0
"""A third is for the fourteen loadings, each of which takes seconds on a busy machine."""
LOADING_LEAK = "open(f'/dev/shm/tritonproof-test-{os.getpid()}', 'wb').write(b'x' * (8 << 20))"


def soak(folder: Path, *, loads_again: bool = False, loading: str = "pass", request: str = "pass") -> Soak:
    """Soak a real server whose model runs this code at each loading and each request."""
    with served(folder, request=request, loading=loading) as model:
        watched = watch(model.job.served.server)
        under_load = keep_under_load(model.job, SECONDS, lambda: read_usage(watched))
        read = functools.partial(read_usage_after_unloading, watched)
        loadings = reload_repeatedly(model.load, LOADING_S, read, most=16) if loads_again else []
        return soak_entry(model.job.point, under_load, loadings)


@pytest.fixture
def no_segments_left() -> Iterator[None]:
    """Removes the segments that a model leaked on purpose."""
    yield
    for path in SHARED_MEMORY_FOLDER.glob("tritonproof-test-*"):
        path.unlink()


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("how", "resource", "per"),
    [
        ({"request": LEAKS["1 KiB"]}, "memory of its stubs", "request"),
        ({"request": LEAKS["a file"]}, "open files", "request"),
        ({"request": LEAKS["a segment"]}, "shared memory", "request"),
        ({"loading": LOADING_LEAK, "loads_again": True}, "shared memory", "loading"),
    ],
    ids=[*LEAKS, "a segment per loading"],
)
@pytest.mark.usefixtures("no_segments_left")
def test_leak_is_found_with_its_size(how: Any, resource: str, per: str, tmp_path: Path) -> None:
    result = soak(tmp_path, **how)
    assert present(result.answers_under_load).count > present(result.answers_under_load).wrong == 0
    assert verdicts(result) == {(resource, per)}, result.growth
    if resource == "memory of its stubs":
        slope = next(growth.slope for growth in result.growth if growth.resource == resource)
        # Python and malloc add less than a tenth to 1,024 bytes.
        assert slope.low < 1.1 * 1024
        assert slope.high > 1024


@pytest.mark.campaign
def test_clean_server_passes(tmp_path: Path) -> None:
    result = soak(tmp_path, loads_again=True)
    assert {growth.verdict for growth in result.growth} == {"passed"}, result.growth
    assert {growth.per for growth in result.growth} == {"request", "loading"}
