"""Histories with the noise of real records."""

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests import sample_records
from tritonproof.record import Record
from tritonproof.reports.history import HistoryRow

COMMITS = [f"{number:08x}{0:032x}" for number in range(0x1000, 0x1000 + 2000)]
"""The commits of the runs, in order."""
CASE = "cpu-resnet50-micro-onnx-fp32"


ORIGIN = sample_records.origin("node-7")


def measured(**changes: object) -> Record:
    """A record whose measurements have an origin."""
    return sample_records.measured_at(ORIGIN, sample_records.record(**changes))


def row(number: int, throughput_per_s: float = 100.0, **changes: Any) -> HistoryRow:
    """A load point in the run of this number, one run a day."""
    started = datetime.datetime(2025, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(days=number)
    value = throughput_per_s
    fields: dict[str, Any] = {
        "run": f"run-{number}",
        "started": started.isoformat(),
        "host": "ci-1",
        "machine": "0a1b2c3d",
        "commit": COMMITS[number],
        "clean": True,
        "target": "cpu",
        "case": CASE,
        "kind": "load",
        "at": "offline b008-c001",
        "figures": {"throughput_per_s": (value, 0.99 * value, 1.01 * value)},
        "build": "0f3c",
        "triton": "2.51.0",
    }
    return HistoryRow(**(fields | changes))


def rows(values: Sequence[float], **changes: Any) -> list[HistoryRow]:
    """A load point, measured once a day."""
    return [row(number, value, **changes) for number, value in enumerate(values)]


def shifted(runs: int, at: int, factor: float, std: float = 0.004, seed: int = 0) -> list[float]:
    """Throughputs whose level changes once, from the run `at` on."""
    levels = 100 * np.exp(np.random.default_rng(seed).normal(0, std, runs))
    levels[at:] *= factor
    return [float(level) for level in levels]


def machine(generator: np.random.Generator, runs: int, std: float, memory: float) -> np.ndarray:
    """A machine's effect on its figures, as a logarithm: noise of this correlation between runs, [runs]."""
    fresh = generator.normal(0, std * np.sqrt(1 - memory**2), runs)
    effect = np.empty(runs)
    effect[0] = generator.normal(0, std)
    for number in range(1, runs):
        effect[number] = memory * effect[number - 1] + fresh[number]
    return effect


def noisy(
    generator: np.random.Generator, runs: int, std: float, drift: float = 0.02
) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of one series' speeds and their standard errors, [runs] each: Student's t with 4 degrees of
    freedom of this standard deviation, the measuring's own error, drift of up to 2 %, and one run in a
    hundred 5 to 40 % slower."""
    errors = generator.lognormal(np.log(0.005), 0.5, runs)
    values = std * generator.standard_t(4, runs) / np.sqrt(2) + errors * generator.normal(size=runs)
    values += generator.uniform(-drift, drift) * np.linspace(0, 1, runs)
    slow = generator.random(runs) < 0.01
    values[slow] -= generator.uniform(0.05, 0.4, slow.sum())
    return values, errors


def history(
    seed: int, std: float, runs: int = 1000, count: int = 200, share: float = 0.25
) -> tuple[list[HistoryRow], dict[str, int]]:
    """Throughputs of many load points on one machine whose own noise of 1.5 % lasts some runs. A share
    has a shift of 3 %; the second result has its run by load point."""
    generator = np.random.default_rng(seed)
    together = machine(generator, runs, 0.015, 0.8)
    history_rows, planted = [], {}
    for number in range(count):
        at = f"online b001-c{number:03d}"
        values, errors = noisy(generator, runs, std)
        values += together
        if generator.random() < share:
            planted[at] = int(generator.integers(runs // 6, runs - runs // 6))
            values[planted[at] :] += generator.choice((-0.03, 0.03))
        speeds = 1000 * np.exp(values)
        bounds = np.stack([speeds, speeds * (1 - 1.96 * errors), speeds * (1 + 1.96 * errors)], axis=1)
        case = f"cpu-model{number // 10:02d}-micro-onnx-fp32"
        history_rows += [
            row(run, at=at, case=case, figures={"throughput_per_s": (value, low, high)})
            for run, (value, low, high) in enumerate(bounds.tolist())
        ]
    return history_rows, planted
