"""GPU use of a load point on a fake NVML: figures and throttling."""

import dataclasses
import os
import subprocess
import time
from pathlib import Path

import pynvml as NVML  # noqa: N812 - not the fake
import pytest
from msgspec import structs

from tests.fake_nvml import Nvml, Stretch
from tests.helpers import present
from tests.measure import timed_server
from tritonproof.host import processor_use
from tritonproof.host.processor_use import GpuStretch
from tritonproof.measure import sweep
from tritonproof.measure.marks import marks_of_gpu
from tritonproof.measure.point_result import gpu_use, point_result
from tritonproof.measure.point_state import PointState, Side
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record.speed import GpuUse, LoadPoint


def use_of(*times: GpuStretch, throughput_per_s: float = 400) -> GpuUse:
    return present(gpu_use(times, throughput_per_s))


@pytest.mark.parametrize("gpus", [1, 3])
def test_gpu_use_covers_all_passes_and_gpus(nvml: Nvml, stretch: Stretch, gpus: int) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")[:gpus]
    nvml.pids = lambda _handle: [os.getpid(), os.getppid()]
    use = use_of(stretch(0.1, 0.5), stretch(1.0, 1.9))
    assert use.power_w == pytest.approx(100 * gpus, rel=0.01)
    assert use.energy_j_per_1000 == pytest.approx(250 * gpus, rel=0.01)
    assert (use.utilisation, use.memory_mib, use.sm_clock_mhz) == (pytest.approx(0.8), 5120 * gpus, 1410)


def test_gpu_memory_is_of_server_alone(nvml: Nvml, stretch: Stretch) -> None:
    """The processes that measure the peak or run the model in process use GPU memory too."""
    with subprocess.Popen(["sleep", "60"]) as server:
        nvml.pids = lambda _handle: [server.pid, os.getpid(), 1]
        gpu_stretch = stretch(roots=tuple(processor_use.own_root_processes(server.pid)), server=server.pid)
        server.kill()
    assert use_of(gpu_stretch).memory_mib == 5120
    assert use_of(stretch(roots=())).memory_mib is None


def test_longer_pass_weighs_more() -> None:
    use = use_of(GpuStretch(1, 100, ()), GpuStretch(3, 900, ()), throughput_per_s=1000)
    assert (use.power_w, use.energy_j_per_1000) == (250, 250)


@pytest.mark.parametrize(
    ("refused", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", "utilisation"),
        ("nvmlDeviceGetComputeRunningProcesses", "memory_mib"),
        ("usedGpuMemory", "memory_mib"),
        ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
    ],
)
def test_unsupported_gpu_figure_is_absent(nvml: Nvml, stretch: Stretch, refused: str, field: str) -> None:
    nvml.refused, nvml.pids = {refused}, lambda _handle: [os.getpid()]
    use = structs.asdict(use_of(stretch()))
    assert [name for name, value in use.items() if value is None] == [field]


THROTTLES = ("SwPowerCap", "HwSlowdown", "SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown")


@pytest.mark.parametrize("name", [*THROTTLES, "GpuIdle", "ApplicationsClocksSetting", "Reliability"])
def test_power_and_heat_limits_count_as_throttling(nvml: Nvml, stretch: Stretch, name: str) -> None:
    of_event, of_throttle = (f"nvmlClocks{kind}Reason{name}" for kind in ("Event", "Throttle"))
    bit = int(getattr(NVML, of_event, None) or getattr(NVML, of_throttle))
    nvml.reasons = lambda now_s: bit if now_s < 1 else 0
    marks = marks_of_gpu([stretch()])
    assert [mark.code for mark in marks] == ["gpu-throttled"] * (name in THROTTLES)
    assert all("50%" in mark.text or "49%" in mark.text for mark in marks), "its share of the time"
    nvml.reasons = lambda now_s: bit if 1 < now_s < 1.03 else 0
    assert marks_of_gpu([stretch()]) == [], "but for a moment"


def test_windows_of_a_real_run_match_watch_clock(nvml: Nvml, tmp_path: Path) -> None:
    """A real load generator and server, beside a fake GPU that draws 100 W."""
    nvml.clock, nvml.counter_step_s, nvml.reasons = time.monotonic, 0.02, lambda _now: 0x4
    plan, (service_ms,) = MeasuringPlan(point_budget_s=1.0), timed_server.service_times_ms("fixed")
    with (
        timed_server.served(tmp_path) as timed,
        timed.job(f"GPU{os.getpid()}", [service_ms], LoadPoint("offline", 2, 1)) as job,
    ):
        assert job.served.server.device == "cpu"
        on_gpu = dataclasses.replace(job.served, server=dataclasses.replace(job.served.server, device="cuda"))
        (state,) = sweep.sweep_points([PointState((Side(dataclasses.replace(job, served=on_gpu)),))], plan)
    assert all(one_pass.gpu is not None for one_pass in state.current.passes)
    result = point_result(state, plan)
    gpu = present(result.gpu)
    assert gpu.power_w == pytest.approx(100, rel=0.1)
    assert gpu.energy_j_per_1000 == pytest.approx(1e3 * present(gpu.power_w) / result.throughput_per_s.value)
    assert "gpu-throttled" in [mark.code for mark in result.marks]
