"""A model small enough to follow by hand, whose class is the place of the largest of four numbers, and a load
generator that invents the runs of a server of known speed."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from fixtures.accuracy import parity
from fixtures.accuracy.precision_cost import measure_cost
from fixtures.accuracy.stages import evaluate_in_process
from fixtures.host.cpu import CpuTime
from fixtures.measure.estimates import Timeline
from fixtures.measure.job import Job, Run
from fixtures.measure.load_data import LoadData
from fixtures.measure.stopping import WINDOWS
from fixtures.spec import (
    Arrays,
    Case,
    Format,
    LoadPoint,
    Metric,
    Model,
    Samples,
    Split,
    Target,
    Tensor,
    Tolerance,
    Weights,
)
from reports.record.schema import COMPONENTS, Limit, Parity

INPUT, OUTPUT = "INPUT__0", "OUTPUT__0"
CLASSES = 4
LATENCY_MS = 10.0
_OPENED = 10**18


def samples(count: int = 40) -> Samples:
    """Labelled samples, `toy-000` on; the label is where the 1 stands."""
    labels = np.random.default_rng(1).integers(0, CLASSES, count)
    images = np.eye(CLASSES, dtype=np.float32)[labels]
    return Samples(
        ids=[f"toy-{i:03d}" for i in range(count)],
        load=lambda indices: {INPUT: images[list(indices)]},
        labels=labels,
    )


def network(inputs: Arrays) -> Arrays:
    """The scores are the numbers themselves."""
    return {OUTPUT: inputs[INPUT].copy()}


def spoilt(value: float) -> Callable[[Arrays], Arrays]:
    """The network, with one value of the last sample replaced."""

    def run(inputs: Arrays) -> Arrays:
        outputs = network(inputs)
        outputs[OUTPUT][-1, 2] = value
        return outputs

    return run


def weights(**changes: Any) -> Weights:
    """Of a trained model, unless said otherwise."""
    fields: dict[str, Any] = {"network": network, "origin": "none", "digest": "0", "trained": True}
    return Weights(**(fields | changes))


def model(**changes: Any) -> Model:
    """The model; each argument replaces a field."""

    def evaluation(_split: Split, _dataset: Path | None, _checkpoint: Path | None) -> Samples:
        return samples()

    fields: dict[str, Any] = {
        "name": "toy",
        "inputs": (Tensor(INPUT, "FP32", (CLASSES,)),),
        "outputs": (Tensor(OUTPUT, "FP32", (CLASSES,)),),
        "load": lambda _checkpoint: weights(),
        "run": lambda framework, inputs: framework(inputs),
        "samples": evaluation,
        "keep": lambda outputs: {"classes": outputs[OUTPUT].argmax(axis=1)},
        "decide": lambda kept: kept["classes"],
        "metrics": (metric(),),
        "matrices": {},
        "source": Path(__file__),
    }
    return Model(**(fields | changes))


def metric(**changes: Any) -> Metric:
    """Top-1 with a floor of 90 %; each argument replaces a field."""

    def score(kept: Arrays, labels: np.ndarray, _framework: Arrays) -> np.ndarray:
        return (kept["classes"] == labels).astype(float)

    fields: dict[str, Any] = {
        "name": "top-1",
        "score": score,
        "limits": {"fp32": Limit(0.9, "chosen"), "int8": Limit(0.9, "chosen")},
    }
    return Metric(**(fields | changes))


def case(toy: Model | None = None, precision: str = "fp32", tolerance: Tolerance | None = None) -> Case:
    """The model in a format that nothing converts to."""

    def convert(*_arguments: object) -> None:
        raise NotImplementedError

    format_ = Format(
        mnemonic="plain",
        label="plain",
        engine="none",
        artifact="model.npy",
        backend="none",
        runtime="none.py",
        convert=convert,
        precisions={"cpu": ("fp32", "int8")},
        tolerances=dict.fromkeys(
            ("fp32", "tf32", "fp16", "bf16", "int8"), tolerance or Tolerance(0.01, 0.95, "chosen")
        ),
        packages=(),
        source=Path(__file__),
    )
    return Case(Target("cpu", "CPU", "cpu"), toy or model(), format_, None, precision)


def compare_conversion(
    one: Case,
    of: Weights,
    converted: Callable[[Arrays], Arrays],
    given: Samples,
    batch: int,
    *,
    tf32: bool | None = None,
    emulated: Callable[[Arrays], Arrays] | None = None,
) -> Parity:
    """What the conversion test finds: both stages evaluated, and what the precision costs where it is
    known."""
    toy, ids = one.model, given.ids

    def run(inputs: Arrays) -> Arrays:
        return toy.run(of.network, inputs)

    def training() -> Samples:
        return toy.samples("training", None, None)

    framework, after = (
        evaluate_in_process(name, toy, how, given, batch, with_outputs=True)
        for name, how in (("framework", run), ("converted", converted))
    )
    cost = measure_cost(one, of, given, training, batch, tf32=tf32, emulated=emulated)
    return parity.compare_conversion(one, framework, after, ids, cost, trained=of.trained, tf32=tf32)


def rows(indices: Sequence[int]) -> np.ndarray:
    """The inputs of some samples."""
    return samples().load(indices)[INPUT]


def samples_of(rows: Arrays) -> Samples:
    """The rows of some arrays, [rows, ...] each, as samples without labels."""
    count = len(next(iter(rows.values())))

    def load(indices: object) -> Arrays:
        return {name: values[np.asarray(indices)] for name, values in rows.items()}

    return Samples([f"row-{row}" for row in range(count)], load)


def job(point: LoadPoint, name: str = "toy", request_s: float = 0.0) -> Job:
    """A job of the toy model on a server that nobody speaks to."""
    data = LoadData(Path(), ["toy-000"], samples().load([0]))
    return Job(cast(Any, None), name, model(), point, "none", data, request_s)


def run_of(timeline: Timeline, **changes: Any) -> Run:
    """A run with these timestamps, on a machine with nothing else to do."""
    window_s = changes.get("next_window_s", 0.12)
    elapsed_s = WINDOWS * window_s + 0.1
    usual: dict[str, Any] = {
        "components_us": dict.fromkeys(COMPONENTS, 100.0) | {"server_compute_infer": 8000.0},
        "cpu": CpuTime(elapsed_s, 0.1 * elapsed_s, 0.5 * elapsed_s, 0.6 * elapsed_s, 0.0),
        "elapsed_s": elapsed_s,
        "next_window_s": window_s,
    }
    return Run(timeline, **(usual | changes))


def closed_loop(latencies_s: np.ndarray, length_s: float) -> Timeline:
    """Clients that each send a request when they have the answer to the last, [clients, requests] seconds.

    What has not ended at the close is not recorded.
    """
    ends = np.cumsum(np.round(latencies_s * 1e9).astype(np.int64), axis=1)
    starts = ends - np.round(latencies_s * 1e9).astype(np.int64)
    ended = ends <= length_s * 1e9
    return Timeline(
        starts[ended] + _OPENED,
        ends[ended] + _OPENED,
        _OPENED,
        _OPENED + round(length_s * 1e9),
        len(latencies_s),
    )


def open_loop(offsets_s: np.ndarray, service_s: float, length_s: float) -> Timeline:
    """Requests that are due at these seconds at a serial server of one service time, [requests]."""
    order = np.arange(len(offsets_s))
    ends = np.maximum.accumulate(offsets_s - order * service_s) + (order + 1) * service_s
    ended = ends <= length_s
    offsets = np.round(offsets_s * 1e9).astype(np.int64)
    answers = np.round(ends * 1e9).astype(np.int64)
    close = _OPENED + round(length_s * 1e9)
    return Timeline(offsets[ended] + _OPENED, answers[ended] + _OPENED, _OPENED, close, 0, offsets)


@dataclass
class LoadGenerator:
    """`take` of an invented server, which notes what it was asked for."""

    mean_ms: Callable[[Job, int], float] = lambda _job, _number: LATENCY_MS
    """A job and the number of its run, from 0, to the mean latency in milliseconds; may raise ProofError."""
    spread: float = 0.0
    """Of the logarithm of single latencies."""
    changes: Callable[[Job, int], dict[str, Any]] = lambda _job, _number: {}
    """The same to other fields of the run."""
    calls: list[tuple[str, LoadPoint, float]] = field(default_factory=list)
    """Name of the model, load point and seconds of a window, of each call."""
    seed: int = 0

    def __post_init__(self) -> None:
        self._generator = np.random.default_rng(self.seed)

    def take(self, job: Job, window_s: float) -> Run:
        number = sum((name, point) == (job.name, job.point) for name, point, _ in self.calls)
        self.calls.append((job.name, job.point, window_s))
        mean_s = self.mean_ms(job, number) / 1e3
        length_s = WINDOWS * window_s
        if (rate := job.point.request_rate_per_s) is not None:
            offsets_s = np.arange(int(2 * length_s * rate)) / rate
            timeline = open_loop(offsets_s, mean_s, length_s)
        else:
            count = max(8, int(1.5 * length_s / mean_s) + 2)
            noise = self._generator.normal(-(self.spread**2) / 2, self.spread, (job.point.concurrency, count))
            timeline = closed_loop(mean_s * np.exp(noise), max(length_s, 2.5 * mean_s))
        return run_of(timeline, **({"next_window_s": window_s} | self.changes(job, number)))

    def windows_s(self) -> list[float]:
        """Seconds of a window of each call."""
        return [window_s for _, _, window_s in self.calls]

    def rounds(self, size: int) -> list[tuple[LoadPoint, ...]]:
        """The points in the order of the calls, so many at a time."""
        points = iter([point for _, point, _ in self.calls])
        return list(iter(lambda: tuple(itertools.islice(points, size)), ()))
