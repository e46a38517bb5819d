"""Which format of a model is the fastest: each beside the model's reference format, measured in turns."""

import dataclasses
from collections.abc import Mapping, Sequence

from reports.record.quantities import RATIO
from reports.record.schema import Estimate, Load, case_id
from reports.words.labels import format_text
from reports.words.shown import Shown, name_of

Group = tuple[str, str, int]
"""Target, model and number of GPUs: formats of one group are ranked among each other."""


def format_name(record: Shown) -> str:
    """A case's format and precision as a reader knows them: `ONNX, TensorRT FP16`."""
    return f"{format_text(record)} {record.case.precision.upper()}"


def ratio_to_reference(record: Shown) -> Estimate | None:
    """A case's best speed over that of its model's reference format; 1 for that format itself, None where it was not
    measured in turns with it."""
    found = (one.beside for one in record.efficiency)
    return next((beside.ratio for beside in found if beside is not None), None)


def reference_of(record: Shown) -> str | None:
    """The id of the case that a case was set beside, which may be its own; None where there is none."""
    found = (one.beside for one in record.efficiency)
    return next((beside.reference for beside in found if beside is not None), None)


def ranked(records: Sequence[Shown]) -> list[Shown]:
    """The records with the formats of each model in the order of their speed, the fastest first; those that are not
    ranked come last, as they came. Models stay in their order."""
    order = {group: place for place, group in enumerate(dict.fromkeys(group_of(one) for one in records))}

    def place(record: Shown) -> tuple[int, float]:
        ratio = ratio_to_reference(record)
        return order[group_of(record)], -ratio.value if ratio else 0.0

    return sorted(records, key=place)


def ranks(records: Sequence[Shown]) -> Mapping[str, int]:
    """The rank of each ranked record by its name: one more than how many formats of its model are shown to be faster, by
    intervals that do not meet. Formats that are not told apart share a rank; one whose ratio is known too badly to be
    shown has none."""
    found = ((one, ratio_to_reference(one)) for one in records)
    ratios = [(one, ratio) for one, ratio in found if ratio is not None and RATIO.is_shown(ratio)]
    return {
        name_of(one): 1
        + sum(other.low > ratio.high for rival, other in ratios if group_of(rival) == group_of(one))
        for one, ratio in ratios
    }


def best_load(record: Shown) -> Load | None:
    """The load point of the highest throughput; without the mark of a wide interval, as what
    shows it shows the interval itself. None where no speed may be shown."""
    best = max(record.loads, key=lambda load: load.throughput_per_s.value, default=None)
    if best is None:
        return None
    return dataclasses.replace(best, marks=[mark for mark in best.marks if mark.code != "wide-interval"])


def beside_reference(record: Shown, records: Sequence[Shown]) -> str:
    """`1.41 (1.36 to 1.47) times as fast as ONNX FP32`, of a case that was measured in turns with its reference; else empty."""
    ratio = ratio_to_reference(record)
    if ratio is None:
        return ""
    return f"{RATIO.cell_with_interval(ratio)} times as fast as {_name_of(reference_of(record), records)}"


def reference_names(records: Sequence[Shown]) -> list[str]:
    """The formats that cases were set beside, as a reader knows them."""
    found = filter(None, (reference_of(one) for one in records))
    return list(dict.fromkeys(_name_of(name, records) for name in found))


def _name_of(name: str | None, records: Sequence[Shown]) -> str:
    """The format of a case as a reader knows it; the case's id where it is not among the records."""
    return next((format_name(one) for one in records if case_id(one.case) == name), str(name))


def group_of(record: Shown) -> Group:
    """The group that a case is ranked in."""
    case = record.case
    return case.target, case.model, case.gpus
