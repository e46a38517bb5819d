"""The times of the models that a model calls, from the server's statistics around each pass."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from tritonclient.grpc.service_pb2 import ModelStatistics

from tests import toy
from tests.run.stand_in_case import StandInServer
from tritonproof.measure.called_models import called_models, counting_calls
from tritonproof.measure.passes import LoadJob, Pass
from tritonproof.record.speed import LoadPoint


@dataclass(eq=False)
class Counting(StandInServer):
    """A server whose models have totals, by name."""

    totals: dict[str, Counter[str]] = field(
        default_factory=lambda: {"part": Counter(success=100, queue=10**12, compute_infer=10**12)}
    )

    def statistics(self) -> list[ModelStatistics]:
        counted = {
            name: {kind: {"count": count, "ns": count} for kind, count in totals.items()}
            for name, totals in self.totals.items()
        }
        return [ModelStatistics(name=name, inference_stats=stats) for name, stats in counted.items()]


def ask(job: LoadJob, _window_s: float) -> Pass:
    """Send two requests to a model that calls another three times for each."""
    assert isinstance(job.served.server, Counting)
    for name, change in {
        "chain": Counter(success=2, compute_infer=9_000_000),
        "part": Counter(success=6, queue=1_000_000, compute_infer=2_000_000, compute_output=1_000_000),
        "other": Counter(success=5, queue=7, compute_infer=7),
    }.items():
        job.served.server.totals.setdefault(name, Counter()).update(change)
    return toy.closed_loop(np.full((1, 40), 0.01), 0.3)


def test_times_of_called_models_are_per_request() -> None:
    job = toy.job(LoadPoint("online", 1, 4), "chain")
    job = replace(job, served=replace(job.served, server=Counting()))
    run_pass = counting_calls(ask, ["part"])
    (part,) = called_models("chain", [run_pass(job, 0.1), run_pass(job, 0.1)])
    assert (part.model, part.calls) == ("part", 3)
    assert (part.queue_ms, part.compute_ms) == pytest.approx((0.5, 1.5))
    assert called_models("chain", [ask(job, 0.1)]) == (), "nothing was counted"
    assert counting_calls(ask, []) is ask, "of a model that calls none, nothing is read"
