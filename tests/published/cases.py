"""Records of cases beside the published ones, and what is written of them."""

from typing import Any

import pandas as pd
from msgspec import structs

from reports.published.comparison import document
from reports.published.comparison import joined as joined_matches
from reports.published.matching import match
from reports.record import schema
from reports.record.schema import Case, Record, Serving
from reports.tables.rendering import markdown
from tests import samples
from tests.helpers import cells

NATIVE = Serving("docker", "2.51.0", "onnxruntime", "system")


def case_on(name: str, *loads: schema.Load, **changes: Any) -> Record:
    """A case that holds; `name` is `target model format accelerator precision`, `-` for no accelerator."""
    target, model, format_, accelerator, precision = name.split()
    gpu = None if target == "cpu" else f"NVIDIA {target.upper()}"
    fields: dict[str, Any] = {
        "case": Case(target, model, format_, None if accelerator == "-" else accelerator, precision),
        "machine": structs.replace(samples.record().machine, gpu=gpu),
        "serving": NATIVE,
        "loads": loads or (samples.load("offline", 8, 1000),),
    }
    return samples.record(**(fields | changes))


def latencies(**values: float) -> dict[str, schema.Estimate]:
    return {name: samples.estimate(value) for name, value in values.items()}


def joined(*records: Record) -> pd.DataFrame:
    return joined_matches([match(one) for one in samples.seen(*records)])


def written(*records: Record) -> str:
    return markdown(document([match(one) for one in samples.seen(*records)]))


def rows(text: str) -> list[list[str]]:
    """The rows of every markdown table in a text without their headings."""
    return [row for row in cells(text) if row[0] != "Load point"]


def titles(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]
