"""A toy model (the largest of four numbers), builds without a conversion, and a server of known speed."""

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from tritonproof import spec
from tritonproof.accuracy import stages
from tritonproof.accuracy.answer_comparison import ExpectedAnswers
from tritonproof.accuracy.expected import expect
from tritonproof.accuracy.ledger import accuracy_ledger, score_each_item
from tritonproof.accuracy.limits import AnswerLimits, CaseArithmetic, NumberLimits
from tritonproof.accuracy.precision_cost import measure_cost
from tritonproof.accuracy.stages import Stages, evaluate_in_process
from tritonproof.build import configuration, runtime_files
from tritonproof.build.builds import CaseBuild
from tritonproof.client.input_data import InputData
from tritonproof.client.requests import ServedModel
from tritonproof.host.processor_use import CpuTime
from tritonproof.host.targets import CPU
from tritonproof.measure.passes import WINDOWS, LoadJob, Pass, SteadyPart, cut_closed_loop, cut_open_loop
from tritonproof.measure.slowdown import ComparisonTerms
from tritonproof.models import all_models
from tritonproof.record import correctness, setup, speed
from tritonproof.spec import Arrays, Case, FrameworkModel, Metric, Model, NetworkModel, Samples, Tensor

INPUT, OUTPUT = "INPUT__0", "OUTPUT__0"
CLASSES = 4
LATENCY_MS = 10.0
DOUBLING = "def load(artifact, parameters):\n    return lambda arrays: [2 * arrays[0]]\n"
SLEEPING = """\
import time

def load(artifact, parameters):
    def predict(arrays):
        time.sleep({seconds})
        return [2 * arrays[0]]
    return predict
"""
"""DOUBLING that takes `seconds` for each answer."""

DEPLOYMENT = setup.Deployment(4, 1, (), 0, cuda_graphs=False, warmup=False)
ONLINE = setup.ConfigVariant("online", DEPLOYMENT)
FACTS = setup.BuildFacts("0f3c", "test", 1.0, 1.0)
_LIMITS = AnswerLimits(NumberLimits(1e-4, 1e-4))
_OPENED = 10**18


def samples(count: int = 40) -> Samples:
    """Labelled samples from `toy-000` on; the label is the index of the 1."""
    labels = np.random.default_rng(1).integers(0, CLASSES, count)
    images = np.eye(CLASSES, dtype=np.float32)[labels]
    ids = [f"toy-{i:03d}" for i in range(count)]
    return Samples(ids, lambda indices: {INPUT: images[list(indices)]}, labels)


def network(inputs: Arrays) -> Arrays:
    """The scores are the input numbers."""
    return {OUTPUT: inputs[INPUT].copy()}


def spoilt(value: float) -> Callable[[Arrays], Arrays]:
    """The network, with one value of the last sample replaced."""

    def run(inputs: Arrays) -> Arrays:
        outputs = network(inputs)
        outputs[OUTPUT][-1, 2] = value
        return outputs

    return run


def weights(**changes: Any) -> FrameworkModel:
    """Weights of a trained model by default."""
    fields: dict[str, Any] = {"network": network, "weights_source": "none", "digest": "0", "trained": True}
    return FrameworkModel(**(fields | changes))


def model(**changes: Any) -> NetworkModel:
    """The model; each argument replaces a field."""

    def evaluation(_split: spec.Split, _dataset: Path | None, _checkpoint: Path | None) -> Samples:
        return samples()

    fields: dict[str, Any] = {
        "name": "toy",
        "inputs": (Tensor(INPUT, "FP32", (CLASSES,)),),
        "outputs": (Tensor(OUTPUT, "FP32", (CLASSES,)),),
        "load_weights": lambda _checkpoint: weights(),
        "infer": lambda framework, inputs: framework(inputs),
        "samples": evaluation,
        "keep": lambda outputs: {"classes": outputs[OUTPUT].argmax(axis=1)},
        "decide": lambda kept: kept["classes"],
        "metrics": (metric(),),
        "profiles": {},
        "defined_in": Path(__file__),
    }
    return NetworkModel(**(fields | changes))


def repository_model(**changes: Any) -> Model:
    """The model as of a repository, without its network; each argument replaces a field."""
    names = {field.name for field in dataclasses.fields(Model)}
    return Model(**{name: value for name, value in vars(model(**changes)).items() if name in names})


def metric(**changes: Any) -> Metric:
    """Top-1 with a floor of 90 %; each argument replaces a field."""

    def score(kept: Arrays, labels: np.ndarray, _framework: Arrays) -> np.ndarray:
        return (kept["classes"] == labels).astype(float)

    fields: dict[str, Any] = {
        "name": "top-1",
        "score": score,
        "limits": {"fp32": correctness.Limit(0.9, "chosen"), "int8": correctness.Limit(0.9, "chosen")},
    }
    return Metric(**(fields | changes))


def case(toy: Model | None = None, precision: str = "fp32", tolerance: spec.Tolerance | None = None) -> Case:
    """The model in a format without a converter."""

    def convert(*_arguments: object) -> None:
        raise NotImplementedError

    tolerance = tolerance or spec.Tolerance(0.01, 0.95, "chosen")
    format_ = spec.Format(
        name="plain",
        label="plain",
        library="none",
        artifact="model.npy",
        backend=spec.NativeBackend(name="none"),
        runtime=spec.Runtime(file="none.py"),
        convert=convert,
        precisions={"cpu": ("fp32", "int8")},
        tolerances=dict.fromkeys(("fp32", "fp16", "bf16", "int8"), tolerance),
        packages=(),
    )
    return Case(spec.Target("cpu", "CPU", "cpu"), toy or model(), format_, None, precision)


def make_build(root: Path, name: str, runtime: str) -> CaseBuild:
    """Put a model into a repository without converting anything: `make_build(root, "doubling", DOUBLING)`.
    Its runtime is the given source; input `<name>_IN` and output `<name>_OUT` are four numbers."""
    four_numbers = dataclasses.replace(
        all_models()[0],
        name=name,
        inputs=(Tensor(f"{name}_IN", "FP32", (4,)),),
        outputs=(Tensor(f"{name}_OUT", "FP32", (4,)),),
    )
    backend = spec.NativeBackend(name="onnxruntime")
    raw = dataclasses.replace(case().format, name="raw", artifact="model.bin", backend=backend)
    in_raw = Case(CPU, four_numbers, raw, None, "fp32")
    folder = root / str(in_raw)
    version = folder / "1"
    version.mkdir(parents=True)
    shutil.copyfile(runtime_files.RUNTIMES / "model.py", version / "model.py")
    (version / "runtime.py").write_text(runtime)
    (version / "model.bin").write_bytes(b"weights")
    (version / "__pycache__").touch()
    config = configuration.model_config(in_raw, DEPLOYMENT, native=False)
    (folder / "config.pbtxt").write_text(configuration.config_text(config))
    return CaseBuild(in_raw, folder, FACTS)


def compare_conversion(
    case: Case,
    weights: FrameworkModel,
    converted: Callable[[Arrays], Arrays],
    samples: Samples,
    batch: int,
    *,
    precision: str = "",
    emulated: Callable[[Arrays], Arrays] | None = None,
) -> correctness.Conversion:
    """The result of the conversion test: both stages evaluated, and the cost of the precision if known."""
    model, ids, precision = case.network_model, samples.ids, precision or case.precision

    def run(inputs: Arrays) -> Arrays:
        return model.infer(weights.network, inputs)

    def training() -> Samples:
        return model.samples("training", None, None)

    framework, after = (
        evaluate_in_process(name, model, how, samples, batch)
        for name, how in (("framework", run), ("converted", converted))
    )
    cost = measure_cost(model, precision, weights, samples, training, batch, emulated=emulated)
    arithmetic = CaseArithmetic(case, precision, cost)
    return stages.compare_conversion(framework, after, ids, arithmetic, trained=weights.trained)


def ledger(
    case: Case,
    samples: Samples,
    stages: Stages,
    *,
    labelled: bool = True,
    requested: Mapping[str, correctness.Limit] = MappingProxyType({}),
    precision: str = "",
) -> correctness.Ledger:
    """The ledger of each item's scores; `requested` holds limits that replace the model's."""
    scores_by_metric = score_each_item(case, samples, stages, labelled=labelled)
    arithmetic = CaseArithmetic(case, precision or case.precision)
    return accuracy_ledger(arithmetic, samples, stages, scores_by_metric, requested)


def rows(indices: Sequence[int]) -> np.ndarray:
    """The inputs of some samples."""
    return samples().read(indices)[INPUT]


def samples_of(rows: Arrays) -> Samples:
    """Rows of arrays, each [rows, ...], as samples without labels."""
    count = len(next(iter(rows.values())))

    def load(indices: object) -> Arrays:
        return {name: values[np.asarray(indices)] for name, values in rows.items()}

    return Samples([f"row-{row}" for row in range(count)], load)


def expected_answers(ids: Sequence[str], outputs: Arrays, limits: AnswerLimits = _LIMITS) -> ExpectedAnswers:
    """These outputs, [samples, ...] each, as the expected answers."""
    return ExpectedAnswers({"": expect(ids, outputs)}, limits)


def terms(points: int = 1) -> ComparisonTerms:
    """The terms of a point among so many."""
    return ComparisonTerms("HEAD~1", allowed_slowdown=0.03, compared_points=points)


def job(point: speed.LoadPoint, name: str = "toy", request_s: float = 0.0, **changes: Any) -> LoadJob:
    """A job of the toy model without a server."""
    data = InputData(["toy-000"], samples().read([0]))
    return LoadJob(ServedModel(cast(Any, None), name, model(), data), point, "none", request_s, **changes)


def closed_loop(latencies_s: np.ndarray, length_s: float, **changes: Any) -> Pass:
    """Clients that each send a request once the previous one is answered; latencies are [clients, requests].
    Requests still running at the end are not recorded."""
    latencies = np.round(latencies_s * 1e9).astype(np.int64)
    ends, windows = _OPENED + np.cumsum(latencies, axis=1), (_OPENED, _OPENED + round(length_s * 1e9))
    ended = ends <= windows[1]
    starts, ends = (ends - latencies)[ended], ends[ended]
    return _on_idle_machine(cut_closed_loop(starts, ends, windows, len(latencies_s)), starts, ends, changes)


def open_loop(offsets_s: np.ndarray, service_s: float, length_s: float, **changes: Any) -> Pass:
    """Requests due at these seconds, [requests], on a serial server with a constant service time."""
    order = np.arange(len(offsets_s))
    ends = np.maximum.accumulate(offsets_s - order * service_s) + (order + 1) * service_s
    ended = ends <= length_s
    offsets, windows = np.round(offsets_s * 1e9).astype(np.int64), (_OPENED, _OPENED + round(length_s * 1e9))
    starts, answers = _OPENED + offsets[ended], _OPENED + np.round(ends[ended] * 1e9).astype(np.int64)
    return _on_idle_machine(cut_open_loop(starts, answers, windows, offsets), starts, answers, changes)


def _on_idle_machine(steady: SteadyPart, starts: np.ndarray, ends: np.ndarray, changes: Any) -> Pass:
    """The pass with these changes, on an otherwise idle machine."""
    window_s = changes.get("window_s", 0.12)
    elapsed_s = WINDOWS * window_s + 0.1
    usual: dict[str, Any] = {
        "all_latencies_ms": (ends - starts)[np.argsort(ends, kind="stable")] / 1e6,
        "under_load_s": float(ends.max() - starts.min()) / 1e9,
        "components_us": dict.fromkeys(speed.COMPONENTS, 100.0) | {"server_compute_infer": 8000.0},
        "cpu": CpuTime(elapsed_s, 0.1 * elapsed_s, 0.5 * elapsed_s, 0.6 * elapsed_s, 0.0),
        "gpu": None,
        "elapsed_s": elapsed_s,
        "window_s": window_s,
    }
    return Pass(steady, **(usual | changes))


@dataclass
class SimulatedServer:
    """A server of known speed: its `run_pass` is in place of the load generator's, and records its calls."""

    mean_ms: Callable[[LoadJob, int], float] = lambda _job, _number: LATENCY_MS
    """Mean latency in milliseconds of a job and its pass's number, from 0; may raise ProofError."""
    std: float = 0.0
    """Standard deviation of the logarithm of single latencies."""
    changes: Callable[[LoadJob, int], dict[str, Any]] = lambda _job, _number: {}
    """Other fields of the pass, from the same arguments."""
    calls: list[tuple[str, speed.LoadPoint, float]] = field(default_factory=list)
    """Model name, load point and window in seconds of each call."""
    seed: int = 0

    def __post_init__(self) -> None:
        self._generator = np.random.default_rng(self.seed)

    def run_pass(self, job: LoadJob, window_s: float) -> Pass:
        number = sum((name, point) == (job.served.name, job.point) for name, point, _ in self.calls)
        self.calls.append((job.served.name, job.point, window_s))
        mean_s = self.mean_ms(job, number) / 1e3
        length_s = WINDOWS * window_s
        changes = {"window_s": window_s} | self.changes(job, number)
        if (rate := job.point.request_rate_per_s) is not None:
            count = int(2 * length_s * rate) + 100
            is_random = job.point.arrivals == "poisson"
            gaps_s = self._generator.exponential(1 / rate, count) if is_random else np.full(count, 1 / rate)
            return open_loop(np.cumsum(gaps_s) - gaps_s[0], mean_s, length_s, **changes)
        count = max(8, int(1.5 * length_s / mean_s) + 2)
        noise = self._generator.normal(-(self.std**2) / 2, self.std, (job.point.concurrency, count))
        return closed_loop(mean_s * np.exp(noise), max(length_s, 2.5 * mean_s), **changes)

    def windows_s(self) -> list[float]:
        """The window of each call, in seconds."""
        return [window_s for _, _, window_s in self.calls]
