"""Who used this machine's cores in a stretch of time; and its GPUs' energy, use, clocks and processes."""

import contextlib
import dataclasses
import itertools
import os
import re
import resource
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tritonproof.host import nvml
from tritonproof.host.machine import VISIBLE_GPUS
from tritonproof.host.nvml import GpuHandle, GpuReading


@dataclass(frozen=True)
class CpuTime:
    """CPU seconds used in a stretch of time, on the cores that this process may use."""

    elapsed_s: float
    children_s: float
    """CPU seconds of this process's children that ended meanwhile: the load generator."""
    server_s: float | None
    """CPU seconds of the server and all processes below it; None if unknown."""
    busy_s: float
    """CPU seconds of all programs on these cores, the load generator and the server included."""
    stolen_s: float
    """CPU seconds that the host withheld from this virtual machine (Linux's steal time)."""
    nice: int = 0
    """This process's niceness, by which it and its children yield to others: 0 as a rule, 19 at most."""


def start_cpu_clock(pid: int | None) -> Callable[[], CpuTime]:
    """Start a stretch of time, which the returned function reads; the server's processes are below `pid`."""
    before, server_before = _read_clocks(), _cpu_s_by_process(pid)

    def read() -> CpuTime:
        elapsed, children, busy, stolen = (b - a for a, b in zip(before, _read_clocks(), strict=True))
        # Processes that ended meanwhile, as when a model was replaced, do not count.
        server_after = _cpu_s_by_process(pid).items()
        server = sum(seconds - server_before.get(process, 0.0) for process, seconds in server_after)
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        return CpuTime(elapsed, children, None if pid is None else server, busy, stolen, nice)

    return read


def _read_clocks() -> tuple[float, float, float, float]:
    """The wall clock, and CPU seconds of this process's ended children, of all programs, and stolen ones."""
    import psutil  # the doctor reads this module where it may be missing

    # psutil gives no numbers of cores, which may have gaps. A container may number its cores differently.
    numbers = map(int, re.findall(r"^cpu(\d+)", Path(psutil.PROCFS_PATH, "stat").read_text(), re.MULTILINE))
    cores, affinity = dict(zip(numbers, psutil.cpu_times(percpu=True), strict=False)), os.sched_getaffinity(0)
    times = [cores[number] for number in (affinity if affinity <= cores.keys() else cores)]
    busy = sum(core.user + core.nice + core.system + core.irq + core.softirq for core in times)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.monotonic(), children.ru_utime + children.ru_stime, busy, sum(core.steal for core in times))


def _cpu_s_by_process(pid: int | None) -> dict[int, float]:
    """CPU seconds of a process and of each process below it, by id; empty if `pid` is None."""
    import psutil

    seconds: dict[int, float] = {}
    with contextlib.suppress(psutil.NoSuchProcess):  # the server ended, which the load generator reports
        root = None if pid is None else psutil.Process(pid)
        for process in (root, *root.children(recursive=True)) if root else ():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                seconds[process.pid] = times.user + times.system
    return seconds


PERIOD_S = 0.03
"""Seconds between readings: several fit the shortest window, while NVML's calls take some milliseconds."""
_MIN_SHARE = 0.05
"""The share of the readings from which a throttling reason counts. HW slowdown at least halves the clocks,
and "may be also reported during PState or clock change" (NVML); 5 % cost less than an interval is wide."""


@dataclass(frozen=True)
class GpuStretch:
    """What the GPUs did in a stretch of time."""

    duration_s: float
    energy_j: float | None
    """Joules of all GPUs; None if those of any GPU are unknown."""
    readings: Sequence[GpuReading]
    """NVML's readings within the stretch, ordered by time."""


@dataclass
class GpuWatch:
    """The GPUs of a server, and their readings so far."""

    gpus: tuple[GpuHandle, ...]
    run_roots: frozenset[int]
    """The processes above all processes of this run; empty if the server's processes are unknown."""
    readings: list[GpuReading] = field(default_factory=list)
    server_root: int | None = None
    """The process above all of the server's processes; None if unknown."""
    _ancestors: dict[int, frozenset[int]] = field(default_factory=dict)

    def read(self) -> None:
        for index, gpu in enumerate(self.gpus):
            memory = (nvml.processes_on(gpu) if self.run_roots else None) or {}
            for pid in memory.keys() - self._ancestors.keys():
                self._ancestors[pid] = _with_ancestors(pid)
            ours = frozenset(pid for pid in memory if self._ancestors[pid] & self.run_roots)
            servers = frozenset(pid for pid in memory if self.server_root in self._ancestors[pid])
            reading = dataclasses.replace(
                nvml.read_now(gpu),
                gpu_index=index,
                memory_mib=nvml.memory_of(memory, servers),
                ours=ours,
                strangers=frozenset(memory) - ours,
            )
            self.readings.append(reading)

    def between(self, opened_ns: int, closed_ns: int) -> GpuStretch | None:
        """What the GPUs did between two moments, in nanoseconds since 1970; None if not all was watched."""
        groups = by_gpu(self.readings)
        is_watched = all(group[0].time_ns <= opened_ns and closed_ns <= group[-1].time_ns for group in groups)
        if opened_ns >= closed_ns or not groups or not is_watched:
            return None
        joules = [_energy(group, opened_ns, closed_ns) for group in groups]
        measured = [energy for energy in joules if energy is not None]
        energy_j = sum(measured) if len(measured) == len(groups) else None
        inside = tuple(reading for reading in self.readings if opened_ns <= reading.time_ns <= closed_ns)
        return GpuStretch((closed_ns - opened_ns) / 1e9, energy_j, inside)


@contextlib.contextmanager
def watch_gpus(server_pid: int | None) -> Iterator[GpuWatch | None]:
    """Read the server's GPUs repeatedly until the end of the block; None if NVML shows none. All of the
    server's processes are below `server_pid`; if it is None, memory and other programs stay unknown. A
    server, even in a container, sees the GPUs that CUDA_VISIBLE_DEVICES leaves to this process."""
    gpus = nvml.visible_gpus(os.environ.get(VISIBLE_GPUS))
    if not gpus:
        yield None
        return
    roots = frozenset[int]() if server_pid is None else own_root_processes(server_pid)
    watched = GpuWatch(gpus, roots, server_root=server_pid)
    done = threading.Event()

    def read_on() -> None:
        while not done.wait(PERIOD_S):
            watched.read()

    watched.read()
    thread = threading.Thread(target=read_on, name="gpu-watch", daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        done.set()
        thread.join()
        watched.read()


def by_gpu(readings: Sequence[GpuReading]) -> list[list[GpuReading]]:
    """The readings of each GPU, in the order of the GPUs' first readings."""
    groups: dict[int, list[GpuReading]] = {}
    for reading in readings:
        groups.setdefault(reading.gpu_index, []).append(reading)
    return list(groups.values())


def throttle_reasons(readings: Sequence[GpuReading]) -> list[str]:
    """Why power or heat throttled the clocks, each reason with its share of the readings of the worst GPU."""
    masks_by_gpu = [[one.reasons for one in group if one.reasons is not None] for group in by_gpu(readings)]
    texts = []
    for bit, text in nvml.REASONS.items():
        shares = (sum(bool(mask & bit) for mask in masks) / len(masks) for masks in masks_by_gpu if masks)
        if (share := max(shares, default=0.0)) >= _MIN_SHARE:
            texts.append(f"{text} {share:.0%} of the time")
    return texts


def count_strangers(readings: Sequence[GpuReading]) -> int:
    """How many processes on the GPUs are not this run's; 0 if none is this run's: ids may be the host's."""
    is_visible = any(reading.ours for reading in readings)
    return len(frozenset().union(*(reading.strangers for reading in readings))) if is_visible else 0


def own_root_processes(server_pid: int) -> frozenset[int]:
    """The processes above all of this run's: the server, this process, and the parent of xdist's workers."""
    parents = {os.getppid()} if "PYTEST_XDIST_WORKER" in os.environ else set()
    return frozenset({server_pid, os.getpid()} | parents)


def _energy(readings: Sequence[GpuReading], opened_ns: int, closed_ns: int) -> float | None:
    """Joules of a GPU over a stretch, from its energy counter, which every GPU from Volta on has. NVML
    updates it some ten times a second, so this interpolates between its updates, and extrapolates beyond."""
    counter = [(reading.time_ns, reading.energy_j) for reading in readings if reading.energy_j is not None]
    moved = [after for before, after in itertools.pairwise(counter) if after[1] != before[1]]
    if len(moved) < 2:
        return None
    values = []
    for moment in (opened_ns, closed_ns):
        after = next((index for index, point in enumerate(moved) if point[0] >= moment), len(moved) - 1)
        (t0, v0), (t1, v1) = moved[max(1, after) - 1], moved[max(1, after)]
        values.append(v0 + (v1 - v0) * (moment - t0) / (t1 - t0))
    energy_j = values[1] - values[0]
    return energy_j if energy_j > 0 else None  # a counter begins anew with the driver


def _with_ancestors(pid: int) -> frozenset[int]:
    """The ids of a process and of all processes above it; none if it has ended, or cannot be seen."""
    import psutil

    try:
        process = psutil.Process(pid)
        return frozenset(member.pid for member in (process, *process.parents()))
    except psutil.Error:
        return frozenset()
