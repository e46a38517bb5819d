"""Load points as a tidy table: one row each, one column per quantity with its unit, for notebooks and CSV."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pandas as pd

from reports.cost import cost
from reports.efficiency import fraction_of_peak
from reports.record import Estimate, Load, Record, case_id, has_passed
from reports.verdict import main_score, why_no_speed


def load_points(records: Sequence[Record]) -> pd.DataFrame:
    """One row per load point. `passed` says whether the case's conversion and accuracy hold; where they do not, the
    row has `why_no_speed` in place of every figure that was measured: a fast wrong model is not fast."""
    return pd.DataFrame([_row(record, load) for record in records for load in record.loads])


def _row(record: Record, load: Load) -> dict[str, Any]:
    serving, score = record.serving, main_score(record)
    row: dict[str, Any] = {
        "case": case_id(record.case),
        "target": record.case.target,
        "model": record.case.model,
        "format": record.case.format,
        "accelerator": record.case.accelerator,
        "precision": record.case.precision,
        "device": record.machine.gpu if record.case.target != "cpu" else record.machine.cpu,
        "server": serving.kind if serving else None,
        "backend": serving.backend if serving else None,
        "passed": has_passed(record),
        "metric": score.metric if score else None,
        "score": score.served if score else None,
        "scenario": load.scenario,
        "batch": load.batch,
        "concurrency": load.concurrency,
        "passes": len(load.passes),
        "requests": load.requests,
    }
    if hidden := why_no_speed(record):
        return row | _schedule(load) | {"why_no_speed": hidden}
    row |= _bounds("throughput", "per_s", load.throughput_per_s)
    for name, value in load.latency_ms.items():
        row |= _bounds(f"latency_{name}", "ms", value)
    row |= {f"{name}_ms": value for name, value in load.components_ms.items()}
    return row | _schedule(load) | _marks(load) | _use(record, load) | _beside(record, load)


def _schedule(load: Load) -> dict[str, Any]:
    """Of points at a rate; columns that only some tables have."""
    found = {"request_rate_per_s": load.request_rate_per_s, "arrivals": load.arrivals}
    return {name: value for name, value in found.items() if value is not None}


def _marks(load: Load) -> dict[str, Any]:
    """The codes of marks, and how late requests were sent."""
    marks = " ".join(mark.code for mark in load.marks)
    found = {"slip_ms": load.slip_ms, "marks": marks or None}
    return {name: value for name, value in found.items() if value is not None}


def _use(record: Record, load: Load) -> dict[str, Any]:
    """What the GPU did and what inferences cost; a column for each figure that any point has."""
    use = dataclasses.asdict(load.gpu) if load.gpu else {}
    found = {f"gpu_{name}": value for name, value in use.items()}
    paid = cost(record, load)
    if paid is not None:
        found |= {
            "price_per_hour": record.price_per_hour,
            "cost_per_million": paid.per_million,
            "cost_of": paid.of,
        }
    return {name: value for name, value in found.items() if value is not None}


def _beside(record: Record, load: Load) -> dict[str, Any]:
    """The point beside another build, and beside the same artifact in process where that was measured at it."""
    found: dict[str, Any] = {}
    if (one := load.comparison) is not None:
        found |= {
            **_bounds("comparison_ratio", "", one.ratio),
            "comparison_reference": one.reference,
            "comparison_method": one.method,
            "comparison_verdict": one.verdict,
        }
    for beside in record.efficiency:
        at = (beside.scenario, beside.batch, beside.concurrency)
        if at == (load.scenario, load.batch, load.concurrency) and load.request_rate_per_s is None:
            found |= {
                **_bounds("in_process", "per_s", beside.in_process_per_s),
                "in_process_batch": beside.in_process_batch,
                **_bounds("in_process_ratio", "", beside.ratio),
                "fraction_of_peak": fraction_of_peak(beside),
            }
    return {name: value for name, value in found.items() if value is not None}


def _bounds(name: str, unit: str, estimate: Estimate) -> dict[str, float]:
    """Value and interval; the name of a plain ratio has no unit."""
    end = f"_{unit}" if unit else ""
    return {
        f"{name}{end}": estimate.value,
        f"{name}_low{end}": estimate.low,
        f"{name}_high{end}": estimate.high,
    }
