"""Does a sample get the same answer however it is sent? A server that is simulated, and what is said of it."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fixtures.measure.answers import Answer, Check
from fixtures.measure.job import Job
from fixtures.measure.load_data import LoadData
from fixtures.measure.same_answers import compare_ways, with_same_answers
from fixtures.spec import LoadPoint
from reports.record.schema import SameAnswers
from reports.words.rightness import ledger_failures, same_answers_text
from tests import samples, simulated

ROWS = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
CHECK = Check(
    [f"row-{n}" for n in range(20)], {"OUT": ROWS}, relative_error=0.01, mean_error=0.01, agreement=1.0
)


def compared(
    answer_of: Callable[[np.ndarray, int], Any], check: Check = CHECK, request_s: float = 0.001
) -> tuple[SameAnswers, list[tuple[int, int]]]:
    """What is found of a server that answers a batch so, with so many requests in flight; and which ways were tried."""
    ways = []
    data = LoadData(None, CHECK.ids, {"IN": ROWS})  # type: ignore[arg-type]
    job = dataclasses.replace(simulated.job(LoadPoint("online", 1, 1), request_s=request_s), data=data)

    def send(asked: Job, which: Sequence[np.ndarray]) -> list[Answer]:
        ways.append((len(which[0]), asked.point.concurrency))
        return [Answer(some, {"OUT": answer_of(some, asked.point.concurrency)}) for some in which]

    return compare_ways(job, check, 8, send), ways


def test_samples_are_sent_alone_among_many_and_in_batches() -> None:
    found, ways = compared(lambda which, _in_flight: ROWS[which])

    assert {1, 8} == {batch for batch, _ in ways}
    assert all(min(many) == 1 < max(many) for many in ({c for b, c in ways if b == size} for size in (1, 8)))
    assert (found.relative_difference, found.agreement, found.passed) == (0.0, 1.0, True)
    assert found.answers >= 4 * found.samples


@pytest.mark.parametrize(
    "answer_of",
    [
        lambda which, _in_flight: ROWS[which] + 0.1 * (len(which) > 1),
        lambda which, in_flight: ROWS[which] + 0.1 * (in_flight > 1),
        lambda which, _in_flight: ROWS[which] + 0.1 * (np.arange(len(which)) == 3)[:, None],
        lambda which, in_flight: np.where(in_flight > 1, np.nan, ROWS[which]),
        lambda which, in_flight: ROWS[which][:, : 4 - (in_flight > 1)],
    ],
    ids=["in a batch", "with many in flight", "at one place of a batch", "no number", "another shape"],
)
def test_an_answer_that_depends_on_the_way_fails_and_names_the_sample(answer_of: Callable[..., Any]) -> None:
    found, _ways = compared(answer_of)

    assert not found.passed
    assert found.sample.startswith("row-")
    (failure,) = ledger_failures(with_same_answers(samples.accuracy(), found))
    assert found.sample in failure


def test_rounding_passes_and_is_told_in_one_figure() -> None:
    found, _ways = compared(lambda which, _in_flight: ROWS[which] * (1 + 1e-6 * len(which)))

    assert found.passed
    assert found.relative_difference == pytest.approx(7e-6, rel=0.1)
    assert "e-06" in same_answers_text(found) or "0.000007" in same_answers_text(found)
    assert with_same_answers(samples.accuracy(), found).passed


def test_integers_are_compared_by_their_share() -> None:
    masks = np.arange(80).reshape(20, 4)
    check = dataclasses.replace(CHECK, expected={"OUT": masks})

    found, _ways = compared(
        lambda which, in_flight: masks[which] * np.where(np.arange(4) == 1, in_flight, 1), check
    )

    assert (found.relative_difference, found.agreement, found.passed) == (None, 0.75, False)


def test_of_slow_requests_few_are_sent() -> None:
    _found, ways = compared(lambda which, _in_flight: ROWS[which], request_s=60.0)

    assert ways == [(1, 1), (1, 2)]
