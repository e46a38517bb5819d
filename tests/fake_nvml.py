"""A stand-in for pynvml that answers as NVML documents, and a watch over its GPUs."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tritonproof.host import nvml
from tritonproof.host.processor_use import GpuStretch, GpuWatch

S = 10**9


class NVMLError(Exception):
    """The error of pynvml for any status of NVML."""


class Nvml:
    """A machine's GPUs; `refused` names the calls that this driver does not support. A handle is a GPU's
    UUID. Figures are functions of the seconds that `clock` gives."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1

    def __init__(self, clock: Callable[[], float], *uuids: str) -> None:
        self.clock = clock
        self.uuids = uuids or ("GPU-aaaa",)
        self.instances: dict[str, list[str]] = {}
        self.names: dict[str, str] = {}
        self.capabilities: dict[str, tuple[int, int]] = {}
        self.refused: set[str] = set()
        self.cuda_version = 12040
        self.power_w = 100.0
        self.counter_step_s = 0.0
        self.reasons: Callable[[float], int] = lambda _now: 0
        self.pids: Callable[[str], list[int]] = lambda _handle: []

    def __getattribute__(self, name: str) -> Any:
        # Without nvmlInit, NVML refuses all else.
        if name.startswith("nvml") and {name, "nvmlInit"} & self.refused:
            return self._refuse
        return object.__getattribute__(self, name)

    def _refuse(self, *_arguments: Any) -> Any:
        raise NVMLError("Not Supported")

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's names, here and below
        pass

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "550.1"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: N802
        return self.cuda_version

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return self.uuids[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in {*self.uuids}.union(*self.instances.values()):
            raise NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> str:  # noqa: N802
        return handle

    def nvmlDeviceGetName(self, handle: str) -> str:  # noqa: N802
        return self.names.get(handle, f"NVIDIA {handle}")

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, ...]:  # noqa: N802
        self._needs_board(handle)
        return tuple(self.capabilities.get(handle, (8, 0)))

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> str:  # noqa: N802
        for board, instances in self.instances.items():
            if handle in instances:
                return board
        raise NVMLError("Invalid Argument")

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:  # noqa: N802
        return [int(handle in self.instances)] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, _handle: str) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:  # noqa: N802
        if index == 0 or index > len(self.instances[handle]):  # lower indices may be empty
            raise NVMLError("Not Found")
        return self.instances[handle][index - 1]

    def nvmlDeviceGetTotalEnergyConsumption(self, _handle: str) -> int:  # noqa: N802
        now_s, step_s = self.clock(), self.counter_step_s
        return round(1e3 * self.power_w * (now_s // step_s * step_s if step_s else now_s))

    def nvmlDeviceGetUtilizationRates(self, _handle: str) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=80, memory=30)

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:  # noqa: N802
        self._needs_board(handle)
        return {self.NVML_CLOCK_SM: 1410}[kind]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:  # noqa: N802
        self._needs_board(handle)
        return self.reasons(self.clock())

    nvmlDeviceGetCurrentClocksThrottleReasons = nvmlDeviceGetCurrentClocksEventReasons  # noqa: N815

    def _needs_board(self, handle: str) -> None:
        if handle not in self.uuids:
            self._refuse()

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        used = None if "usedGpuMemory" in self.refused else 5 * 2**30
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid in self.pids(handle)]


@contextlib.contextmanager
def in_place_of_nvml(fake: Nvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    """Within the block this machine has the stand-in's GPUs, and CUDA sees all of them."""
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    cached_functions = (nvml.visible_gpus, nvml.installed_gpus)
    for function in cached_functions:
        function.cache_clear()
    yield fake
    for function in cached_functions:
        function.cache_clear()


class Clock:
    """A clock that only tests advance."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    monotonic = __call__


def watched(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, roots: tuple[int, ...] = (), server: int | None = None
) -> GpuWatch:
    """A watch of two seconds, with a sample every 20 ms."""
    gpus = nvml.visible_gpus(None)
    assert gpus
    monkeypatch.setattr(time, "time_ns", lambda: round(clock.now_s * S))
    watch = GpuWatch(gpus, frozenset(roots), server_root=server)
    for step in range(101):
        clock.now_s = step * 0.02
        watch.read()
    return watch


Stretch = Callable[..., GpuStretch]
"""`stretch(0.5, 1.5, roots=...)`: what the stand-in's GPUs did between two moments of a watch."""
