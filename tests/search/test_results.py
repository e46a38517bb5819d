"""Results of a search in sentences, tables and records."""

from typing import Any

import pytest
from msgspec import structs

from reports.record.figures import flat
from reports.record.schema import Estimate, Record
from reports.tables.case import case_section
from reports.tables.summary import summary
from reports.text.publishable import publishable
from reports.text.speed import lead_text, search_paragraph
from tests import examples
from tests.helpers import as_markdown

LATENCY_MS = {"avg": Estimate(5.9, 5.8, 6.0), "p99": Estimate(6.8, 6.5, 6.95)}
WINNER = examples.load("online", 12, 1940.4, latency_ms=LATENCY_MS)


def found_record(**changes: Any) -> Record:
    """A record with a search whose winner is proven."""
    fields: dict[str, Any] = {"load": WINNER, "lead": Estimate(1.03, 1.01, 1.05)}
    return examples.record(search=examples.search(**{**fields, "accuracy": examples.accuracy(), **changes}))


def test_unproven_rate_is_in_no_figure() -> None:
    load = structs.replace(WINNER, concurrency=0, request_rate_per_s=118.0, arrivals="poisson")
    published = publishable(found_record(load=load, accuracy=None))
    assert published.search is not None
    assert "118" not in search_paragraph(published)
    assert not [name for name in flat("search", published.search) if name.endswith(("_per_s", "_ms_p99"))]
    proven = publishable(found_record(load=load)).search
    assert proven is not None
    assert flat("search", proven)["search_load_request_rate_per_s"] == 118.0


@pytest.mark.parametrize(
    ("lead", "said"),
    [
        (Estimate(1.03, 0.98, 1.08), "1.03 (0.98 to 1.08)"),
        (Estimate(2.0, 1.5, 2.6), "not shown"),
        (Estimate(0.8, 0.76, 0.84), "not shown to keep the budget"),
    ],
)
def test_lead_is_a_ratio_with_interval(lead: Estimate, said: str) -> None:
    assert said in lead_text(lead)


def test_winner_is_in_summary_and_case_section() -> None:
    record = publishable(found_record())
    for text in (as_markdown(summary([record])), as_markdown(case_section(record))):
        assert "1,940.4 infer/s with p99 6.800 ms" in text
        assert "search/config.pbtxt`" in text
    assert "latency budget" not in as_markdown(case_section(publishable(examples.record())))
    alone = structs.replace(found_record(), accuracy=None, loads=())
    assert "No throughput is shown" not in as_markdown(summary([publishable(alone)]))


def test_winner_with_random_weights_relies_on_conversion_for_proof() -> None:
    def of(**changes: Any) -> str:
        found = examples.random_weights(search=found_record(accuracy=None).search, **changes)
        return search_paragraph(publishable(found))

    assert "1,940.4 infer/s" in of()
    assert "not proven" in of(conversion=examples.failed_conversion())
