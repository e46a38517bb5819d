"""Which growth is a leak: by made-up traces, and by what real servers used under load."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.soak.growth import ARENAS_OF_A_CPU, FEWEST, growths
from reports.record.schema import Growth, Verdict

MIB = 2.0**20
SAMPLES = 120
REQUESTS = np.arange(SAMPLES) * 500.0
"""Of ten minutes at a hundred requests per second: few, so that a leak of 1 KiB is 58 MiB in all."""


def growth(used: np.ndarray, what: str = "shared memory") -> Growth:
    """What is found of something of which so much is used."""
    (found,) = growths([{what: float(one)} for one in used], list(REQUESTS), "request")
    return found


def memory(used: np.ndarray) -> Verdict:
    """What is said of these bytes."""
    return growth(used).verdict


def noise(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.2 * MIB, SAMPLES)


def steps(*places: int) -> np.ndarray:
    """An allocator that takes a large piece at each of these samples."""
    return sum((64 * MIB * (np.arange(SAMPLES) >= place) for place in places), start=np.zeros(SAMPLES))


def sawtooth(period: int) -> np.ndarray:
    """Memory that is given back after so many samples."""
    return 40 * MIB * (np.arange(SAMPLES) % period) / period


@pytest.mark.parametrize(
    ("used", "verdicts"),
    [
        (400 * MIB * (1 - np.exp(-np.arange(SAMPLES) / 12)) + noise(), {"passed"}),
        (steps(70) + noise(), {"passed"}),
        (steps(70, 88) + noise(), {"passed"}),
        (steps(70, 88, 110) + noise(), {"passed"}),
        (sawtooth(16) + noise(), {"passed", "not shown"}),
        (sawtooth(30) + noise(), {"passed", "not shown"}),
        (sawtooth(40) + noise(), {"passed", "not shown"}),
        (np.random.default_rng(1).normal(0, 80 * MIB, SAMPLES), {"not shown"}),
        (3 * MIB * np.floor(1024 * REQUESTS / (3 * MIB)), {"failed"}),
    ],
    ids=["warm-up", "piece", "2 pieces", "3 pieces", "saw 16", "saw 30", "saw 40", "noise", "leak in pieces"],
)
def test_only_what_keeps_growing_is_a_leak(used: np.ndarray, verdicts: set[str]) -> None:
    assert memory(used) in verdicts


def test_a_leak_is_found_with_its_size() -> None:
    found = growth(300 * MIB + 1024 * REQUESTS + noise())

    assert found.verdict == "failed"
    assert found.slope.low < 1024 < found.slope.high


def test_a_walk_at_random_is_called_a_leak_in_no_more_than_one_of_a_hundred() -> None:
    generator = np.random.default_rng(2)
    walks = generator.normal(0, 1 * MIB, (1000, SAMPLES)).cumsum(axis=1)

    assert sum(memory(walk) == "failed" for walk in walks) <= 10


@pytest.mark.parametrize(
    ("per_file", "verdict"),
    [(20, "failed"), (400, "failed"), (None, "passed")],
)
def test_open_files_are_counted_one_by_one(per_file: int | None, verdict: str) -> None:
    used = 60.0 + (REQUESTS // per_file if per_file else 0 * REQUESTS)

    assert growth(used, "open files").verdict == verdict


def test_what_was_not_seen_all_the_time_is_left_out() -> None:
    used: list[dict[str, float]] = [{"threads": 4.0}] * 30 + [{"threads": 4.0, "open files": 9.0}] * 30

    assert [one.what for one in growths(used, [float(n) for n in range(60)], "loading")] == ["threads"]


@pytest.mark.parametrize("per", ["request", "loading"])
def test_the_fewest_samples_that_are_taken_show_a_plain_leak(per: Any) -> None:
    times = [float(number) for number in range(FEWEST[per])]

    (found,) = growths([{"GPU memory": 8 * MIB * time} for time in times], times, per)

    assert found.verdict == "failed"


TRACES = json.loads(gzip.decompress(Path(__file__).with_name("traces.json.gz").read_bytes()))
"""What real servers used under load, and while a model was loaded again and again; the file says where they come from."""
RUNS = 200


def like(real: dict[str, Any], generator: np.random.Generator) -> list[dict[str, float]]:
    """A soak of SAMPLES samples whose steps are those of a real one in blocks of ten, drawn at random, after its first fifth:
    all that a server is seen to do in the second half, and more, as steps of its warm-up are among them."""
    size, begin = 10, len(real["times"]) // 5
    count = len(real["times"]) - begin - 1
    starts = generator.integers(0, count, -(-SAMPLES // size))
    order = (starts[:, None] + np.arange(size)).ravel()[: SAMPLES - 1] % count
    grown = {
        name: np.cumsum([values[begin], *np.diff(values[begin:])[order]])
        for name, values in real["used"].items()
    }
    return [{name: float(values[place]) for name, values in grown.items()} for place in range(SAMPLES)]


@pytest.mark.parametrize("real", TRACES["traces"], ids=lambda one: one["of"])
def test_clean_servers_raise_no_alarm_and_leaks_of_a_kibibyte_are_found_in_19_of_20(
    real: dict[str, Any],
) -> None:
    generator = np.random.default_rng(7)
    times = list(real["requests_per_s"] * np.linspace(0, 600, SAMPLES))
    alarms = passed = found = 0
    for _ in range(RUNS):
        used = like(real, generator)
        verdicts = {one.verdict for one in growths(used, times, "request")}
        alarms, passed = alarms + ("failed" in verdicts), passed + (verdicts == {"passed"})
        name = "memory of the server"
        leaking = [{name: one[name] + 1024 * count} for one, count in zip(used, times, strict=True)]
        found += growths(leaking, times, "request")[0].verdict == "failed"

    assert alarms <= RUNS / 20
    assert passed >= RUNS * 19 / 20
    assert found >= RUNS * 19 / 20


@pytest.mark.parametrize("count", [18, 24])
def test_the_heaps_that_malloc_makes_one_after_another_are_no_leak_of_loadings(count: int) -> None:
    used = [
        {name: float(values[place]) for name, values in TRACES["loadings"]["used"].items()}
        for place in range(count)
    ]
    times = [float(place + 1) for place in range(count)]

    by_name = {one.what: one for one in growths(used, times, "loading", ARENAS_OF_A_CPU * 2)}

    assert by_name["memory of the server"].verdict == "not shown"
    assert by_name["open files"].verdict == "passed"


@pytest.mark.parametrize(
    ("heaps", "samples", "leak", "verdict"), [(28, 42, 0, "passed"), (16, 60, 3, "failed")]
)
def test_the_loadings_in_which_heaps_are_made_do_not_count_and_those_after_them_do(
    heaps: int, samples: int, leak: int, verdict: Verdict
) -> None:
    used = [
        {"memory of the server": (12 * min(place, heaps) + leak * place) * MIB} for place in range(samples)
    ]

    (found,) = growths(used, [float(place) for place in range(samples)], "loading", heaps)

    assert (found.verdict, found.slope.value) == (verdict, pytest.approx(leak * MIB))
