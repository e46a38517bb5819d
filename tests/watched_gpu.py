"""A GPU that is watched for a while, with time that passes when it is told to."""

import time

import pytest

from fixtures.host.gpu import GpuTime, Watch
from fixtures.host.nvml import visible_gpus

S = 10**9


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def watched(
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    seconds: float = 2.0,
    roots: tuple[int, ...] = (),
    server: int | None = None,
) -> Watch:
    """A watch over so many seconds, with a sample every 20 ms."""
    found = visible_gpus(None)
    assert found
    monkeypatch.setattr(time, "time_ns", lambda: round(clock.now_s * S))
    watch = Watch(found, frozenset(roots), server=server)
    for step in range(round(seconds / 0.02) + 1):
        clock.now_s = step * 0.02
        watch.take()
    return watch


def between(watch: Watch, opened_s: float, closed_s: float) -> GpuTime:
    """What a stretch held."""
    found = watch.between(round(opened_s * S), round(closed_s * S))
    assert found is not None
    return found
