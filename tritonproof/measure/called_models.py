"""Counts how often, and how long, the models that a model calls ran for its requests: Triton's statistics."""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from tritonproof.measure.passes import LoadJob, Pass, RunPass
from tritonproof.record.speed import CalledModel
from tritonproof.serve.server import Server


def counting_calls(run_pass: RunPass, called: Sequence[str]) -> RunPass:
    """A `run_pass` that also reads the server's statistics before and after, if the model calls others."""
    if not called:
        return run_pass

    def run_and_count(job: LoadJob, window_s: float) -> Pass:
        before = counts_by_model(job.served.server)
        one_pass = run_pass(job, window_s)
        after = counts_by_model(job.served.server)
        names = (job.served.name, *called)
        done = {name: after[name] - before[name] for name in names}
        return dataclasses.replace(one_pass, counts_by_model=done)

    return run_and_count


def called_models(name: str, passes: Sequence[Pass]) -> tuple[CalledModel, ...]:
    """How often and how long each model that `name` calls ran in some passes, the slowest model first."""
    sums: dict[str, np.ndarray] = defaultdict(functools.partial(np.zeros, 3, np.int64))
    for one_pass in passes:
        for model, counts in one_pass.counts_by_model.items():
            sums[model] += counts
    requests, models = sums.pop(name, (0,))[0], []
    for called, counts in sums.items() if requests else ():
        calls, queue_ns, compute_ns = (counts / requests).tolist()
        models.append(CalledModel(called, calls, queue_ns / 1e6, compute_ns / 1e6))
    return tuple(sorted(models, key=lambda model: -model.queue_ms - model.compute_ms))


def counts_by_model(server: Server) -> Mapping[str, np.ndarray]:
    """By model, summed over its versions since it was loaded: requests, nanoseconds in its queue, and
    nanoseconds of computing, [3] each; zeros for a name that the server does not have."""
    sums: defaultdict[str, np.ndarray] = defaultdict(functools.partial(np.zeros, 3, np.int64))
    for model in server.statistics():
        stats = model.inference_stats
        computed_ns = stats.compute_input.ns + stats.compute_infer.ns + stats.compute_output.ns
        sums[model.name] += (stats.success.count, stats.queue.ns, computed_ns)
    return sums
