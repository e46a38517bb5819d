"""Counts what the models that a model calls did in its requests, and how long it took, by the server's
statistics around each pass."""

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from tritonproof.measure.job import Job, PassResult, RunPass
from tritonproof.record.schema import ComposingModel, LoadPoint
from tritonproof.serve.server import Server


class ComposingTimes:
    """The sums over the passes of each load point."""

    def __init__(self, composing: Sequence[str]) -> None:
        self._composing = tuple(composing)
        self._sums: defaultdict[tuple[LoadPoint, str], np.ndarray] = defaultdict(
            functools.partial(np.zeros, 3, np.int64)
        )

    def around(self, run_pass: RunPass) -> RunPass:
        """A `run_pass` that also reads the server's statistics around it, if the model calls others."""
        if not self._composing:
            return run_pass

        def run_and_count(job: Job, window_s: float) -> PassResult:
            before = totals(job.served.server)
            result = run_pass(job, window_s)
            after = totals(job.served.server)
            for name in (job.served.name, *self._composing):
                self._sums[job.point, name] += after[name] - before[name]
            return result

        return run_and_count

    def of(self, name: str, point: LoadPoint) -> tuple[ComposingModel, ...]:
        """What each model that `name` calls did in its requests at a point, the slowest model first."""
        models, requests = [], self._sums[point, name][0]
        for composing in self._composing if requests else ():
            calls, queue_ns, compute_ns = (self._sums[point, composing] / requests).tolist()
            models.append(ComposingModel(composing, calls, queue_ns / 1e6, compute_ns / 1e6))
        return tuple(sorted(models, key=lambda model: -model.queue_ms - model.compute_ms))


def totals(server: Server) -> Mapping[str, np.ndarray]:
    """By model, summed over its versions since it was loaded: requests, nanoseconds in its queue, and
    nanoseconds of computing; zeros for a name that the server has not."""
    sums: defaultdict[str, np.ndarray] = defaultdict(functools.partial(np.zeros, 3, np.int64))
    for model in server.statistics():
        stats = model.inference_stats
        computed_ns = stats.compute_input.ns + stats.compute_infer.ns + stats.compute_output.ns
        sums[model.name] += (stats.success.count, stats.queue.ns, computed_ns)
    return sums
