"""Load points as a tidy table: one row each, one column per quantity with its unit, for notebooks and CSV."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from reports.cost import cost
from reports.figures import of_load
from reports.record import Load, Record, case_id, has_passed
from reports.verdict import main_score


def load_points(records: Sequence[Record]) -> pd.DataFrame:
    """One row per load point. `passed` says whether the case's conversion and accuracy hold: a fast wrong model
    is not fast."""
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
        **of_load(load),
    }
    return row | _cost(record, load)


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
