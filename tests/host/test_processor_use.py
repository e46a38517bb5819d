"""The CPU clock; and the GPUs on a stand-in for NVML: those that are watched, foreign processes, energy."""

import dataclasses
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pynvml as NVML  # noqa: N812 - not the stand-in
import pytest

from tests.fake_nvml import Clock, Nvml, S, Stretch, watched
from tests.helpers import present, wait_until
from tritonproof.host import machine, processor_use
from tritonproof.host.nvml import GpuHandle, gpu_handles, visible_gpus
from tritonproof.measure.marks import marks_of_gpu
from tritonproof.measure.perf_analyzer import watch_gpu
from tritonproof.measure.point_result import gpu_use
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec


def test_cpu_clock_attributes_busy_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process, watched as the server, keeps a core busy; the clock counts that as the server's share."""
    read = processor_use.start_cpu_clock(os.getpid())
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    nice = {(os.PRIO_PROCESS, 0): 3}
    monkeypatch.setattr(os, "getpriority", lambda *which: nice[which])
    usage = read()
    assert usage.nice == 3
    assert 0.25 < present(usage.server_s) <= usage.elapsed_s * len(os.sched_getaffinity(0)) + 0.1
    assert usage.busy_s >= 0.25
    assert usage.children_s == pytest.approx(0, abs=0.05)
    assert processor_use.start_cpu_clock(None)().server_s is None


def test_cores_are_counted_by_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Core n has been busy for 3 times 10 to the power of n seconds, and its host has kept as many from it."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    for listed, affinity, counted in (
        ((0, 1, 2), {1, 2}, (1, 2)),
        ((0, 2, 5), {2, 5}, (2, 5)),  # others are offline
        ((0, 1), {4, 5}, (0, 1)),  # a container's list with numbers of its own
    ):
        ticks = {core: os.sysconf("SC_CLK_TCK") * 10**core for core in listed}
        lines = [f"cpu{core} {one} 0 {one} 7 7 {one} 0 {3 * one} 0 0" for core, one in ticks.items()]
        (tmp_path / "stat").write_text("\n".join(["cpu 0 0 0 0 0 0 0 0 0 0", *lines]))
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, numbers=affinity: numbers)
        _now_s, _children_s, busy_s, stolen_s = processor_use._read_clocks()
        assert busy_s == stolen_s == sum(3 * 10**core for core in counted)


SERVER = Server(ServerSpec("embedded"), "127.0.0.1:1", "2.51.0", None, None, device="cuda")


@pytest.fixture
def server_process() -> Iterator[int]:
    """A child process in place of the server."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def test_foreign_programs_on_gpu_are_counted(
    nvml: Nvml, clock: Clock, stretch: Stretch, server_process: int
) -> None:
    parent = os.getppid()
    nvml.pids = lambda _handle: [server_process, os.getpid(), 2] + ([parent] if 1 < clock.now_s < 1.1 else [])
    for opened_s, count in ((0.5, 2), (1.2, 1)):
        one = stretch(opened_s, roots=processor_use.own_root_processes(server_process))
        assert processor_use.count_strangers(one.readings) == count
        assert [mark.code for mark in marks_of_gpu([one])] == ["gpu-shared"]


def test_other_worker_of_a_run_is_not_foreign(
    nvml: Nvml, stretch: Stretch, monkeypatch: pytest.MonkeyPatch, server_process: int
) -> None:
    nvml.pids = lambda _handle: [server_process, os.getppid()]
    for count in (1, 0):
        one = stretch(roots=processor_use.own_root_processes(server_process))
        assert processor_use.count_strangers(one.readings) == count
        monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")


def test_unknown_own_process_reports_no_strangers(nvml: Nvml, stretch: Stretch) -> None:
    nvml.pids = lambda _handle: [1]
    assert marks_of_gpu([stretch(roots=(os.getpid(),))]) == []
    assert not stretch(roots=()).readings[0].strangers


@pytest.mark.parametrize(
    ("visible", "handles"),
    [
        (None, ["GPU-aaaa", "GPU-abbb"]),
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
def test_visible_gpus_follow_cuda_variables(nvml: Nvml, visible: str | None, handles: list[str]) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-abbb")
    nvml.instances = {"GPU-aaaa": ["MIG-1"]}
    assert gpu_handles(visible) == handles


def test_only_gpus_of_the_run_are_watched_and_stamped(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-cccc,GPU-aaaa")
    for server in (SERVER, dataclasses.replace(SERVER, spec=ServerSpec("docker"))):
        with watch_gpu(server) as watch:
            assert [gpu.handle for gpu in present(watch).gpus] == ["GPU-cccc", "GPU-aaaa"]
    assert machine.gpu_names() == ("NVIDIA GPU-cccc", "NVIDIA GPU-aaaa")
    assert list(machine.stamp("cuda").gpu_uuids) == ["GPU-cccc", "GPU-aaaa"]
    assert list(machine.stamp("cpu").gpu_uuids) == []


def test_neither_a_cpu_servers_gpu_nor_several_with_mig_are_watched(nvml: Nvml) -> None:
    """Of several, CUDA shows only one instance, but not which one."""
    with watch_gpu(dataclasses.replace(SERVER, device="cpu")) as watch:
        assert watch is None
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb")
    nvml.instances = {"GPU-bbbb": ["MIG-1"]}
    with processor_use.watch_gpus(None) as watch:
        assert watch is None


@pytest.mark.parametrize("visible", [None, "0", "MIG-1"])
def test_mig_instance_has_clocks_but_no_energy(nvml: Nvml, stretch: Stretch, visible: str | None) -> None:
    nvml.instances = {"GPU-aaaa": ["MIG-1", "MIG-2"]}
    nvml.reasons = lambda _now: 0x4
    assert visible_gpus(visible) == (GpuHandle("MIG-1", "GPU-aaaa"),)
    visible_gpus.cache_clear()
    one = stretch()
    use = present(gpu_use([one], 100))
    assert (use.energy_j_per_1000, use.power_w) == (None, None)
    assert use.sm_clock_mhz == 1410
    assert [mark.code for mark in marks_of_gpu([one])] == ["gpu-throttled"]


def test_watch_samples_throughout_its_block(nvml: Nvml) -> None:
    with processor_use.watch_gpus(None) as watch:
        assert watch is not None
        opened_ns = time.time_ns()
        wait_until(lambda: len(watch.readings) >= 5)
        closed_ns = time.time_ns()
    assert watch.between(opened_ns, closed_ns) is not None
    count = len(watch.readings)
    time.sleep(3 * processor_use.PERIOD_S)
    assert len(watch.readings) == count


def test_nvml_package_has_every_name_used() -> None:
    # Other tests use the stand-in; this one checks only names of the real package.
    source = Path(processor_use.__file__).with_name("nvml.py").read_text()
    used = set(re.findall(r"""(?:pynvml\.|ask\(")(\w+)""", source))
    assert {"nvmlDeviceGetUUID", "nvmlDeviceGetMigMode"} <= used
    assert {name for name in used if not hasattr(NVML, name)} == set()


@pytest.mark.parametrize(
    ("step_s", "opened_s", "closed_s"), [(0.1, 0.53, 1.27), (0.3, 0.1, 1.99)], ids=["between", "beyond"]
)
def test_energy_is_on_lines_through_the_counters_updates(
    nvml: Nvml, stretch: Stretch, step_s: float, opened_s: float, closed_s: float
) -> None:
    nvml.counter_step_s = step_s
    one = stretch(opened_s, closed_s)
    assert one.duration_s == pytest.approx(closed_s - opened_s)
    assert one.energy_j == pytest.approx(100 * (closed_s - opened_s), rel=0.06)
    assert all(opened_s * S <= reading.time_ns <= closed_s * S for reading in one.readings)


def test_unwatched_stretch_has_no_figures(nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watched(clock, monkeypatch)
    assert [watch.between(*edges) for edges in ((-1, S), (S, 3 * S), (S, S))] == [None] * 3


def test_reset_energy_counter_gives_no_energy(nvml: Nvml, stretch: Stretch) -> None:
    nvml.power_w = -100.0
    assert stretch().energy_j is None


def test_gpu_library_versions_are_stamped(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other versions count as another machine: cuDNN determines the speed of convolutions."""
    monkeypatch.setattr(machine, "version_of", {"nvidia-cudnn-cu13": "9.12", "nvidia-cublas": "13.1"}.get)
    versions = machine.stamp("cuda").versions
    assert (versions["nvidia-cudnn-cu13"], versions["nvidia-cublas"]) == ("9.12", "13.1")
