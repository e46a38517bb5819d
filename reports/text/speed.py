"""Speed compared with other formats, the same artifact in process and the machine's peak; the price."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from reports.record.quantities import INTEGER_WORK_RATE, LATENCY, RATIO, SHARE, SHARE_OF_SPEED, WORK_RATE
from reports.record.schema import BesideReference, Efficiency, Load, Machine, Record, Serving, WarmUp
from reports.record.verdicts import mark_codes, too_wide
from reports.text.correctness import main_score
from reports.text.labels import format_text, grouped
from reports.text.publishable import Publishable, name_of

# --- ranks -------------------------------------------------------------------------------------------------

Group = tuple[str, str, int]
"""Target, model and number of GPUs: formats are ranked within a group."""


def group_of(record: Publishable) -> Group:
    case = record.case
    return case.target, case.model, case.gpus


def format_name(record: Publishable) -> str:
    """The format and precision as a reader knows them: `ONNX, TensorRT FP16`."""
    return f"{format_text(record)} {record.case.precision.upper()}"


def reference(record: Publishable) -> BesideReference | None:
    """The best speed over that of the model's reference format, in turns; None if there is none."""
    return next((one.beside for one in record.efficiency if one.beside is not None), None)


def ranked(records: Sequence[Publishable]) -> list[Publishable]:
    """Each model's formats by speed, the fastest first, those without a rank last; models stay in order."""
    order = {group: place for place, group in enumerate(dict.fromkeys(map(group_of, records)))}

    def place(record: Publishable) -> tuple[int, float]:
        beside = reference(record)
        return order[group_of(record)], -beside.ratio.value if beside else 0.0

    return sorted(records, key=place)


def ranks(records: Sequence[Publishable]) -> Mapping[str, int]:
    """The ranks by name: one more than the number of formats that are shown to be faster, by intervals that
    do not overlap. Others share a rank; a ratio that is hidden has none."""
    placed = {}
    for group in grouped(records, group_of).values():
        found = [(name_of(one), beside.ratio) for one in group if (beside := reference(one)) is not None]
        ratios = {name: ratio for name, ratio in found if RATIO.is_shown(ratio)}
        for name, ratio in ratios.items():
            placed[name] = 1 + sum(other.low > ratio.high for other in ratios.values())
    return placed


def best_load(record: Publishable) -> Load | None:
    """The point of the highest throughput, if shown, without the mark of a wide interval."""
    best = max(record.loads, key=lambda load: load.throughput_per_s.value, default=None)
    if best is None:
        return None
    return structs.replace(best, marks=[mark for mark in best.marks if mark.code != "wide-interval"])


def beside_reference(record: Publishable, records: Sequence[Publishable]) -> str:
    """`1.41 (1.36 to 1.47) times as fast as ONNX FP32`; empty without a comparison in turns."""
    beside = reference(record)
    if beside is None:
        return ""
    (name,) = reference_names([record], records)
    return f"{RATIO.cell_with_interval(beside.ratio)} times as fast as {name}"


def reference_names(of: Sequence[Publishable], records: Sequence[Publishable]) -> list[str]:
    """The reference formats of cases as a reader knows them; the id of a case outside the records."""
    formats = {name_of(one): format_name(one) for one in records}
    names = dict.fromkeys(beside.reference for one in of if (beside := reference(one)))
    return list(dict.fromkeys(formats.get(name, name) for name in names))


# --- in process and at the peak ----------------------------------------------------------------------------


def efficiency_text(found: Sequence[Efficiency], precision: str) -> str:
    """`97 % of in process (95 to 99), 41 % of the machine's FP32 peak of 180 GFLOP/s, 1.41 (1.36 to 1.47)
    times cpu-resnet50-onnx-fp32`, after the scenario if there are several."""
    several = len(found) > 1
    return "; ".join(
        f"{one.scenario} " * several + ", ".join(_parts(one, precision)) + mark_codes(one.marks)
        for one in found
    )


def _parts(one: Efficiency, precision: str) -> list[str]:
    parts = [too_wide("in process")]
    if SHARE_OF_SPEED.is_shown(one.ratio):
        share, _, interval = SHARE_OF_SPEED.text_with_interval(one.ratio).partition(" (")
        parts = [f"{share} of in process ({interval}"]
    fraction = fraction_of_peak(one)
    if fraction is not None and one.peak_flops_per_s is not None:
        rate = INTEGER_WORK_RATE if precision == "int8" else WORK_RATE  # INT8 has no floating point
        peak = rate.text(one.peak_flops_per_s.value)
        parts.append(f"{SHARE.text(fraction)} of the machine's {precision.upper()} peak of {peak}")
    beside = one.beside
    if beside is not None and beside.ratio.low < beside.ratio.high:  # it is not the reference itself
        ratio = f"{RATIO.cell_with_interval(beside.ratio)} times {beside.reference}"
        parts.append(ratio if RATIO.is_shown(beside.ratio) else too_wide(beside.reference))
    return parts


def warm_up_text(found: WarmUp) -> str:
    """The first request after a load, and the slowest of those after it."""
    first, later = LATENCY.text(found.first_ms[-1]), LATENCY.text(found.later_ms[-1])
    again = "" if found.passed else f"; slow after each of {len(found.first_ms)} loads"
    said = f"first request of batch {found.batch} after a load {first}"
    return f"{said}, the slowest of the next twenty {later}{again}"


def fraction_of_peak(one: Efficiency) -> float | None:
    """Operations per second over those of the peak; None if unknown, or if an interval is too wide."""
    if one.flops_per_inference is None or one.peak_flops_per_s is None:
        return None
    if not all(map(SHARE_OF_SPEED.is_shown, (one.served_per_s, one.peak_flops_per_s))):
        return None
    return one.served_per_s.value * one.flops_per_inference / one.peak_flops_per_s.value


_LIBRARIES = {
    "onnxruntime": ("ONNX Runtime", "onnxruntime", "onnxruntime-gpu"),
    "pytorch": ("PyTorch", "torch"),
    "tensorrt": ("TensorRT", "tensorrt", "tensorrt-cu12", "tensorrt-cu13"),
    "tensorflow": ("TensorFlow", "tensorflow", "tensorflow-cpu"),
}
"""Each native backend's library: its name, and its PyPI distributions, the first as in Serving.versions."""


def version_note(record: Record) -> str:
    """Why the ratio to in process is not of serving alone: the native backend has another version of its
    library than this machine's runtime, or an unknown one. Empty if equal, or for the suite's runtimes."""
    serving = record.serving
    if serving is None or not record.efficiency or serving.backend not in _LIBRARIES:
        return ""
    backends = [serving.backend, *(["tensorrt"] if record.case.accelerator == "trt" else [])]
    found = [_version_note(backend, serving, record.machine) for backend in dict.fromkeys(backends)]
    return " ".join(filter(None, found))


def _version_note(backend: str, serving: Serving, machine: Machine) -> str:
    label, *distributions = _LIBRARIES[backend]
    there = serving.versions.get(distributions[0])
    here = next((machine.versions[one] for one in distributions if one in machine.versions), None)
    if there is None:
        return f"The server's version of {label} is not known, so the ratio may be to another one in process."
    if here is not None and _is_same_version(there, here):
        return ""
    return (
        f"The ratio holds the difference of two versions too: the server has {label} {there}, in process it "
        f"is {here or 'one that the record does not name'}."
    )


def _is_same_version(one: str, other: str) -> bool:
    """Whether they are equal, or one says more: 10.5.0.18 and 10.5.0, 2.5.0+cu124 and 2.5.0."""
    short, long = sorted((one, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}+"))


# --- price -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """A million inferences in the currency of Record.price_per_hour."""

    per_million: float
    of: Literal["correct inferences", "inferences"]
    """correct inferences: they pay for the wrong ones; inferences: all."""


def cost(record: Publishable, load: Load) -> Cost | None:
    """What a million inferences cost at a load point; None without a price. The share of correct ones is the
    served score of the first metric, unless that is an error or missing. The price is per hour, so the
    fastest point is the cheapest."""
    if record.price_per_hour is None or not load.throughput_per_s.value:
        return None
    per_million = record.price_per_hour / 3600 / load.throughput_per_s.value * 1e6
    score = main_score(record)
    if score is None or score.better != "higher" or score.served <= 0:
        return Cost(per_million, "inferences")
    return Cost(per_million / score.served, "correct inferences")
