"""Which format of a model is the fastest: each beside the model's reference format, measured in turns."""

from collections.abc import Mapping, Sequence

from reports.record.quantities import RATIO
from reports.record.schema import Estimate, case_id
from reports.words.labels import accelerator, several_gpus
from reports.words.rightness import main_score, metric_text
from reports.words.shown import Shown, name_of

_Group = tuple[str, str, int, str]
"""Target, model, number of GPUs, and machine where several measured: formats of one group are ranked among each other."""


def format_name(record: Shown) -> str:
    """A case's format and precision as a reader knows them: `ONNX, TensorRT, FP16`."""
    parts = (record.build.format, accelerator(record.case, ""), several_gpus(record.case))
    return f"{', '.join(filter(None, parts))} {record.case.precision.upper()}"


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
    order = {group: place for place, group in enumerate(dict.fromkeys(_group(one) for one in records))}

    def place(record: Shown) -> tuple[int, float]:
        ratio = ratio_to_reference(record)
        return order[_group(record)], -ratio.value if ratio else 0.0

    return sorted(records, key=place)


def ranks(records: Sequence[Shown]) -> Mapping[str, int]:
    """The rank of each ranked record by its name: one more than how many formats of its model are shown to be faster, by
    intervals that do not meet. Formats that are not told apart share a rank; one whose ratio is known too badly to be
    shown has none."""
    found = ((one, ratio_to_reference(one)) for one in records)
    ratios = [(one, ratio) for one, ratio in found if ratio is not None and RATIO.is_shown(ratio)]
    return {
        name_of(one): 1
        + sum(other.low > ratio.high for rival, other in ratios if _group(rival) == _group(one))
        for one, ratio in ratios
    }


def advice(records: Sequence[Shown]) -> list[str]:
    """A sentence for each model of which formats were ranked: which of them to use."""
    placed = ranks(records)
    found: dict[_Group, list[Shown]] = {}
    for one in ranked(records):
        if name_of(one) in placed:
            found.setdefault(_group(one), []).append(one)
    return [_sentence(group, placed, records) for group in found.values() if len(group) > 1]


def _sentence(group: Sequence[Shown], placed: Mapping[str, int], records: Sequence[Shown]) -> str:
    best = [one for one in group if placed[name_of(one)] == 1]
    case = best[0].case
    where = f"`{case.model}` on `{case.target}`" + (f", {several_gpus(case)}" if case.gpus > 1 else "")
    if len(best) == 1:
        return f"{where}: use {format_name(best[0])}, {_why(best[0], records)}."
    equal = "; ".join(f"{format_name(one)}, {_why(one, records)}" for one in best)
    return f"{where}: use any of these, whose speeds are not told apart: {equal}."


def _why(record: Shown, records: Sequence[Shown]) -> str:
    """`1.41 (1.36 to 1.47) times as fast as ONNX FP32, top-1 98.2 %`."""
    ratio, score = ratio_to_reference(record), main_score(record)
    assert ratio is not None
    reference = reference_of(record)
    said = [f"{RATIO.cell_with_interval(ratio)} times as fast as {_name_of(reference, records)}"]
    if reference == case_id(record.case):
        said = ["which the others are set beside"]
    if score is not None:
        said.append(f"{score.metric} {metric_text(score, score.served)}")
    return ", ".join(said)


def reference_names(records: Sequence[Shown]) -> list[str]:
    """The formats that cases were set beside, as a reader knows them."""
    found = filter(None, (reference_of(one) for one in records))
    return list(dict.fromkeys(_name_of(name, records) for name in found))


def _name_of(name: str | None, records: Sequence[Shown]) -> str:
    """The format of a case as a reader knows it; the case's id where it is not among the records."""
    return next((format_name(one) for one in records if case_id(one.case) == name), str(name))


def _group(record: Shown) -> _Group:
    case = record.case
    return case.target, case.model, case.gpus, record.of_machine
