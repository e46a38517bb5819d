"""What the models that a model calls did in its requests: from totals before and after each run, per request."""

import dataclasses
from typing import Any

import pytest

from fixtures.measure.composing import ComposingTimes
from fixtures.spec import LoadPoint


@dataclasses.dataclass
class Counting:
    """A server whose totals grow by what is done to it."""

    totals: dict[str, tuple[int, int, int]]


@dataclasses.dataclass(frozen=True)
class Asking:
    """A job that asks a server's model."""

    server: Counting
    point: LoadPoint
    name: str = "chain"


def ask(job: Any, _window_s: float) -> Any:
    """Two requests of a model that calls another three times each."""
    changes = {"chain": (2, 0, 9_000_000), "part": (6, 1_000_000, 3_000_000), "other": (5, 7, 7)}
    for name, change in changes.items():
        before = job.server.totals.get(name, (0, 0, 0))
        job.server.totals[name] = tuple(a + b for a, b in zip(before, change, strict=True))


def test_times_are_per_request_of_the_calling_model_and_of_its_point_alone() -> None:
    times = ComposingTimes(["part"], lambda server: dict(server.totals))  # type: ignore[attr-defined]
    server = Counting({"part": (100, 10**12, 10**12)})
    one, other = LoadPoint("offline", 1, 1), LoadPoint("offline", 8, 1)

    take = times.around(ask)
    for point in (one, one, other):
        take(Asking(server, point), 0.1)  # type: ignore[arg-type]

    for point in (one, other):
        (part,) = times.of("chain", point)
        assert (part.model, part.calls) == ("part", 3)
        assert part.queue_ms == pytest.approx(0.5)
        assert part.compute_ms == pytest.approx(1.5)


def test_a_point_that_nothing_was_measured_of_has_no_times() -> None:
    times = ComposingTimes(["part"], lambda _server: {})

    assert times.of("chain", LoadPoint("offline", 1, 1)) == ()


def test_the_statistics_of_a_model_that_calls_none_are_not_read() -> None:
    assert ComposingTimes([]).around(ask) is ask
