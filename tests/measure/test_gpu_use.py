"""What a point says of the GPU that it used: figures and throttling, by a stand-in for NVML."""

import os
import subprocess

import pynvml as NVML  # noqa: N812 - not the stand-in
import pytest
from msgspec import structs

from fixtures.host import gpu
from fixtures.host.gpu import GpuTime
from fixtures.host.nvml import visible_gpus
from fixtures.measure import validity
from tests.host.fake_nvml import Clock, Nvml, between, watched


def test_the_use_of_a_point_is_that_of_all_its_passes(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.pids = lambda _handle: [os.getpid(), os.getppid()]
    watch = watched(clock, monkeypatch, roots=(os.getpid(),), server=os.getpid())
    use = validity.gpu_use([between(watch, 0.1, 0.5), between(watch, 1.0, 1.9)], throughput_per_s=400)
    assert use is not None
    assert use.power_w == pytest.approx(100, rel=0.01)
    assert use.energy_j_per_1000 == pytest.approx(250, rel=0.01)
    assert (use.utilisation, use.memory_mib, use.sm_clock_mhz) == (pytest.approx(0.8), 5120, 1410)
    assert use.energy_from == "counter"


def test_several_gpus_are_on_record_with_what_they_take_together(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")
    nvml.pids = lambda _handle: [os.getpid()]
    watch = watched(clock, monkeypatch, roots=(os.getpid(),), server=os.getpid())
    use = validity.gpu_use([between(watch, 0.5, 1.5)], throughput_per_s=400)
    assert use is not None
    assert use.power_w == pytest.approx(300, rel=0.01)
    assert use.energy_j_per_1000 == pytest.approx(750, rel=0.01)
    assert (use.utilisation, use.memory_mib, use.sm_clock_mhz) == (pytest.approx(0.8), 3 * 5120, 1410)


def test_the_memory_is_the_server_s_and_not_that_of_this_process_or_another(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs the machine's peak or the model in process has a context on the GPU too."""
    with subprocess.Popen(["sleep", "60"]) as server:
        nvml.pids = lambda _handle: [server.pid, os.getpid(), 1]
        roots = tuple(gpu.roots_of(server.pid))
        watch = watched(clock, monkeypatch, roots=roots, server=server.pid)
        server.kill()
    use = validity.gpu_use([between(watch, 0.5, 1.5)], throughput_per_s=400)
    assert use is not None
    assert use.memory_mib == 5120

    unknown = validity.gpu_use([between(watched(clock, monkeypatch), 0.5, 1.5)], throughput_per_s=400)
    assert unknown is not None
    assert unknown.memory_mib is None


def test_the_energy_of_several_gpus_is_not_said_where_one_does_not_tell_its_own(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb")
    nvml.refused_by = {"GPU-bbbb": {"nvmlDeviceGetTotalEnergyConsumption"}}
    by_power = validity.gpu_use([between(watched(clock, monkeypatch), 0.5, 1.5)], 400)
    assert by_power is not None
    assert by_power.power_w == pytest.approx(200, rel=0.01)
    assert by_power.energy_from == "power", "the poorer of the two is said"

    nvml.refused_by["GPU-bbbb"].add("nvmlDeviceGetPowerUsage")
    untold = validity.gpu_use([between(watched(clock, monkeypatch), 0.5, 1.5)], 400)
    assert untold is not None
    assert (untold.power_w, untold.energy_j_per_1000, untold.energy_from) == (None, None, None)


def test_one_gpu_of_several_that_is_throttled_is_marked_with_its_own_share_of_the_time(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.uuids = tuple(f"GPU-{letter * 4}" for letter in "abcdefgh")
    nvml.reasons_by = {"GPU-hhhh": lambda now_s: 0x40 if now_s < 0.7 else 0}
    (mark,) = validity.marks_of_gpu([between(watched(clock, monkeypatch), 0.5, 1.5)])
    assert mark.code == "gpu-throttled"
    assert "20%" in mark.text or "19%" in mark.text


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
        ("nvmlDeviceGetComputeRunningProcesses", "memory_mib"),
        ("usedGpuMemory", "memory_mib"),
        ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
    ],
)
def test_a_figure_that_is_not_supported_is_absent_and_the_others_stay(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch, refused: str, field: str
) -> None:
    nvml.refused, nvml.pids = {refused}, lambda _handle: [os.getpid()]
    watch = watched(clock, monkeypatch, roots=(os.getpid(),), server=os.getpid())
    use = validity.gpu_use([between(watch, 0.5, 1.5)], 100)
    assert use is not None
    assert [name for name, value in structs.asdict(use).items() if value is None] == [field]


def test_a_gpu_that_tells_nothing_has_no_figures_and_no_marks(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert visible_gpus(None)
    nvml.refused = {name for name in dir(nvml) if name.startswith("nvmlDeviceGet")}
    stretch = between(watched(clock, monkeypatch, roots=(os.getpid(),)), 0.5, 1.5)
    use = validity.gpu_use([stretch], 100)
    assert use is not None
    assert set(structs.asdict(use).values()) == {None}
    assert validity.marks_of_gpu([stretch]) == []


def reason(name: str) -> int:
    """A bit of the reasons for the clocks, by NVML's own name for it."""
    value = getattr(NVML, f"nvmlClocksEventReason{name}", None) or getattr(
        NVML, f"nvmlClocksThrottleReason{name}"
    )
    return int(value)


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
