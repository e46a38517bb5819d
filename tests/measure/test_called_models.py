"""The times of the models that a model calls, from the server's statistics around each pass."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import toy
from tritonproof.measure.called_models import called_models, counting_calls

USUAL = {"success": 0, "queue": 0, "compute_input": 0, "compute_infer": 0, "compute_output": 0}


class Counting:
    """A fake server whose models have totals, by name."""

    def __init__(self) -> None:
        self.totals = {"part": Counter(success=100, queue=10**12, compute_infer=10**12)}

    def statistics(self) -> list[Any]:
        def stats(totals: Counter[str]) -> Any:
            both = {kind: SimpleNamespace(count=count, ns=count) for kind, count in (USUAL | totals).items()}
            return SimpleNamespace(**both)

        return [SimpleNamespace(name=name, inference_stats=stats(of)) for name, of in self.totals.items()]


def ask(job: Any, _window_s: float) -> Any:
    """Send two requests to a model that calls another three times for each."""
    for name, change in {
        "chain": Counter(success=2, compute_infer=9_000_000),
        "part": Counter(success=6, queue=1_000_000, compute_infer=2_000_000, compute_output=1_000_000),
        "other": Counter(success=5, queue=7, compute_infer=7),
    }.items():
        job.served.server.totals.setdefault(name, Counter()).update(change)
    return toy.closed_loop(np.full((1, 40), 0.01), 0.3)


def test_times_of_called_models_are_per_request() -> None:
    job: Any = SimpleNamespace(served=SimpleNamespace(server=Counting(), name="chain"))
    run_pass = counting_calls(ask, ["part"])
    (part,) = called_models("chain", [run_pass(job, 0.1), run_pass(job, 0.1)])
    assert (part.model, part.calls) == ("part", 3)
    assert (part.queue_ms, part.compute_ms) == pytest.approx((0.5, 1.5))

    assert called_models("chain", [ask(job, 0.1)]) == (), "nothing was counted"
    assert counting_calls(ask, []) is ask, "of a model that calls none, nothing is read"
