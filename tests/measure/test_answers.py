"""Whether answers under load are right: each compared with what the converted model gives in process."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from fixtures.accuracy.compare_answers import Answer, Closeness, expect
from fixtures.measure.job import Check
from fixtures.measure.load_data import LARGEST_BYTES, LoadData, input_data
from fixtures.measure.verifying import together, verify, verifying
from fixtures.spec import Arrays, LoadPoint, Samples, Tensor
from tests import toy
from tests.consistency.wrong_rows import FAULTS, Fault
from tests.consistency.wrong_rows import NEAR as WIDE

ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)
NEAR = Closeness(0.01, 0.02, 0.9)


def check(near: Closeness = NEAR, **outputs: np.ndarray) -> Check:
    """These outputs are right."""
    count = len(next(iter(outputs.values())))
    return Check(expect([f"row-{n}" for n in range(count)], outputs), near)


CHECK = check(OUT=ROWS)
SAMPLES = np.array([4, 1, 2])


def answer(values: np.ndarray | None = None, **outputs: Any) -> Answer:
    """An answer to a request that held three samples."""
    return Answer(SAMPLES, outputs or {"OUT": ROWS[SAMPLES] if values is None else values})


def changed(row: int, place: int, value: float) -> np.ndarray:
    values = ROWS[SAMPLES].copy()
    values[row, place] = value
    return values


def test_right_answers_are_counted_row_by_row() -> None:
    found = verify(CHECK, [answer(), answer()], 0.25)

    assert (found.verified, found.wrong, found.requests, found.first_wrong) == (6, 0, 2, None)


def test_a_model_that_answers_nan_to_one_sample_is_wrong_there_alone() -> None:
    expected = ROWS.copy()
    expected[1, 2] = np.nan

    found = verify(check(OUT=expected), [answer(expected[SAMPLES])], 0)

    assert (found.verified, found.wrong) == (3, 1)
    assert found.first_wrong is not None
    told = found.first_wrong
    assert (told.sample, told.output, told.given) == ("row-1", "OUT[2]", "nan")


def test_a_difference_is_a_share_of_the_spread_between_samples() -> None:
    spread = ROWS[:, 0].std()

    assert verify(CHECK, [answer(ROWS[SAMPLES] + 0.009 * spread)], 0).wrong == 0
    assert verify(CHECK, [answer(ROWS[SAMPLES] + 0.011 * spread)], 0).wrong == 3
    far = check(OUT=1000 + ROWS)
    assert verify(far, [answer(1000 + ROWS[SAMPLES] + 0.011 * spread)], 0).wrong == 3


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-7.0, "-7")])
def test_a_wrong_answer_is_told_with_its_sample_and_both_values(value: float, shown: str) -> None:
    found = verify(CHECK, [answer(), answer(changed(1, 2, value))], 0)

    assert (found.verified, found.wrong) == (6, 1)
    assert found.first_wrong is not None
    told = found.first_wrong
    assert (told.sample, told.output, told.expected, told.given) == ("row-1", "OUT[2]", "6", shown)


def test_two_swapped_answers_are_two_wrong_ones() -> None:
    assert verify(CHECK, [answer(ROWS[[1, 4, 2]])], 0).wrong == 2


def test_an_answer_of_too_few_rows_another_shape_or_none_is_wrong() -> None:
    for wrong in (answer(ROWS[:2]), answer(ROWS[SAMPLES][:, :2]), answer(OTHER=ROWS[SAMPLES])):
        assert verify(CHECK, [wrong], 0).wrong == 3


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_wrong_rows_within_2_percent_of_the_largest_magnitude_are_found(fault: tuple[Arrays, Fault]) -> None:
    right, spoil = fault
    which = np.arange(12)

    assert verify(check(WIDE, **right), [Answer(which, right)], 0).wrong == 0
    assert verify(check(WIDE, **right), [Answer(which, spoil(right))], 0).wrong >= 10


def test_few_integers_of_a_long_output_may_differ_and_all_answers_share_them() -> None:
    masks = np.zeros((6, 100), np.int64)
    of_masks = check(Closeness(0.01, 0.02, 0.999), OUT=masks)
    one, many = masks[SAMPLES].copy(), masks[SAMPLES].copy()
    one[0, :1], many[0, :5] = 1, 1

    assert verify(of_masks, [answer(one)], 0).wrong == 0
    assert verify(of_masks, [answer(many)], 0).wrong == 1
    assert verify(of_masks, [answer(one)] * 10, 0).wrong == 10, "each has a tie"


def test_what_follows_a_near_tie_may_move_but_an_answer_to_another_sample_may_not() -> None:
    durations = np.random.default_rng(0).integers(1, 9, (6, 20))
    of_speech = check(Closeness(0.01, 0.02, 0.999), DURATIONS=durations, MEL=ROWS)
    rounded = durations[SAMPLES].copy()
    rounded[1, 7] += 1

    moved = verify(of_speech, [answer(DURATIONS=rounded, MEL=ROWS[SAMPLES] + [[0.0], [9], [0]])], 0)
    assert (moved.wrong, moved.left_out) == (0, 1)
    for mel, wrong in (([[0.0], [np.nan], [0]], 1), ([[9.0], [0], [0]], 1)):
        assert verify(of_speech, [answer(DURATIONS=rounded, MEL=ROWS[SAMPLES] + mel)], 0).wrong == wrong
    swapped = answer(DURATIONS=durations[[1, 4, 2]], MEL=ROWS[[1, 4, 2]])
    assert verify(of_speech, [swapped], 0).wrong == 2


def test_no_more_rows_are_left_out_for_a_tie_than_the_precision_makes_ties() -> None:
    """A duration of each row is off by one, as many as INT8 may change: what follows it is random."""
    durations = np.random.default_rng(0).integers(1, 9, (20, 40))
    mel = np.random.default_rng(1).standard_normal((20, 4))
    which = np.arange(20)
    ties = (np.arange(40) == 3) & (which[:, None] < 6)

    def found(ties: np.ndarray, compared: float) -> tuple[int, int]:
        near = Closeness(0.01, 0.02, 0.95, 1e-3, compared)
        moved = mel + 5 * ties.any(axis=1)[:, None]
        one = verify(
            check(near, DURATIONS=durations, MEL=mel),
            [Answer(which, {"DURATIONS": durations + ties, "MEL": moved})],
            0,
        )
        return one.wrong, one.left_out

    assert found(ties, 0.7) == (0, 6)
    assert found(ties, 0.75) == (6, 0)


def test_answers_of_one_class_that_are_swapped_are_found_in_eight_bits() -> None:
    """Kernels of INT8 may do more to an element than half of the spread between samples of one class."""
    scores = np.array([[10.0, 1, 2, 0], [8.0, 2, 0, 1], [0.0, 9, 9, 3]])
    of_scores = check(Closeness(2.0, 0.5, 0.98, 8e-3), OUT=scores)

    def wrong(values: np.ndarray) -> int:
        return verify(of_scores, [Answer(np.arange(3), {"OUT": values})], 0).wrong

    assert wrong(scores + 0.08) == 0
    assert wrong(scores[[1, 0, 2]]) == 2


def test_every_output_is_looked_at() -> None:
    found = verify(check(OUT=ROWS, SECOND=ROWS), [answer(OUT=ROWS[SAMPLES], SECOND=0 * ROWS[SAMPLES])], 0)

    assert found.wrong == 3
    assert found.first_wrong is not None
    assert found.first_wrong.output.startswith("SECOND")


def test_each_output_is_held_to_what_the_precision_costs_it() -> None:
    """One output costs a hundredth of its spread; another may not be off by as much."""
    near = dataclasses.replace(NEAR, by_output={"SECOND": (1e-4, 2e-4)})
    one = check(near, OUT=ROWS, SECOND=ROWS)
    off = ROWS[SAMPLES] + np.float32(0.01)

    assert verify(one, [answer(OUT=off, SECOND=ROWS[SAMPLES])], 0).wrong == 0
    assert verify(one, [answer(OUT=ROWS[SAMPLES], SECOND=off)], 0).wrong == 3
    wider = dataclasses.replace(one, near=near.at_least(0.01))
    assert wider.near.of("SECOND") == (0.01, 2e-4)


def test_looks_at_one_point_add_up_and_keep_the_first_fault() -> None:
    right, wrong = verify(CHECK, [answer()], 0.5), verify(CHECK, [answer(changed(0, 0, np.nan))], 0.5)

    found = together([right, wrong, right])

    assert found is not None
    assert (found.verified, found.wrong, found.duration_s) == (9, 1, 1.5)
    assert found.first_wrong == wrong.first_wrong
    assert together([]) is None


# --- between the passes --------------------------------------------------------------------------------------


def test_answers_are_looked_at_after_a_run_and_the_point_has_its_time_all_the_same() -> None:
    point = LoadPoint("online", 1, 2)
    job = dataclasses.replace(toy.job(point), check=CHECK)
    generator = toy.LoadGenerator()

    found = verifying(generator.take, lambda _job, _seconds: [answer(changed(0, 0, np.nan))])(job, 0.12)

    assert found.answers is not None
    assert (found.answers.verified, found.answers.wrong) == (3, 1)
    assert found.elapsed_s == generator.take(job, 0.12).elapsed_s, "a budget counts the runs alone"


def test_answers_are_looked_at_first_and_then_once_a_second() -> None:
    seconds: list[float] = []

    def ask(_job: object, how_long_s: float) -> list[Answer]:
        seconds.append(how_long_s)
        return [answer(ROWS[SAMPLES])]

    take = verifying(toy.LoadGenerator().take, ask)
    job = dataclasses.replace(toy.job(LoadPoint("online", 1, 2)), check=CHECK)
    runs = [take(job, 0.12) for _ in range(20)]

    assert runs[0].answers is not None
    spent_s = sum(run.elapsed_s for run in runs)
    assert 0.08 * spent_s < sum(seconds) < 0.12 * spent_s
    assert len(seconds) < 12


def test_nothing_is_asked_where_nothing_says_what_is_right() -> None:
    def ask(_job: object, _seconds: float) -> list[Answer]:
        raise AssertionError

    found = verifying(toy.LoadGenerator().take, ask)(toy.job(LoadPoint("online", 1, 2)), 0.12)

    assert found.answers is None


def test_requests_that_take_long_are_not_sent_after_every_run() -> None:
    asked: list[float] = []
    job = dataclasses.replace(toy.job(LoadPoint("offline", 1, 1), request_s=30.0), check=CHECK)

    def ask(_job: object, seconds: float) -> list[Answer]:
        asked.append(seconds)
        return [answer()]

    take = verifying(toy.LoadGenerator().take, ask)

    for _ in range(10):
        take(job, 0.12)

    assert len(asked) == 1


# --- load data -----------------------------------------------------------------------------------------------


def data_of(row_bytes: int, count: int) -> LoadData:
    rows = np.broadcast_to(np.uint8(0), (count, row_bytes))
    return LoadData(None, [str(n) for n in range(count)], {"IN": rows})  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [1, 2, 7, 8, 32, 128])
def test_every_sample_comes_at_every_place_of_a_batch(batch: int) -> None:
    data = data_of(100, 64)
    places = np.array(data.requests(batch))

    assert len(places) > 50
    assert all(set(places[:, place]) == set(range(len(places))) for place in range(batch))


@pytest.mark.parametrize(("row_bytes", "batch"), [(600_000, 8), (600_000, 1), (12_288, 128)])
def test_all_batches_together_keep_the_bound(row_bytes: int, batch: int) -> None:
    assert 3 <= data_of(row_bytes, 64).count(batch) <= max(3, LARGEST_BYTES // (row_bytes * batch))


def test_even_of_the_largest_samples_there_are_several() -> None:
    assert data_of(LARGEST_BYTES, 64).count(4) == 3


def test_no_more_samples_are_loaded_than_there_are_and_fit() -> None:
    loaded: list[int] = []

    def load(indices: Any) -> dict[str, np.ndarray]:
        loaded.extend(indices)
        return {"IN": np.zeros((len(indices), 1 << 22), np.float32)}

    model = toy.model(inputs=(Tensor("IN", "FP32", (1 << 22,)),))
    with input_data(model, Samples([str(n) for n in range(1000)], load), None) as data:
        assert len(data.ids) == len(loaded) == 4
