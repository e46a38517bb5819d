"""Load points as a tidy table: one row each, one column per quantity with its unit, for notebooks and CSV."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from reports.record.figures import bounds, of_load, of_point
from reports.record.schema import Load, Record, case_id, has_passed
from reports.words.cost import cost
from reports.words.rightness import main_score, why_no_speed
from reports.words.serving_cost import fraction_of_peak


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
    }
    if hidden := why_no_speed(record):
        return row | of_point(load) | {"why_no_speed": hidden}
    return row | of_load(load) | _cost(record, load) | _beside(record, load)


def _cost(record: Record, load: Load) -> dict[str, Any]:
    """Of inferences; columns that only records with a price have."""
    paid = cost(record, load)
    if paid is None:
        return {}
    return {
        "price_per_hour": record.price_per_hour,
        "cost_per_million": paid.per_million,
        "cost_of": paid.of,
    }


def _beside(record: Record, load: Load) -> dict[str, Any]:
    """The point beside another build, and beside the same artifact in process where that was measured at it."""
    one = load.comparison
    found: dict[str, Any] = {} if one is None else {"comparison_reference": one.reference}
    for beside in record.efficiency:
        at = (beside.scenario, beside.batch, beside.concurrency)
        if at == (load.scenario, load.batch, load.concurrency) and load.request_rate_per_s is None:
            found |= {
                **bounds("in_process", "_per_s", beside.in_process_per_s),
                "in_process_batch": beside.in_process_batch,
                **bounds("in_process_ratio", "", beside.ratio),
                "fraction_of_peak": fraction_of_peak(beside),
            }
    return {name: value for name, value in found.items() if value is not None}
