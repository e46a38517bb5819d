"""Energy of the GPU in a stretch of time, by a stand-in for NVML."""

import pytest

from tests.host.fake_nvml import Clock, Nvml, S, between, watched


def test_energy_is_the_counter_s_between_the_edges_of_the_stretch(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.counter_step_s = 0.1
    nvml.refused = {"nvmlDeviceGetPowerUsage"}
    stretch = between(watched(clock, monkeypatch), 0.53, 1.27)
    assert stretch.energy_from == "counter"
    assert stretch.energy_j == pytest.approx(74, rel=0.05)
    assert stretch.duration_s == pytest.approx(0.74)
    assert all(0.53 * S <= one.time_ns <= 1.27 * S for one in stretch.readings)


def test_a_counter_that_last_moved_before_the_end_is_continued(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.counter_step_s = 0.3
    assert between(watched(clock, monkeypatch), 0.1, 1.99).energy_j == pytest.approx(189, rel=0.06)


def test_what_the_gpu_drew_outside_of_the_stretch_does_not_count(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        nvml,
        "nvmlDeviceGetTotalEnergyConsumption",
        lambda _handle: round(1e3 * (50 * clock.now_s + 250 * min(max(clock.now_s - 0.5, 0), 1))),
    )
    watch = watched(clock, monkeypatch)
    assert between(watch, 0.5, 1.5).energy_j == pytest.approx(300, rel=0.01)
    assert between(watch, 0.0, 0.5).energy_j == pytest.approx(25, rel=0.05)


def test_without_a_counter_energy_is_the_integral_of_the_power(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.refused = {"nvmlDeviceGetTotalEnergyConsumption"}
    monkeypatch.setattr(nvml, "nvmlDeviceGetPowerUsage", lambda _handle: round(1e3 * 100 * clock.now_s))
    stretch = between(watched(clock, monkeypatch), 0.53, 1.27)
    assert stretch.energy_from == "power"
    assert stretch.energy_j == pytest.approx(50 * (1.27**2 - 0.53**2), rel=0.01)


def test_a_counter_that_begins_anew_gives_no_energy(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        nvml, "nvmlDeviceGetTotalEnergyConsumption", lambda _handle: round(1e6 - 1e3 * clock.now_s)
    )
    assert between(watched(clock, monkeypatch), 0.5, 1.5).energy_j is None


def test_a_stretch_that_was_not_watched_has_no_figures(
    nvml: Nvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watched(clock, monkeypatch)
    assert watch.between(-1, S) is None
    assert watch.between(S, 3 * S) is None
    assert watch.between(S, S) is None
