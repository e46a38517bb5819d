"""Sample records for the tests of the reports; each builder takes the fields that matter to its test."""

from pathlib import Path
from typing import Any

from msgspec import structs

from fixtures.steps import STEPS
from tritonproof.record import Growth, Record, Soak, StepFailure, correctness, record_files, setup, speed
from tritonproof.record.fields import Estimate, Ratio, Slope
from tritonproof.reports.nvidia_readmes import NvidiaRow, nvidia_point
from tritonproof.reports.publishable import Publishable, publishable_together


def seen(*records: Record) -> list[Publishable]:
    """The publishable form of the records."""
    return publishable_together(records)


def store(results: Path, *records: Record) -> Path:
    """Write the records to their files in the folder; returns the folder."""
    for sample in records:
        record_files.write(sample, record_files.record_path(sample.case, results))
    return results


def origin(host: str = "node1", run: int = 1, *gpu_uuids: str) -> setup.Origin:
    """The origin of a measurement in run number `run` of a machine; higher numbers are later runs."""
    commit, started = "c0ffee" + "0" * 34, f"2026-03-{run:02d}T00:00:00+00:00"
    return setup.Origin(f"{run:032x}", host, gpu_uuids, commit, True, started)


def measured_at(where: setup.Origin, record: Record) -> Record:
    """The record with this origin for all of its measurements."""

    def stamped(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(stamped, value))
        return structs.replace(value, origin=where) if hasattr(value, "origin") else value

    changes = {name: stamped(getattr(record, name)) for name in Record.__struct_fields__}
    changes["points"] = tuple(sorted(changes["points"], key=lambda result: result.point))
    changes["machine"] = structs.replace(record.machine, gpu_uuids=where.gpu_uuids)
    return structs.replace(record, **changes)


def estimate(value: float, relative: float = 0.02) -> Estimate:
    """An estimate whose interval reaches `relative` of the value to either side."""
    return Estimate(value, value * (1 - relative), value * (1 + relative))


LATENCIES_MS = {"avg": 2.0312, "p50": 2.0, "p90": 2.046, "p95": 2.111, "p99": 2.126}


def load_point(scenario: str, size: int) -> speed.LoadPoint:
    """A load point; `size` is the batch offline and the concurrency online."""
    return (
        speed.LoadPoint("offline", size, 1) if scenario == "offline" else speed.LoadPoint("online", 1, size)
    )


def measured(scenario: str, size: int, throughput_per_s: float, **changes: Any) -> speed.PointResult:
    """The result of a load point; `size` as in `load_point`."""
    fields: dict[str, Any] = {
        "point": load_point(scenario, size),
        "throughput_per_s": estimate(throughput_per_s),
        "latency_ms": {name: estimate(value) for name, value in LATENCIES_MS.items()},
        "components_ms": {name: 0.1 * index for index, name in enumerate(speed.COMPONENTS)},
        "passes": tuple(one_pass(throughput_per_s * luck) for luck in (0.99, 1.0, 1.01)),
        "requests": 1500,
        "duration_s": 9.5,
        "warm_up_s": 0.2,
        "samples": 63,
        "certified": {},
    }
    return speed.PointResult(**(fields | changes))


def published(row: NvidiaRow) -> speed.PointResult:
    """A load point with the figures of a row of a published table."""
    latencies = {name: row[f"latency_{name}_ms"] for name in ("p50", "p90", "p95", "p99", "avg")}
    components = {name: row[f"{name}_ms"] for name in speed.COMPONENTS}
    return measured(
        row["scenario"],
        0,
        row["throughput_per_s"],
        point=nvidia_point(row),
        latency_ms={name: estimate(value) for name, value in latencies.items() if value},
        components_ms={name: value for name, value in components.items() if value is not None},
    )


def at_rate(rate_per_s: float, throughput_per_s: float, **changes: Any) -> speed.PointResult:
    """The result of a load point of requests at a rate."""
    point = speed.LoadPoint("online", 1, 0, rate_per_s, "poisson")
    return measured("online", 0, throughput_per_s, point=point, **changes)


def comparison(**changes: Any) -> speed.SpeedComparison:
    """A load point that is significantly slower than in another build, by a tenth."""
    ratio, pass_count, p_value = Ratio(0.9, 0.88, 0.92), 8, 1e-6
    slower = speed.SpeedComparison("HEAD~1", ratio, 0.03, "failed", pass_count, None, p_value, 1)
    return structs.replace(slower, **changes)


def efficiency(scenario: str = "offline", size: int = 8, **changes: Any) -> speed.Efficiency:
    """The cost of serving at a load point: a tenth of the speed in process; `size` as in `load_point`."""
    fields: dict[str, Any] = {
        "point": load_point(scenario, size),
        "served_per_s": estimate(1573.6),
        "in_process_per_s": estimate(1748.4),
        "in_process_batch": 8,
        "threads": 2,
        "ratio": Ratio(0.9, 0.876, 0.924),
        "turn_count": 5,
    }
    return speed.Efficiency(**(fields | changes))


def search(**changes: Any) -> speed.Search:
    """A search that found a configuration of the sample case within 10 ms, not proven yet."""
    fields: dict[str, Any] = {
        "latency_budget_ms": 10.0,
        "percentile": "p99",
        "deployment": record().deployment,
        "result": measured("offline", 8, 1573.6),
        "verdict": "passed",
        "lead": None,
        "configurations": 5,
        "pass_count": 50,
        "duration_s": 60.0,
        "config": "a40-resnet50-onnx-trt-fp16.search/config.pbtxt",
    }
    return speed.Search(**(fields | changes))


def answers_under_load(wrong: int = 0, **changes: Any) -> correctness.AnswerComparison:
    """The answers under load, compared with those in process."""
    return correctness.AnswerComparison(4100, wrong, agreement=1.0, expected_from="in process", **changes)


def wrong_under_load(point: speed.PointResult) -> speed.PointResult:
    """The load point with two wrong answers."""
    first_wrong = correctness.WrongAnswer("digit-0012", "OUTPUT__0[3]", "1.25", "nan")
    answers = answers_under_load(2, first_wrong=first_wrong)
    return structs.replace(point, samples=63, answers_under_load=answers)


def one_pass(throughput_per_s: float) -> speed.PassSummary:
    return speed.PassSummary(500, 3.17, throughput_per_s, LATENCIES_MS)


def score(**changes: Any) -> correctness.Score:
    """A metric within its limits."""
    limits = (correctness.Limit(0.94, "published"), correctness.Limit(0.959, "framework less 0.5 %"))
    within = correctness.Score("top-1", "higher", 0.964, 0.964, 0.9625, limits)
    return structs.replace(within, **changes)


def accuracy(*scores: correctness.Score, **changes: Any) -> correctness.Ledger:
    """A ledger that passes, with one metric by default."""
    differing = correctness.Disagreement(("converted", "served"), 1, 1, 0, ("digit-0007",), 0.998, 0.99)
    ledger = correctness.Ledger(scores or (score(),), 500, (differing,), requests=120)
    return structs.replace(ledger, **changes)


def failed_accuracy() -> correctness.Ledger:
    """A ledger whose served score is below two of its three floors."""
    floors = (
        correctness.Limit(0.9, "of old"),
        correctness.Limit(0.932, "of late"),
        correctness.Limit(0.94, "published"),
    )
    return accuracy(score(served=0.931, limits=floors))


def gate(name: str = "batches", fault: str = "", **changes: Any) -> correctness.GateResult:
    """The result of a gate that needs no labels."""
    same = correctness.AnswerComparison(96, int(bool(fault)), 2e-7, agreement=1.0)
    result = correctness.GateResult(name, 24, "32 of 32 batch sizes", fault, same, STEPS[name].demand)
    if name == "conversation":
        result = structs.replace(result, answer_comparison=None, compares_conversations=True)
    return structs.replace(result, **changes)


def step_failure(test: str = "test_accuracy", step: str = "accuracy", **changes: Any) -> StepFailure:
    """A test that failed before it had a result."""
    message = "the served outputs are NaN for 3 of 26 samples"
    return structs.replace(StepFailure(test, step, message, field=STEPS[step].field), **changes)


def failed_conversion() -> correctness.Conversion:
    """A converted model that is further from the framework than its format allows."""
    return correctness.Conversion(64, 0.25, 0.01, 0.9, 0.99)


SERVING = setup.Serving("embedded", "2.51.0", "python", "system")
WEIGHTS, INPUTS = "checkpoint nvidia_resnet50.pth, SHA-256 9f1b", {"input__0": (3, 224, 224)}


def record(**changes: Any) -> Record:
    """A case on an A40 that passes, with three offline and two online points."""
    fields: dict[str, Any] = {
        "case": setup.CaseKey("a40", "resnet50", "onnx", "trt", "fp16"),
        "machine": setup.Machine(
            cpu="AMD EPYC 7742 64-Core Processor",
            cores=16,
            memory_gib=126,
            gpu="NVIDIA A40",
            gpu_driver="550.54.15",
            system="Linux, glibc 2.36",
            versions={"python": "3.11.7", "torch": "2.13.0"},
        ),
        "serving": SERVING,
        "deployment": setup.Deployment(128, 1, (64, 128), 1, cuda_graphs=False, warmup=True),
        "build": setup.Build("0f3c", WEIGHTS, 31.5, 97.6, "ONNX", "ONNX Runtime", inputs=INPUTS),
        "conversion": correctness.Conversion(64, 0.0004, 0.01, 1.0, 0.99),
        "accuracy": accuracy(),
        "points": (
            measured("offline", 8, 1573.6),
            measured("offline", 1, 491.5),
            measured("offline", 2, 811.8),
            measured("online", 32, 3166.7),
            measured("online", 16, 2543.7),
        ),
        "updated": "2026-03-04T05:06:07+00:00",
    }
    return Record(**(fields | changes))


def complete(**changes: Any) -> Record:
    """A case that passes, with every optional field set but those of conversations."""
    plain = record()
    first, *others = plain.points
    whole = structs.replace(
        first,
        answers_under_load=answers_under_load(),
        latency_budget=speed.LatencyBudget("p99", 2.5, "agreed in May", "passed"),
        cpu=speed.CpuUse(16, 0.4, 12.5, 0.1, 0.0),
        gpu=speed.GpuUse(0.98, 4096.0, 240.0, 152.5, 1410.0),
        comparison=comparison(p99_ratio=Ratio(1.2, 1.1, 1.3), p99_is_longer=True),
        marks=(speed.Mark("damaged-passes", "a pass was repeated: 1"),),
        repeated_speed=Ratio(1.01, 0.9898, 1.0302),
        called_models=(speed.CalledModel("tokens", 2.0, 0.5, 1.25),),
        certified={
            "p99": speed.CertifiedPercentile(2.1, 2.4, 1500, 0),
            "p99.9": speed.CertifiedPercentile(2.6, None, 1500, 5136),
        },
    )
    rated, ahead = at_rate(120.0, 118.0, slip_ms=0.2), Ratio(1.5, 1.4, 1.6)
    leak, steady = Slope(1034.0, 1029.0, 1041.0, 0.99), Slope(0.0, -0.1, 0.1, 0.99)
    growth = (
        Growth("memory of its stubs", "bytes", "request", leak, 6e7, 3.7e8, 150_000, "failed"),
        Growth("threads", "number", "loading", steady, 9.0, 9.0, 24, "passed"),
    )
    kept_speed = Ratio(0.93, 0.9114, 0.9486)
    soak = Soak(load_point("online", 16), 600.0, 300_000, 119, growth, 24, ("a reason",), kept_speed, 500.0)
    damaged = speed.Mark("damaged-passes", "a pass was repeated: 2")
    fields: dict[str, Any] = {
        "machine": structs.replace(plain.machine, gpu_uuids=("GPU-1", "GPU-2")),
        "serving": structs.replace(
            SERVING, image="tritonserver:24.10-py3", image_digest="sha256:ab", versions={"torch": "2.5.0a0"}
        ),
        "gates": (gate(), gate("transport")),
        "soak": soak,
        "price_per_hour": 3.6,
        "points": (whole, *others, rated),
        "starts": (setup.Start("offline", 0.4, 2.5, 12.5), setup.Start("online", None, 1.0, 8.0)),
        "model_warmup": speed.ModelWarmup(8, (2.0,), (3.0,)),
        "efficiency": (
            efficiency(
                flops_per_inference=4.1e9, peak_flops_per_s=estimate(2e13), spinning=True, marks=(damaged,)
            ),
            efficiency("online", 32, reference=speed.ReferenceComparison("a40-resnet50-trt-fp16", ahead)),
        ),
        "search": search(result=first, lead=Ratio(1.2, 1.176, 1.224), accuracy=accuracy()),
    }
    return record(**(fields | changes))


def complete_but_wrong() -> Record:
    """The sample record with every optional field set, and with wrong answers."""
    first, *others = complete().points
    return complete(points=(wrong_under_load(first), *others))


SIDE = speed.ServedSide("2.51.0", "", 0.0, (3.5, 4.0), {"memory of the server": 2.0**20})


def beside(
    wrong: str = "", *compared: dict[str, Any], **answers: correctness.AnswerComparison | None
) -> Record:
    """A model measured against another, with a load point for each comparison."""
    build = setup.Build("0", "as it is", 0.0, 1.0, "As it is", "python", inputs={})
    answers = answers or {"answers_under_load": correctness.AnswerComparison(9)}
    points = [
        measured("offline", batch, 100.0, comparison=comparison(**changes), **answers)
        for batch, changes in enumerate(compared, 1)
    ]
    made = record(
        case=structs.replace(record().case, format="asis", accelerator=None, precision=""),
        build=build,
        conversion=None,
        accuracy=None,
        gates=(gate("baseline", wrong),),
        points=tuple(points),
        baseline=speed.BaselineComparison("/srv/models", SIDE, SIDE),
    )
    return measured_at(origin(run=2), made)


def in_turns(format_: str, ratio: float, low: float, high: float, digest: str = "", **changes: Any) -> Record:
    """A case whose fastest point took turns with the reference format's, of the build with this digest."""
    compared = speed.ReferenceComparison("a40-resnet50-onnx-fp32", Ratio(ratio, low, high), digest)
    case = structs.replace(record().case, format=format_, accelerator=None, precision="fp32", **changes)
    return record(case=case, efficiency=(efficiency("online", 32, reference=compared),))


ONNX = in_turns("onnx", 1.0, 1.0, 1.0)
FAST = in_turns("pt2", 1.5, 1.4, 1.6)
AS_FAST = in_turns("trt", 1.45, 1.38, 1.52)
SLOW = in_turns("ts-trace", 0.6, 0.5, 0.7)
HIDDEN = in_turns("trt", 3.0, 1.7, 4.8)


def random_weights(**changes: Any) -> Record:
    """A case without a checkpoint: its speed counts, its accuracy is not measured."""
    build = setup.Build("77aa", "random, seed 3", 4.0, 120.0, "TorchScript Trace", "PyTorch", inputs=INPUTS)
    fields: dict[str, Any] = {
        "case": setup.CaseKey("cpu", "nnunet", "ts-trace", None, "fp32"),
        "build": build,
        "accuracy": None,
        "why_no_score": "no checkpoint was given (--checkpoint DIR).",
        "points": (measured("offline", 1, 0.71234),),
    }
    return record(**(fields | changes))


def swept(**changes: Any) -> Record:
    """A case with batches 1 to 128 and concurrencies 8 to 256, whose throughput saturates; two are marked."""
    offline = [_swept_point("offline", 2**n, 4200 * 2**n / (2**n + 9)) for n in range(8)]
    online = [_swept_point("online", 2**n, 3900 * 2**n / (2**n + 20)) for n in range(3, 9)]
    shared = speed.Mark("cpu-shared", "other programs took 0.4 of 16 cores")
    for points, index in ((offline, 3), (online, 4)):
        points[index] = structs.replace(points[index], marks=(shared,))
    return record(**({"points": (*offline, *online)} | changes))


def _swept_point(scenario: str, size: int, throughput_per_s: float) -> speed.PointResult:
    """A point whose mean latency follows Little's law."""
    mean = 1000 * size / throughput_per_s
    factors = {"avg": 1.0, "p50": 0.95, "p90": 1.3, "p95": 1.5, "p99": 1.9}
    shares = dict(zip(speed.COMPONENTS, (0.01, 0.09, 0.35, 0.05, 0.42, 0.07, 0.01), strict=True))
    return measured(
        scenario,
        size,
        throughput_per_s,
        latency_ms={name: estimate(mean * factor, 0.05 * factor) for name, factor in factors.items()},
        components_ms={name: mean * share for name, share in shares.items()},
    )
