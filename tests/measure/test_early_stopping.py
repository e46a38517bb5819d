"""Percentiles one can sign: equal to MLPerf LoadGen's early stopping, request for request."""

import json
from pathlib import Path

import numpy as np
import pytest

from fixtures.measure import estimates
from tests.measure import loadgen

LISTED = json.loads((Path(__file__).parent / "loadgen.json").read_text())
REQUESTS = {
    (float(percent), int(slower)): requests
    for percent, by_slower in LISTED["requests"].items()
    for slower, requests in by_slower.items()
}


@pytest.mark.parametrize(("percent", "slower"), REQUESTS)
def test_as_many_requests_are_needed_as_loadgen_says(percent: float, slower: int) -> None:
    needed = REQUESTS[percent, slower]
    assert estimates.requests_that_allow(slower, percent) == needed
    assert estimates.slower_allowed(needed, percent) == slower
    assert estimates.slower_allowed(needed - 1, percent) == slower - 1


def test_a_p99_is_signed_from_662_requests_on() -> None:
    latencies_ms = np.random.default_rng(1).permutation(np.arange(1.0, 663))
    few = estimates.certified(latencies_ms[:600], 99)
    assert (few.bound_ms, few.requests, few.requests_missing) == (None, 600, 62)
    enough = estimates.certified(latencies_ms, 99)
    assert (enough.bound_ms, enough.requests_missing) == (662.0, 0)
    assert enough.value_ms == pytest.approx(655.39)


def test_of_more_requests_more_of_the_slowest_are_left_out_of_account() -> None:
    """838 requests allow two slower ones: the second slowest is the bound."""
    latencies_ms = np.random.default_rng(1).permutation(np.arange(1.0, 839))
    assert estimates.certified(latencies_ms, 99).bound_ms == 837.0


@pytest.mark.parametrize(("percent", "requests"), [(99.0, 900), (99.9, 8000), (90.0, 100)])
def test_the_bound_holds_the_percentile_in_at_least_99_of_100_runs(percent: float, requests: int) -> None:
    generator = np.random.default_rng(4)
    truth = float(-np.log(1 - percent / 100))
    held = [
        estimates.certified(generator.exponential(1, requests), percent).bound_ms >= truth  # type: ignore[operator]
        for _ in range(1000)
    ]
    # Three standard errors of 0.99 in 1,000 are 0.94 of a point.
    assert np.mean(held) > 0.9806


@pytest.mark.contract
def test_loadgen_itself_gives_the_same_bound_of_the_same_latencies(tmp_path: Path) -> None:
    try:
        loadgen.install(LISTED["version"], tmp_path / "package")
    except loadgen.OutOfReachError as error:
        pytest.skip(f"needs PyPI: {error}")
    for percent, requests in [(90, 63), (90, 64), (90, 3000), (99, 661), (99, 662), (99, 5000), (99.9, 6636)]:
        found = loadgen.run(tmp_path / "package", tmp_path / f"{percent}-{requests}", requests, percent)
        mine = estimates.certified(np.array(found.latencies_ns), percent)
        assert len(found.latencies_ns) == requests
        assert mine.bound_ms == found.bound_ns, (percent, requests)
        assert estimates.requests_needed(percent) == found.needed
