"""Leak verdicts on made-up traces and on those of real servers."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tritonproof.measure.soak import ARENAS_OF_A_CPU, Per, SoakedPoint, growths, soak_entry
from tritonproof.record import Growth, speed

MIB = 2**20
BYTES, NUMBER = "shared memory", "open files"


def found(used: np.ndarray, times: np.ndarray, per: Per, what: str = BYTES, heaps: int = 0) -> Growth:
    """The growth of a resource, by its use at these times."""
    (growth,) = growths([{what: float(value)} for value in used], times.tolist(), per, heaps)
    return growth


# --- traces of ten minutes at a hundred requests per second -------------------------------------------------

SAMPLES = 120
REQUESTS = np.arange(SAMPLES) * 500.0
"""So few requests that a leak of 1 KiB adds up to 58 MiB."""


def noise() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.2 * MIB, SAMPLES)


def steps(*starts: int) -> np.ndarray:
    """Memory of an allocator that takes a large piece at each of these samples."""
    return sum((64 * MIB * (np.arange(SAMPLES) >= start) for start in starts), start=np.zeros(SAMPLES))


def sawtooth(period: int) -> np.ndarray:
    """Memory that the server frees after every `period` samples."""
    return 40 * MIB * (np.arange(SAMPLES) % period) / period


@pytest.mark.parametrize(
    ("used", "verdicts"),
    [
        (400 * MIB * (1 - np.exp(-np.arange(SAMPLES) / 12)) + noise(), {"passed"}),
        (steps(70, 88, 110) + noise(), {"passed"}),
        (sawtooth(16) + noise(), {"passed", "inconclusive"}),
        (sawtooth(40) + noise(), {"passed", "inconclusive"}),
        (np.random.default_rng(1).normal(0, 80 * MIB, SAMPLES), {"inconclusive"}),
        (3 * MIB * np.floor(1024 * REQUESTS / (3 * MIB)), {"failed"}),
    ],
    ids=["warm-up", "3 pieces", "saw 16", "saw 40", "noise", "leak in pieces"],
)
def test_only_lasting_growth_is_a_leak(used: np.ndarray, verdicts: set[str]) -> None:
    assert found(used, REQUESTS, "request").verdict in verdicts


def test_random_walk_is_rarely_a_leak() -> None:
    walks = np.random.default_rng(2).normal(0, 1 * MIB, (1000, SAMPLES)).cumsum(axis=1)
    assert sum(found(walk, REQUESTS, "request").verdict == "failed" for walk in walks) <= 10


STRETCHES = 21
"""Number of stretches in the part that counts."""
COUNTED: dict[Per, Sequence[int]] = {"request": (126, 63), "loading": (189, 126)}
"""Number of samples, and of those that count, which is a multiple of STRETCHES: warm-up is half of the
samples under load, and a third of the loadings."""


def stretched(levels: Sequence[float], per: Per = "request", what: str = BYTES) -> Growth:
    """The growth of a resource with these levels in the stretches of the part that counts."""
    samples, counted = COUNTED[per]
    used = np.concatenate([np.full(samples - counted, levels[0]), np.repeat(levels, counted // STRETCHES)])
    return found(used, np.arange(samples, dtype=float), per, what)


def test_interval_matches_sign_test_of_twenty_steps() -> None:
    """The steps are 1 to 20 bytes each, in some order."""
    order = np.random.default_rng(3).permutation(np.arange(1, 21))
    outside = max(count for count in range(10) if stats.binom.cdf(count, 20, 0.5) <= 0.005)
    growth = stretched(np.concatenate([[0.0], 3 * np.cumsum(order)]).tolist())
    assert growth.slope.value == pytest.approx(10.5)
    assert (growth.slope.low, growth.slope.high) == pytest.approx((1 + outside, 20 - outside))
    assert growth.slope.confidence == 0.99


@pytest.mark.parametrize(
    ("what", "per", "every", "least"),
    [
        (BYTES, "request", 1, 128.0),
        (BYTES, "request", 2000, 4 * MIB / 124_000),
        (NUMBER, "request", 1, 0.01),
        (NUMBER, "request", 100, 4 / 6200),
        (BYTES, "loading", 1, MIB),
        (BYTES, "loading", 2000, MIB),
        (NUMBER, "loading", 1, 0.5),
        (NUMBER, "loading", 100, 0.5),
    ],
)
def test_growth_above_smallest_leak_is_a_leak(what: str, per: Per, every: int, least: float) -> None:
    times = np.arange(COUNTED[per][0]) * float(every)
    assert found(1e6 + 1.001 * least * times, times, per, what).verdict == "failed"
    assert found(1e6 + 0.999 * least * times, times, per, what).verdict == "passed"


@pytest.mark.parametrize(
    ("what", "per", "least"),
    [
        (BYTES, "request", 1024.0),
        (NUMBER, "request", 0.01),
        (BYTES, "loading", 4 * MIB),
        (NUMBER, "loading", 0.5),
    ],
)
def test_no_leak_is_stated_only_with_enough_power(what: str, per: Per, least: float) -> None:
    """A resource that goes up and down does not grow, but hides smaller growth."""
    length = COUNTED[per][1] // STRETCHES

    def wave(share: float) -> Growth:
        return stretched([share * least * length * (index % 2) for index in range(STRETCHES)], per, what)

    assert wave(0.999).verdict == "passed"
    assert wave(1.001).verdict == "inconclusive"


@pytest.mark.parametrize(("pieces", "is_leak"), [(20, True), (12, True), (8, True), (6, False)])
def test_eight_large_pieces_are_a_leak(pieces: int, is_leak: bool) -> None:
    """The pieces come at even distances in the part that counts."""
    samples, counted = COUNTED["request"]
    index = np.maximum(0, np.arange(samples) - (samples - counted))
    used = 64 * MIB * np.floor((index + 0.5) * (pieces + 1) / counted)
    growth = found(used, np.arange(samples, dtype=float), "request")
    assert (growth.verdict == "failed") == is_leak
    assert (growth.slope.low > 0) == is_leak, "the interval is of the steps that show it"


@pytest.mark.parametrize(
    ("what", "heaps", "verdict", "counted"),
    [
        ("memory of the server", 0, "failed", 39),
        ("memory of the server", 51, "failed", 8),
        ("memory of the server", 52, "inconclusive", 39),
        ("shared memory", 52, "failed", 39),
    ],
)
def test_only_server_memory_excludes_heap_loadings(what: str, heaps: int, verdict: str, counted: int) -> None:
    times = np.arange(60, dtype=float)
    growth = found(8 * MIB * times, times, "loading", what, heaps)
    assert (growth.verdict, growth.counted) == (verdict, counted)


# --- real servers -------------------------------------------------------------------------------------------

TRACES = json.loads(gzip.decompress(Path(__file__).with_name("soak_traces.json.gz").read_bytes()))
"""What real servers used under load and in repeated loadings; the file names its sources."""
RUNS = 200


def like(real: dict[str, Any], generator: np.random.Generator) -> list[dict[str, float]]:
    """A soak of SAMPLES samples, made of random blocks of ten steps of a real one after its first fifth: all
    that a server does in the second half, and some of its warm-up."""
    size, begin = 10, len(real["times"]) // 5
    count = len(real["times"]) - begin - 1
    starts = generator.integers(0, count, -(-SAMPLES // size))
    order = (starts[:, None] + np.arange(size)).ravel()[: SAMPLES - 1] % count
    grown = {
        name: np.cumsum([values[begin], *np.diff(values[begin:])[order]])
        for name, values in real["used"].items()
    }
    return [{name: float(values[index]) for name, values in grown.items()} for index in range(SAMPLES)]


@pytest.mark.parametrize("real", TRACES["traces"], ids=lambda item: item["of"])
def test_clean_servers_pass_and_1_kib_leaks_are_found(real: dict[str, Any]) -> None:
    generator, name = np.random.default_rng(7), "memory of the server"
    times = list(real["requests_per_s"] * np.linspace(0, 600, SAMPLES))
    alarms = passed = leaks = 0
    for _ in range(RUNS):
        used = like(real, generator)
        verdicts = {item.verdict for item in growths(used, times, "request")}
        alarms, passed = alarms + ("failed" in verdicts), passed + (verdicts == {"passed"})
        leaking = [{name: item[name] + 1024 * count} for item, count in zip(used, times, strict=True)]
        leaks += growths(leaking, times, "request")[0].verdict == "failed"

    assert alarms <= RUNS / 20
    assert passed >= RUNS * 19 / 20
    assert leaks >= RUNS * 19 / 20


def test_successive_malloc_heaps_are_no_leak() -> None:
    traced = TRACES["loadings"]["used"]
    used = [{name: float(values[index]) for name, values in traced.items()} for index in range(24)]
    watched = growths(used, [*range(1, 25)], "loading", ARENAS_OF_A_CPU * 2)
    by_name = {growth.resource: growth.verdict for growth in watched}
    assert by_name["memory of the server"] == "inconclusive"
    assert by_name["open files"] == "passed"


def test_partly_watched_resource_is_left_out_and_named() -> None:
    used: list[dict[str, float]] = [{"threads": 4.0}] * 30 + [{"threads": 4.0, "open files": 9.0}] * 30
    under_load = SoakedPoint(used, range(60), [], [], 0, 1.0)
    soak = soak_entry(speed.LoadPoint("online", 1, 4), under_load, used)
    assert [growth.resource for growth in soak.growth] == ["threads"] * 2
    assert soak.not_watched == ("open files was not watched throughout: 60 of 120 readings lack it",)


@pytest.mark.parametrize(("released", "at", "is_leak"), [(6, 30, True), (8, 30, False), (10, 45, False)])
def test_growth_released_by_more_than_half_is_no_leak(released: float, at: int, is_leak: bool) -> None:
    """Use grows in nineteen of twenty steps, by 14 MiB between the middles of first and last third."""
    samples, counted = COUNTED["request"]
    index = np.arange(samples, dtype=float)
    used = MIB * (index / 3 - released * (index >= samples - counted + at))
    assert (found(used, index, "request").verdict == "failed") == is_leak
