"""Times of the models that a model calls, from server statistics around each run."""

from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.measure.measurement import ComposingTimes
from fixtures.spec import LoadPoint

ONE, OTHER = LoadPoint("offline", 1, 1), LoadPoint("offline", 8, 1)


class Counting:
    """A fake server with totals that `ask` increases."""

    def __init__(self) -> None:
        self.totals = {"part": [100, 10**12, 10**12]}

    def statistics(self) -> list[Any]:
        def took(ns: int) -> Any:
            return SimpleNamespace(ns=ns)

        return [
            SimpleNamespace(
                name=name,
                inference_stats=SimpleNamespace(
                    success=SimpleNamespace(count=count),
                    queue=took(queue_ns),
                    compute_input=took(0),
                    compute_infer=took(compute_ns),
                    compute_output=took(0),
                ),
            )
            for name, (count, queue_ns, compute_ns) in self.totals.items()
        ]


def ask(job: Any, _window_s: float) -> Any:
    """Send two requests to a model that calls another three times for each."""
    for name, change in {
        "chain": (2, 0, 9_000_000),
        "part": (6, 1_000_000, 3_000_000),
        "other": (5, 7, 7),
    }.items():
        before = job.server.totals.get(name, (0, 0, 0))
        job.server.totals[name] = [a + b for a, b in zip(before, change, strict=True)]


def test_composing_times_are_per_request_and_point() -> None:
    times, server = ComposingTimes(["part"]), Counting()
    take = times.around(ask)
    for point in (ONE, ONE, OTHER):
        job: Any = SimpleNamespace(server=server, point=point, name="chain")
        take(job, 0.1)

    for point in (ONE, OTHER):
        (part,) = times.of("chain", point)
        assert (part.model, part.calls) == ("part", 3)
        assert (part.queue_ms, part.compute_ms) == pytest.approx((0.5, 1.5))


def test_unmeasured_point_has_no_composing_times() -> None:
    assert ComposingTimes(["part"]).of("chain", ONE) == ()
    assert ComposingTimes([]).around(ask) is ask, "of a model that calls none, nothing is read"
