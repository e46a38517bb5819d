"""A load generator that is invented: `take` of a server of known speed, without a server."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from fixtures.host.cpu import CpuTime
from fixtures.measure.job import Job, Run
from fixtures.measure.load_data import LoadData
from fixtures.measure.timeline import Timeline
from fixtures.measure.windows import WINDOWS
from fixtures.spec import LoadPoint
from reports.record.schema import COMPONENTS
from tests import toy

LATENCY_MS = 10.0
_OPENED = 10**18


def job(point: LoadPoint, name: str = "toy", request_s: float = 0.0) -> Job:
    """A job of the toy model on a server that nobody speaks to."""
    data = LoadData(Path(), ["toy-000"], toy.samples().load([0]))
    return Job(cast(Any, None), name, toy.model(), point, "none", data, request_s)


def run_of(timeline: Timeline, **changes: Any) -> Run:
    """A run with these timestamps, on a machine with nothing else to do."""
    window_s = changes.get("next_window_s", 0.12)
    elapsed_s = WINDOWS * window_s + 0.1
    usual: dict[str, Any] = {
        "components_us": dict.fromkeys(COMPONENTS, 100.0) | {"server_compute_infer": 8000.0},
        "cpu": CpuTime(elapsed_s, 0.1 * elapsed_s, 0.5 * elapsed_s, 0.6 * elapsed_s, 0.0),
        "elapsed_s": elapsed_s,
        "next_window_s": window_s,
    }
    return Run(timeline, **(usual | changes))


def closed_loop(latencies_s: np.ndarray, length_s: float) -> Timeline:
    """Clients that each send a request when they have the answer to the last, [clients, requests] seconds.

    What has not ended at the close is not recorded.
    """
    ends = np.cumsum(np.round(latencies_s * 1e9).astype(np.int64), axis=1)
    starts = ends - np.round(latencies_s * 1e9).astype(np.int64)
    ended = ends <= length_s * 1e9
    return Timeline(
        starts[ended] + _OPENED,
        ends[ended] + _OPENED,
        _OPENED,
        _OPENED + round(length_s * 1e9),
        len(latencies_s),
    )


def open_loop(offsets_s: np.ndarray, service_s: float, length_s: float) -> Timeline:
    """Requests that are due at these seconds at a serial server of one service time, [requests]."""
    order = np.arange(len(offsets_s))
    ends = np.maximum.accumulate(offsets_s - order * service_s) + (order + 1) * service_s
    ended = ends <= length_s
    offsets = np.round(offsets_s * 1e9).astype(np.int64)
    answers = np.round(ends * 1e9).astype(np.int64)
    close = _OPENED + round(length_s * 1e9)
    return Timeline(offsets[ended] + _OPENED, answers[ended] + _OPENED, _OPENED, close, 0, offsets)


@dataclass
class LoadGenerator:
    """`take` of an invented server, which notes what it was asked for."""

    mean_ms: Callable[[Job, int], float] = lambda _job, _number: LATENCY_MS
    """A job and the number of its run, from 0, to the mean latency in milliseconds; may raise ProofError."""
    spread: float = 0.0
    """Of the logarithm of single latencies."""
    changes: Callable[[Job, int], dict[str, Any]] = lambda _job, _number: {}
    """The same to other fields of the run."""
    calls: list[tuple[str, LoadPoint, float]] = field(default_factory=list)
    """Name of the model, load point and seconds of a window, of each call."""
    seed: int = 0

    def __post_init__(self) -> None:
        self._generator = np.random.default_rng(self.seed)

    def take(self, job: Job, window_s: float) -> Run:
        """One run."""
        number = sum((name, point) == (job.name, job.point) for name, point, _ in self.calls)
        self.calls.append((job.name, job.point, window_s))
        mean_s = self.mean_ms(job, number) / 1e3
        length_s = WINDOWS * window_s
        if (rate := job.point.request_rate_per_s) is not None:
            offsets_s = np.arange(int(2 * length_s * rate)) / rate
            timeline = open_loop(offsets_s, mean_s, length_s)
        else:
            count = max(8, int(1.5 * length_s / mean_s) + 2)
            noise = self._generator.normal(-(self.spread**2) / 2, self.spread, (job.point.concurrency, count))
            timeline = closed_loop(mean_s * np.exp(noise), max(length_s, 2.5 * mean_s))
        return run_of(timeline, **({"next_window_s": window_s} | self.changes(job, number)))

    def windows_s(self) -> list[float]:
        """Seconds of a window of each call."""
        return [window_s for _, _, window_s in self.calls]

    def rounds(self, size: int) -> list[tuple[LoadPoint, ...]]:
        """The points in the order of the calls, so many at a time."""
        points = iter([point for _, point, _ in self.calls])
        return list(iter(lambda: tuple(itertools.islice(points, size)), ()))
