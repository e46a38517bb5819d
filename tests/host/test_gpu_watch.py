"""Which GPU is watched, and which other programs are on it, by a stand-in for NVML."""

import dataclasses
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml as NVML  # noqa: N812 - not the stand-in
import pytest

from fixtures.host import gpu, machine
from fixtures.host.nvml import Gpu, gpu_handles, visible_gpus
from fixtures.measure import validity
from fixtures.serve.server import Server
from tests.host.fake_nvml import Clock, Nvml, between, watched

HANG_S = 60.0  # bounds a hang


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
    assert machine.gpu_names() == tuple(f"NVIDIA {one.handle}" for one in watch.gpus)


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


def test_every_gpu_of_the_run_is_watched_and_no_other(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-cccc,GPU-aaaa")
    with gpu.watch(None) as watch:
        assert watch is not None
        assert watch.gpus == (Gpu("GPU-cccc", "GPU-cccc"), Gpu("GPU-aaaa", "GPU-aaaa"))


def test_several_gpus_of_which_one_is_divided_are_not_watched(nvml: Nvml) -> None:
    """CUDA shows one instance then, and nobody says which."""
    nvml.uuids = ("GPU-aaaa", "GPU-bbbb")
    nvml.instances = {"GPU-bbbb": ["MIG-1"]}
    with gpu.watch(None) as watch:
        assert watch is None


def test_a_machine_without_a_driver_is_not_watched(nvml: Nvml) -> None:
    nvml.refused = {"nvmlInit"}
    with gpu.watch(1) as watch:
        assert watch is None


@pytest.mark.parametrize("visible", [None, "0", "MIG-1"])
def test_an_instance_of_a_gpu_has_clocks_but_not_the_board_s_energy(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch, visible: str | None
) -> None:
    nvml.instances = {"GPU-aaaa": ["MIG-1", "MIG-2"]}
    nvml.reasons = lambda _now: 0x4
    assert visible_gpus(visible) == (Gpu("MIG-1", "GPU-aaaa"),)
    visible_gpus.cache_clear()
    stretch = between(watched(clock, monkeypatch), 0.5, 1.5)
    use = validity.gpu_use([stretch], 100)
    assert use is not None
    assert (use.energy_j_per_1000, use.power_w, use.energy_from) == (None, None, None)
    assert use.sm_clock_mhz == 1410
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
        assert [one.handle for one in contained.gpus] == ["GPU-bbbb"]
