"""What a record says of the cost of serving: beside the same artifact in process, and beside the machine's peak."""

from collections.abc import Sequence

from reports.record.quantities import (
    INTEGER_WORK_RATE,
    RATIO,
    SHARE,
    SHARE_OF_SPEED,
    THROUGHPUT,
    WORK,
    WORK_RATE,
)
from reports.record.schema import BesideReference, Efficiency, Record
from reports.record.verdicts import mark_codes, too_wide
from reports.words.labels import size
from reports.words.markdown import markdown, text
from reports.words.marks import marked_points
from reports.words.shown import Shown

_COLUMNS = (
    "At",
    "Inferences/second, served",
    "In process",
    "In-process batch",
    "Served / in process",
    "GFLOP per inference",
    "Peak (GFLOP/s)",
    "Of the peak",
)


_LIBRARIES = {
    "onnxruntime": "onnxruntime",
    "pytorch": "torch",
    "tensorrt": "tensorrt",
    "tensorflow": "tensorflow",
}
"""The library that computes in each of Triton's own backends, as Serving.versions names it."""
_DISTRIBUTIONS = {
    "onnxruntime": ("ONNX Runtime", "onnxruntime-gpu", "onnxruntime"),
    "torch": ("PyTorch", "torch"),
    "tensorrt": ("TensorRT", "tensorrt", "tensorrt-cu12", "tensorrt-cu13"),
    "tensorflow": ("TensorFlow", "tensorflow", "tensorflow-cpu"),
}
"""What a reader calls each library, and the distributions on PyPI that this machine may have it from."""


def efficiency_text(found: Sequence[Efficiency], precision: str) -> str:
    """`97 % of in process (95 to 99), 41 % of the machine's FP32 peak of 180 GFLOP/s, 1.41 (1.36 to 1.47) times
    cpu-resnet50-onnx-fp32`; the scenario where there are several."""
    parts = []
    for one in found:
        name = f"{one.scenario} " if len(found) > 1 else ""
        parts.append(f"{name}{_share_of_in_process(one)}")
        fraction = fraction_of_peak(one)
        if fraction is not None and one.peak_flops_per_s is not None:
            rate = INTEGER_WORK_RATE if precision == "int8" else WORK_RATE  # INT8 has no floating point
            peak = rate.text(one.peak_flops_per_s.value)
            parts[-1] += f", {SHARE.text(fraction)} of the machine's {precision.upper()} peak of {peak}"
        # Where its interval has no width it is the reference itself.
        if one.beside is not None and one.beside.ratio.low < one.beside.ratio.high:
            parts[-1] += f", {_beside_text(one.beside)}"
        parts[-1] += mark_codes(one.marks)
    return "; ".join(parts)


def _share_of_in_process(one: Efficiency) -> str:
    if not SHARE_OF_SPEED.is_shown(one.ratio):
        return too_wide("in process")
    share, _, interval = _share_cell(one).partition(" (")
    return f"{share} of in process ({interval}"


def _beside_text(beside: BesideReference) -> str:
    if not RATIO.is_shown(beside.ratio):
        return too_wide(beside.reference)
    return f"{RATIO.cell_with_interval(beside.ratio)} times {beside.reference}"


def fraction_of_peak(one: Efficiency) -> float | None:
    """What the served inferences compute per second, over what the matrix product does; None where that is not known,
    or the interval of either speed is too wide for a ratio of it to be shown."""
    if one.flops_per_inference is None or one.peak_flops_per_s is None:
        return None
    if not all(map(SHARE_OF_SPEED.is_shown, (one.served_per_s, one.peak_flops_per_s))):
        return None
    return one.served_per_s.value * one.flops_per_inference / one.peak_flops_per_s.value


def efficiency_section(record: Shown) -> str:
    """The table of a case, with what its figures mean; empty where nothing was measured."""
    if not record.efficiency:
        return ""
    threads = " or ".join(sorted({str(one.threads) for one in record.efficiency}))
    pairs = " and ".join(str(one.pairs) for one in record.efficiency)
    precision = record.case.precision
    return "\n\n".join(
        [
            f"#### Efficiency: {precision.upper()}",
            markdown(_COLUMNS, [_row(one) for one in record.efficiency], "lrrrrrrr"),
            f"In process: the same artifact on the same data with the same {threads} CPU threads in a process of its "
            f"own, measured in turns with the server ({pairs} pairs){_several(record)}. The peak is that of the fastest "
            f"large {_product(record)} on the same threads; a multiplication and an addition count as "
            f"two. In brackets 95 % intervals.{_spinning(record)}",
            *marked_points((_at(one), one) for one in record.efficiency),
            *filter(None, [text(version_note(record))]),
        ]
    )


def version_note(record: Record) -> str:
    """Why the ratio to in process is not that of serving alone: Triton's own backend computes with another version of
    its library than this machine's runtime, or with one that is not known. Empty where they are alike, and where the
    suite's runtime serves, which computes with this machine's."""
    serving = record.serving
    if serving is None or not record.efficiency or serving.backend not in _LIBRARIES:
        return ""
    names = [_LIBRARIES[serving.backend], *(["tensorrt"] if record.case.accelerator == "trt" else [])]
    found = [_version_note(name, serving.versions.get(name), record) for name in dict.fromkeys(names)]
    return " ".join(filter(None, found))


def _version_note(name: str, there: str | None, record: Record) -> str:
    label, *distributions = _DISTRIBUTIONS[name]
    here = next(
        (record.machine.versions[one] for one in distributions if one in record.machine.versions), None
    )
    if there is None:
        return f"The server's version of {label} is not known, so the ratio may be to another one in process."
    if here is not None and _is_same_version(there, here):
        return ""
    return (
        f"The ratio holds the difference of two versions too: the server has {label} {there}, in process it is "
        f"{here or 'one that the record does not name'}."
    )


def _is_same_version(one: str, other: str) -> bool:
    """Whether one is the other, or says more of it: 10.5.0.18 and 10.5.0, 2.5.0+cu124 and 2.5.0."""
    short, long = sorted((one, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}+"))


def _spinning(record: Shown) -> str:
    """A sentence on ONNX Runtime's spinning threads, which were given to both sides because Triton's backend cannot stop them."""
    if not any(one.spinning for one in record.efficiency):
        return ""
    return (
        " Idle threads spin between layers on both sides: Triton's ONNX Runtime backend has no parameter to stop them. "
        "So the ratio is of serving alone, and the Python backend, where they sleep, may be the faster one."
    )


def _row(one: Efficiency) -> list[str]:
    flops, peak, fraction = one.flops_per_inference, one.peak_flops_per_s, fraction_of_peak(one)
    return [
        _at(one),
        THROUGHPUT.cell(one.served_per_s.value) + ("*" if one.marks else ""),
        THROUGHPUT.cell(one.in_process_per_s.value),
        str(one.in_process_batch),
        _share_cell(one),
        WORK.cell(flops),
        WORK_RATE.cell(peak.value if peak else None),
        "-" if fraction is None else SHARE.text(fraction),
    ]


def _at(one: Efficiency) -> str:
    """The load point at which efficiency was measured: `offline, batch 8`."""
    return f"{one.scenario}, {size(one.scenario, one.batch, one.concurrency)}"


def _product(record: Record) -> str:
    precision = record.case.precision
    if precision == "int8":
        return "matrix product of 8-bit integers, summed in 32 bits,"
    if record.case.target == "cpu":
        return f"{precision.upper()} matrix product or convolution"
    return f"{precision.upper()} matrix product" + (
        ", in TF32 where the GPU has it," if precision == "fp32" else ""
    )


def _several(record: Record) -> str:
    """How the ratio and the peak of one GPU were scaled to the case's GPUs; empty for one GPU."""
    count = record.case.gpus
    return (
        f"; on one GPU, and taken {count} times, as the server has {count}, like the peak"
        if count > 1
        else ""
    )


def _share_cell(one: Efficiency) -> str:
    """`97 % (95 to 99)`, with the digits of the share; or `not shown`."""
    return SHARE_OF_SPEED.text_with_interval(one.ratio)
