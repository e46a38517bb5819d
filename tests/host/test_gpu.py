"""Energy, use and throttling of the GPU, by a stand-in for NVML: none has been asked for real."""

import dataclasses
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml as NVML  # noqa: N812 - not the stand-in
import pytest

from fixtures.host import gpu, machine
from fixtures.host.gpu import GpuTime, Watch
from fixtures.host.nvml import Gpu, gpu_handles, sole_gpu
from fixtures.measure import measured, sweep, validity
from fixtures.measure.job import input_data, jobs_of
from fixtures.measure.record_entry import record_entry
from fixtures.measure.stopping import MeasuringPlan
from fixtures.self_check import timed_model
from fixtures.serve.choice import Choice
from fixtures.serve.launch import serve
from fixtures.serve.server import Server
from fixtures.spec import LoadPoint
from tests.fake_nvml import Nvml

S = 10**9
HANG_S = 60.0  # bounds a hang


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """The time as NVML and the system have it, unless the test lets real time pass."""
    return Clock()


@pytest.fixture
def nvml(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    """A machine with one GPU at 100 W."""
    fake = Nvml(clock)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    sole_gpu.cache_clear()
    machine.gpus_of.cache_clear()
    yield fake
    sole_gpu.cache_clear()
    machine.gpus_of.cache_clear()


def watched(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, seconds: float = 2.0, roots: tuple[int, ...] = ()
) -> Watch:
    """A watch over so many seconds, with a sample every 20 ms."""
    found = sole_gpu(None)
    assert found is not None
    monkeypatch.setattr(time, "time_ns", lambda: round(clock.now_s * S))
    watch = Watch(found, frozenset(roots))
    for step in range(round(seconds / 0.02) + 1):
        clock.now_s = step * 0.02
        watch.take()
    return watch


def between(watch: Watch, opened_s: float, closed_s: float) -> GpuTime:
    """What a stretch held."""
    found = watch.between(round(opened_s * S), round(closed_s * S))
    assert found is not None
    return found


# --- energy ------------------------------------------------------------------------------------------------


def test_energy_is_the_counter_s_between_the_edges_of_the_stretch(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.counter_step_s = 0.1
    nvml.refused = {"nvmlDeviceGetPowerUsage"}
    stretch = between(watched(clock, monkeypatch), 0.53, 1.27)
    assert stretch.energy_from == "counter"
    assert stretch.energy_j == pytest.approx(74, rel=0.05)
    assert stretch.duration_s == pytest.approx(0.74)
    assert all(0.53 * S <= one.time_ns <= 1.27 * S for one in stretch.readings)


def test_a_counter_that_last_moved_before_the_end_is_continued(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.counter_step_s = 0.3
    assert between(watched(clock, monkeypatch), 0.1, 1.99).energy_j == pytest.approx(189, rel=0.06)


def test_what_the_gpu_drew_outside_of_the_stretch_does_not_count(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        nvml,
        "nvmlDeviceGetTotalEnergyConsumption",
        lambda _handle: round(1e3 * (50 * clock.now_s + 250 * min(max(clock.now_s - 0.5, 0), 1))),
    )
    watch = watched(clock, monkeypatch)
    assert between(watch, 0.5, 1.5).energy_j == pytest.approx(300, rel=0.01)
    assert between(watch, 0.0, 0.5).energy_j == pytest.approx(25, rel=0.05)


def test_without_a_counter_energy_is_the_integral_of_the_power(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.refused = {"nvmlDeviceGetTotalEnergyConsumption"}
    monkeypatch.setattr(nvml, "nvmlDeviceGetPowerUsage", lambda _handle: round(1e3 * 100 * clock.now_s))
    stretch = between(watched(clock, monkeypatch), 0.53, 1.27)
    assert stretch.energy_from == "power"
    assert stretch.energy_j == pytest.approx(50 * (1.27**2 - 0.53**2), rel=0.01)


def test_a_counter_that_begins_anew_gives_no_energy(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        nvml, "nvmlDeviceGetTotalEnergyConsumption", lambda _handle: round(1e6 - 1e3 * clock.now_s)
    )
    assert between(watched(clock, monkeypatch), 0.5, 1.5).energy_j is None


def test_a_stretch_that_was_not_watched_has_no_figures(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watched(clock, monkeypatch)
    assert watch.between(-1, S) is None
    assert watch.between(S, 3 * S) is None
    assert watch.between(S, S) is None


# --- figures -----------------------------------------------------------------------------------------------


def test_the_use_of_a_point_is_that_of_all_its_passes(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watched(clock, monkeypatch)
    use = validity.gpu_use([between(watch, 0.1, 0.5), between(watch, 1.0, 1.9)], throughput_per_s=400)
    assert use is not None
    assert use.power_w == pytest.approx(100, rel=0.01)
    assert use.energy_j_per_1000 == pytest.approx(250, rel=0.01)
    assert (use.utilisation, use.memory_mib, use.sm_clock_mhz) == (pytest.approx(0.8), 5120, 1410)
    assert use.energy_from == "counter"


def test_a_longer_pass_weighs_more() -> None:
    short, long = GpuTime(1, 100, "counter", ()), GpuTime(3, 900, "counter", ())
    use = validity.gpu_use([short, long], throughput_per_s=1000)
    assert use is not None
    assert (use.power_w, use.energy_j_per_1000) == (250, 250)


def test_without_a_watch_there_is_no_use() -> None:
    assert validity.gpu_use([], 100) is None
    assert validity.marks_of_gpu([]) == []


@pytest.mark.parametrize(
    ("refused", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", "utilisation"),
        ("nvmlDeviceGetMemoryInfo", "memory_mib"),
        ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
    ],
)
def test_a_figure_that_is_not_supported_is_absent_and_the_others_stay(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch, refused: str, field: str
) -> None:
    nvml.refused = {refused}
    use = validity.gpu_use([between(watched(clock, monkeypatch), 0.5, 1.5)], 100)
    assert use is not None
    assert [name for name, value in dataclasses.asdict(use).items() if value is None] == [field]


def test_a_gpu_that_tells_nothing_has_no_figures_and_no_marks(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sole_gpu(None)
    assert found is not None
    nvml.refused = {name for name in dir(nvml) if name.startswith("nvmlDeviceGet")}
    stretch = between(watched(clock, monkeypatch, roots=(os.getpid(),)), 0.5, 1.5)
    use = validity.gpu_use([stretch], 100)
    assert use is not None
    assert set(dataclasses.asdict(use).values()) == {None}
    assert validity.marks_of_gpu([stretch]) == []


def reason(name: str) -> int:
    """A bit of the reasons for the clocks, by NVML's own name for it."""
    value = getattr(NVML, f"nvmlClocksEventReason{name}", None) or getattr(
        NVML, f"nvmlClocksThrottleReason{name}"
    )
    return int(value)


# --- throttling --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SwPowerCap", "power cap"),
        ("HwSlowdown", "hardware slowdown"),
        ("SwThermalSlowdown", "software thermal"),
        ("HwThermalSlowdown", "hardware thermal"),
        ("HwPowerBrakeSlowdown", "power brake"),
    ],
)
def test_power_and_heat_are_marked_with_their_share_of_the_time(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    bit = reason(name)
    nvml.reasons = lambda now_s: bit if now_s < 1 else 0
    (mark,) = validity.marks_of_gpu([between(watched(clock, monkeypatch), 0.5, 1.5)])
    assert mark.code == "gpu-throttled"
    assert words in mark.text
    assert "50%" in mark.text or "49%" in mark.text


@pytest.mark.parametrize(
    "name",
    ["GpuIdle", "ApplicationsClocksSetting", "SyncBoost", "DisplayClockSetting", "BoardLimit", "Reliability"],
)
def test_idling_and_settings_are_no_throttling(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    bit = reason(name)
    nvml.reasons = lambda _now: bit
    assert validity.marks_of_gpu([between(watched(clock, monkeypatch), 0.5, 1.5)]) == []


def test_a_reason_that_held_for_a_moment_is_no_throttling(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.reasons = lambda now_s: 0x8 if 1 < now_s < 1.03 else 0
    assert validity.marks_of_gpu([between(watched(clock, monkeypatch), 0.5, 1.5)]) == []


def test_a_driver_that_knows_only_the_older_name_is_asked_by_it(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.refused = {"nvmlDeviceGetCurrentClocksEventReasons"}
    nvml.reasons = lambda _now: 0x40
    assert validity.marks_of_gpu([between(watched(clock, monkeypatch), 0.5, 1.5)])


# --- other programs ----------------------------------------------------------------------------------------


@pytest.fixture
def server_process() -> Iterator[subprocess.Popen[bytes]]:
    """Stands for the server, below this process."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_other_programs_on_the_gpu_are_counted(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch, server_process: "subprocess.Popen[bytes]"
) -> None:
    child = server_process.pid
    nvml.pids = lambda _handle: [child, 2] + ([os.getppid()] if 1 < clock.now_s < 1.1 else [])
    watch = watched(clock, monkeypatch, roots=tuple(gpu.roots_of(child)))
    (mark,) = validity.marks_of_gpu([between(watch, 0.5, 1.5)])
    assert mark.code == "gpu-shared"
    assert mark.text.endswith(": 2")
    (later,) = validity.marks_of_gpu([between(watch, 1.2, 1.5)])
    assert later.text.endswith(": 1")


def test_what_is_below_the_server_or_this_process_is_no_other_program(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch, server_process: "subprocess.Popen[bytes]"
) -> None:
    nvml.pids = lambda _handle: [server_process.pid, os.getpid()]
    watch = watched(clock, monkeypatch, roots=tuple(gpu.roots_of(server_process.pid)))
    assert validity.marks_of_gpu([between(watch, 0.5, 1.5)]) == []


def test_another_worker_of_this_run_is_no_other_program(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch, server_process: "subprocess.Popen[bytes]"
) -> None:
    nvml.pids = lambda _handle: [server_process.pid, os.getppid()]
    for worker, count in ((None, 1), ("gw0", 0)):
        if worker:
            monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        watch = watched(clock, monkeypatch, roots=tuple(gpu.roots_of(server_process.pid)))
        assert gpu.count_strangers(between(watch, 0.5, 1.5).readings) == count


def test_nothing_is_said_of_others_where_the_own_process_is_not_seen(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.pids = lambda _handle: [1]
    watch = watched(clock, monkeypatch, roots=(os.getpid(),))
    assert validity.marks_of_gpu([between(watch, 0.5, 1.5)]) == []


def test_nothing_is_asked_of_others_where_the_server_s_processes_are_unknown(nvml: Nvml) -> None:
    nvml.pids = lambda _handle: [os.getpid(), 1]
    with gpu.watch(None) as watch:
        pass
    assert watch is not None
    assert not watch.readings[0].ours | watch.readings[0].strangers


# --- which GPU ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visible", "handles"),
    [
        (None, ["GPU-aaaa", "GPU-abbb"]),
        ("1", ["GPU-abbb"]),
        ("1,0", ["GPU-abbb", "GPU-aaaa"]),
        ("GPU-ab", ["GPU-abbb"]),
        ("GPU-a", []),
        ("MIG-1", ["MIG-1"]),
        ("MIG-9", []),
        ("0,7,1", ["GPU-aaaa"]),
        ("", []),
        ("-1", []),
    ],
)
def test_cuda_s_gpus_are_found(nvml: Nvml, visible: str | None, handles: list[str]) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-abbb")
    nvml.instances = {"GPU-aaaa": ["MIG-1"]}
    assert gpu_handles(visible) == handles


def test_the_stamp_names_the_gpu_that_is_watched(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bbbb")
    with gpu.watch(None) as watch:
        pass
    assert watch is not None
    assert machine.gpu_names() == (f"NVIDIA {watch.gpu.handle}",)


def test_nvidia_s_own_package_has_every_name_that_is_used_of_it() -> None:
    # The stand-in has whatever a test needs; the real one is asked for nothing here but its names.
    source = Path(gpu.__file__).with_name("nvml.py").read_text()
    used = set(re.findall(r"pynvml\.(\w+)", source))
    assert "nvmlDeviceGetUUID" in used
    assert {name for name in used if not hasattr(NVML, name)} == set()


def test_the_stamp_names_by_uuid_the_gpus_that_were_used_and_on_a_cpu_none(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bbbb,GPU-cccc")
    assert list(machine.stamp("cuda").gpu_uuids) == ["GPU-bbbb", "GPU-cccc"]
    assert list(machine.stamp("cpu").gpu_uuids) == []


def test_several_gpus_are_not_watched_as_if_they_were_one(nvml: Nvml) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb")
    with gpu.watch(None) as watch:
        assert watch is None
    assert sole_gpu("0") == Gpu("GPU-aaaa", "GPU-aaaa")


def test_a_machine_without_a_driver_is_not_watched(nvml: Nvml) -> None:
    nvml.refused = {"nvmlInit"}
    with gpu.watch(1) as watch:
        assert watch is None


@pytest.mark.parametrize("visible", [None, "0", "MIG-1"])
def test_an_instance_of_a_gpu_has_memory_and_clocks_but_not_the_board_s_energy(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch, visible: str | None
) -> None:
    nvml.instances = {"GPU-aaaa": ["MIG-1", "MIG-2"]}
    nvml.reasons = lambda _now: 0x4
    found = sole_gpu(visible)
    assert found == Gpu("MIG-1", "GPU-aaaa")
    sole_gpu.cache_clear()
    stretch = between(watched(clock, monkeypatch), 0.5, 1.5)
    use = validity.gpu_use([stretch], 100)
    assert use is not None
    assert (use.energy_j_per_1000, use.power_w, use.energy_from) == (None, None, None)
    assert (use.memory_mib, use.sm_clock_mhz) == (5120, 1410)
    assert [mark.code for mark in validity.marks_of_gpu([stretch])] == ["gpu-throttled"]


def test_only_a_server_of_this_run_on_a_gpu_is_watched(nvml: Nvml) -> None:
    server = Server("embedded", "127.0.0.1:1", "2.51.0", None, None, device="cuda")
    with server.watch_gpu() as watch:
        assert watch is not None
    for other in (dataclasses.replace(server, device="cpu"), dataclasses.replace(server, device=None)):
        with other.watch_gpu() as watch:
            assert watch is None


def test_the_watch_samples_until_its_block_ends(nvml: Nvml) -> None:
    with gpu.watch(None) as watch:
        assert watch is not None
        deadline = time.monotonic() + HANG_S
        while len(watch.readings) < 5 and time.monotonic() < deadline:
            time.sleep(gpu.PERIOD_S)
    count = len(watch.readings)
    assert count > 5, "some in the block, and one at its end"
    time.sleep(3 * gpu.PERIOD_S)
    assert len(watch.readings) == count
    assert watch.readings == sorted(watch.readings, key=lambda one: one.time_ns)


def test_a_stretch_that_ends_with_the_block_was_watched(nvml: Nvml) -> None:
    with gpu.watch(None) as watch:
        opened_ns = time.time_ns()
        time.sleep(1.5 * gpu.PERIOD_S)
        closed_ns = time.time_ns()
    assert watch is not None
    assert watch.between(opened_ns, closed_ns) is not None


def test_a_server_in_a_container_is_watched_on_the_gpu_that_the_run_uses(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bbbb")
    server = Server("docker", "127.0.0.1:1", "2.51.0", None, None, device="cuda")
    with server.watch_gpu() as contained:
        assert contained is not None
        assert contained.gpu.handle == "GPU-bbbb"


# --- under load --------------------------------------------------------------------------------------------


def test_a_real_run_s_windows_lie_on_the_clock_of_the_watch(
    nvml: Nvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A real load generator and server, whose requests the stand-in's GPU answers at 100 W.
    nvml.clock = time.monotonic
    nvml.counter_step_s = 0.02
    nvml.reasons = lambda _now: 0x4
    name = f"GPU{os.getpid()}"
    model = timed_model.write(tmp_path / "models", name, timed_model.SHAPES_MS["fixed"])
    point = LoadPoint("offline", 2, 1)
    plan = MeasuringPlan(budget_s=1.0)
    with (
        serve(Choice("embedded"), tmp_path / "models", tmp_path / "log", device="cpu") as server,
        input_data(model, model.samples("evaluation", None, None).load([0]), server.scratch) as data,
    ):
        assert server.device == "cpu"
        server.client.load_model(name)
        (job,) = jobs_of(
            dataclasses.replace(server, device="cuda"),
            name,
            model,
            {point: 0.005},
            shared_memory="system",
            data=data,
        )
        (state,) = sweep.measure([measured.begin(job)], plan)
    assert all(run.gpu is not None for run in state.mine.passes)
    found = record_entry(state, plan).load
    assert found.gpu is not None
    assert found.gpu.power_w == pytest.approx(100, rel=0.1)
    assert found.gpu.energy_j_per_1000 == pytest.approx(
        1000 * found.gpu.power_w / found.throughput_per_s.value  # type: ignore[operator]
    )
    assert "gpu-throttled" in [mark.code for mark in found.marks]
