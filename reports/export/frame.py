"""Load points as a tidy table: one row each, one column per quantity with its unit, for notebooks and CSV. A soak is told in
the row of its load point."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from reports.record.figures import bounds, of_load, of_soak, ratio_bounds
from reports.record.schema import BesideReference, Load, LoadSetting, Origin, Soak, case_id, place
from reports.words.cost import cost
from reports.words.rightness import main_score
from reports.words.serving_cost import fraction_of_peak
from reports.words.shown import Shown


def load_points(records: Sequence[Shown]) -> pd.DataFrame:
    """One row per load point. `passed` says whether the case's conversion and accuracy hold; where they do not, the
    row has `why_no_speed` in place of every figure that was measured: a fast wrong model is not fast."""
    return pd.DataFrame([row for record in records for row in _rows(record)])


def _rows(record: Shown) -> list[dict[str, Any]]:
    case = _case(record)
    rows = [
        *(
            case | _origin(record, at.origin) | at.measured | {"why_no_speed": record.no_speed}
            for at in record.hidden
        ),
        *(
            case | _origin(record, load.origin) | of_load(load) | _cost(record, load) | _beside(record, load)
            for load in record.loads
        ),
    ]
    soak = record.soak
    if soak is not None:
        points: tuple[LoadSetting, ...] = (*record.hidden, *record.loads)
        places = [place(point) for point in points]
        if place(soak) not in places:
            places.append(place(soak))
            rows.append(case | _origin(record, soak.origin) | _point_of(soak, record))
        rows[places.index(place(soak))] |= of_soak(soak)
    return rows


def _point_of(soak: Soak, record: Shown) -> dict[str, Any]:
    """The load point of a soak that was not measured besides."""
    found = {
        "scenario": soak.scenario,
        "batch": soak.batch,
        "concurrency": soak.concurrency,
        "request_rate_per_s": soak.request_rate_per_s,
        "arrivals": soak.arrivals,
        "why_no_speed": record.no_speed or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _origin(record: Shown, one: Origin | None) -> dict[str, Any]:
    """Where a point comes from; without what the record does not say, or was left out."""
    uuids = one.gpu_uuids if one else record.machine.gpu_uuids
    found = {
        "host": (one.host or None) if one else None,
        "gpu_uuids": " ".join(uuids) or None,
        "run": one.run if one else None,
        "run_started": one.started if one else None,
        "commit": one.commit if one else None,
        "clean": one.clean if one else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _case(record: Shown) -> dict[str, Any]:
    serving, score = record.serving, main_score(record)
    return {
        "case": case_id(record.case),
        "target": record.case.target,
        "model": record.case.model,
        "format": record.case.format,
        "accelerator": record.case.accelerator,
        "precision": record.case.precision,
        "gpus": record.case.gpus if record.case.target != "cpu" else None,
        "device": record.machine.gpu if record.case.target != "cpu" else record.machine.cpu,
        "server": serving.kind if serving else None,
        "backend": serving.backend if serving else None,
        "passed": not record.no_speed,
        "metric": score.metric if score else None,
        "score": score.served if score else None,
    }


def _cost(record: Shown, load: Load) -> dict[str, Any]:
    """What inferences cost; columns that only records with a price have."""
    paid = cost(record, load)
    if paid is None:
        return {}
    return {
        "price_per_hour": record.price_per_hour,
        "cost_per_million": paid.per_million,
        "cost_of": paid.of,
    }


def _beside(record: Shown, load: Load) -> dict[str, Any]:
    """The point beside another build, and beside the same artifact in process where that was measured at it."""
    one = load.comparison
    found: dict[str, Any] = {} if one is None else {"comparison_reference": one.reference}
    for beside in record.efficiency:
        at = (beside.scenario, beside.batch, beside.concurrency)
        if at == (load.scenario, load.batch, load.concurrency) and load.request_rate_per_s is None:
            found |= {
                **bounds("in_process", "_per_s", beside.in_process_per_s),
                "in_process_batch": beside.in_process_batch,
                **ratio_bounds("in_process_ratio", beside.ratio),
                "fraction_of_peak": fraction_of_peak(beside),
                **_beside_reference(beside.beside),
            }
    return {name: value for name, value in found.items() if value is not None}


def _beside_reference(beside: BesideReference | None) -> dict[str, Any]:
    """The case's best point beside the format that all of its model are set beside."""
    if beside is None:
        return {}
    return {"reference_format": beside.reference, **ratio_bounds("reference_ratio", beside.ratio)}
