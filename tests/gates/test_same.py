"""Samples sent again, in flight and in batches: what is sent, and what is said of a model whose answers depend on it."""

import itertools
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures.gates import same
from fixtures.gates.served import FULL_S, MICRO_S
from reports.record.schema import AnswerGate
from tests.gates.stand_in import ROWS, Model, Server, alone, served_model, sound

Gate = Callable[..., tuple[AnswerGate, Server]]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """`gate(name, model, ...)`: what a gate says of a model, and what it asked."""

    def run(name: str, model: Model = sound, count: int = 8, **changes: float) -> tuple[AnswerGate, Server]:
        server = Server(model)
        monkeypatch.setattr(same, "ask", server.ask)
        found = getattr(same, name)(served_model(count, **changes), alone(count))  # type: ignore[arg-type]
        return found, server

    return run


@pytest.mark.parametrize("name", ["repeated", "reloaded", "in_flight", "batches"])
def test_a_sound_model_passes_and_one_that_answers_otherwise_does_not(gate: Gate, name: str) -> None:
    found, server = gate(name)
    assert (found.wrong, found.requests) == ("", len(server.asked))
    assert found.same is not None
    assert found.same.passed

    wrong, _ = gate(name, lambda samples, _in_flight: 2 * ROWS[samples] + (samples == 5)[:, None])
    assert "to sample row-5: OUT[" in wrong.wrong
    assert wrong.wrong.endswith(" alone")
    assert wrong.same is not None
    assert not wrong.same.passed


def test_before_each_repeated_request_comes_another_one_than_before(gate: Gate) -> None:
    _, server = gate("repeated")

    assert server.asked == [([n], 1) for n in range(7, -1, -1)]


def test_a_model_loaded_anew_is_asked_each_sample_alone(gate: Gate) -> None:
    _, server = gate("reloaded")

    assert server.asked == [([n], 1) for n in range(8)]


@pytest.mark.parametrize(
    ("request_s", "requests"), [(0.0001, 64), (0.01, 20), (10.0, 8)], ids=["quick", "slower", "slow"]
)
def test_as_many_are_in_flight_as_the_time_allows_and_each_sample_is_among_them(
    gate: Gate, request_s: float, requests: int
) -> None:
    found, server = gate("in_flight", request_s=request_s)

    assert {in_flight for _, in_flight in server.asked} == {requests}
    assert found.requests == len(server.asked) == requests
    assert found.tried.startswith(f"{requests} requests of one sample each in flight")
    counts = Counter(sample for (sample,), _ in server.asked)
    assert counts.keys() == set(range(8))
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_batch_of_each_size_is_sent_alone_and_beside_others(gate: Gate) -> None:
    found, server = gate("batches", largest=5)

    sizes = Counter((len(samples), in_flight) for samples, in_flight in server.asked)
    assert sizes == {(size, in_flight): 2 for size in range(1, 6) for in_flight in (1, 2)}
    assert found.tried == "5 of 5 batch sizes, 1 to 5"


def test_in_batches_samples_have_several_places_and_neighbours(gate: Gate) -> None:
    for count in (2, 3, 8):
        _, server = gate("batches", count=count, largest=8)
        batches = [samples for samples, _ in server.asked if len(samples) > 1]
        assert {sample for samples in batches for sample in samples} == set(range(count))
        assert all(set(samples) <= set(range(count)) for samples in batches)
        for sample in range(count):
            places = {place for samples in batches for place, one in enumerate(samples) if one == sample}
            assert len(places) >= 3, (count, sample)
        # Each size is sent in two orders, so that a neighbour on one side is one on the other side too.
        assert all(one != other for one, other in zip(batches[::2], batches[1::2], strict=True))


@pytest.mark.parametrize(
    "fault",
    [
        lambda samples, _in_flight: 2 * ROWS[samples[::-1] if len(samples) == 3 else samples],
        lambda samples, in_flight: 2 * ROWS[samples] + (in_flight > 1 and len(samples) > 2),
        lambda samples, _in_flight: (
            2 * ROWS[samples] + 0.01 * ROWS[samples].mean(axis=0) * (len(samples) > 1)
        ),
        lambda samples, _in_flight: 2 * ROWS[samples] + (np.arange(len(samples)) == 3)[:, None],
    ],
    ids=["batches of three", "batches in flight", "neighbours", "the fourth row"],
)
def test_what_only_a_batch_does_to_answers_is_found(gate: Gate, fault: Model) -> None:
    assert "answers differ" in gate("batches", fault)[0].wrong
    assert gate("repeated", fault)[0].wrong == ""


def test_without_time_three_sizes_are_tried_and_with_it_all_the_likely_ones_first() -> None:
    assert list(same.sizes_in_time(served_model(largest=32, gate_s=-1.0))) == [1, 2, 32]
    all_sizes = list(same.sizes_in_time(served_model(largest=32, gate_s=60.0)))
    assert all_sizes[:8] == [1, 2, 32, 31, 4, 8, 16, 3]
    assert sorted(all_sizes) == list(range(1, 33))
    assert list(same.sizes_in_time(served_model(largest=1, gate_s=60.0))) == [1]
    assert list(same.sizes_in_time(served_model(largest=2, gate_s=-1.0))) == [1, 2]


def test_a_model_of_which_no_answer_could_be_read_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same, "ask", Server().ask)

    assert same.reloaded(served_model(), {}).wrong == "no answer could be read"


def test_how_many_answers_differ_is_said_of_how_many(gate: Gate) -> None:
    found, _ = gate("repeated", lambda samples, _in_flight: 2 * ROWS[samples] + (samples > 5)[:, None])

    assert found.wrong.startswith("2 of 8 answers differ, the first to sample row-7: ")


@pytest.mark.parametrize(
    ("request_s", "gate_s", "count", "samples"),
    [(0.001, 0.2, 8, 8), (0.05, 0.2, 8, 4), (0.001, 0.2, 1, 1), (9.0, 2.0, 8, 2), (0.0, 0.001, 8, 8)],
)
def test_as_many_samples_are_sent_as_there_is_time_for_and_two_at_least(
    request_s: float, gate_s: float, count: int, samples: int
) -> None:
    assert served_model(count, request_s=request_s, gate_s=gate_s).samples == samples


@pytest.mark.parametrize(
    ("gate_s", "request_s", "samples"),
    [(MICRO_S, 0.005, 8), (MICRO_S, 0.06, 2), (FULL_S, 0.1, 8), (FULL_S, 0.2, 8), (FULL_S, 0.9, 2)],
)
def test_a_quick_model_gets_all_samples_and_a_slow_one_no_more_than_two(
    gate_s: float, request_s: float, samples: int
) -> None:
    assert served_model(request_s=request_s, gate_s=gate_s).samples == samples


def test_no_more_than_sixteen_samples_are_sent_however_quick_the_model() -> None:
    many = served_model()
    many.job.data.ids.extend(f"more-{n}" for n in range(50))  # type: ignore[attr-defined]

    assert many.samples == 16


def test_a_model_takes_batches_where_it_has_an_axis_for_them_and_more_than_one_row() -> None:
    assert served_model(largest=2).takes_batches
    assert not served_model(largest=1).takes_batches
    assert not served_model(largest=4, batched=False).takes_batches


def test_the_second_batch_of_a_size_is_backwards_from_another_sample_on(gate: Gate) -> None:
    for count in (3, 8):
        _, server = gate("batches", count=count, largest=6)
        alone_in_turn = [samples for samples, in_flight in server.asked if in_flight == 1]
        for ahead, back in zip(alone_in_turn[::2], alone_in_turn[1::2], strict=True):
            assert all((after - one) % count == 1 for one, after in itertools.pairwise(ahead))
            assert all((one - after) % count == 1 for one, after in itertools.pairwise(back))


def test_no_further_size_is_begun_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()  # a second passes from each look to the next
    monkeypatch.setattr(same, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))

    assert len(list(same.sizes_in_time(served_model(largest=64, gate_s=7.0)))) == 3 + 7
