"""Results of a search in sentences, tables and records."""

from typing import Any

import pytest
from msgspec import structs

from fixtures.spec import Deployment
from reports.record.figures import of_search
from reports.record.schema import Accuracy, Estimate, Record, Search
from reports.tables.case import case_section
from reports.tables.summary import summary
from reports.text.publishable import publishable
from reports.text.speed import lead_text, search_paragraph
from tests import examples
from tests.helpers import as_markdown

LATENCY_MS = {"avg": Estimate(5.9, 5.8, 6.0), "p99": Estimate(6.8, 6.5, 6.95)}


def found_record(**changes: Any) -> Record:
    """A record with a search whose winner is proven."""
    fields: dict[str, Any] = {
        "budget_ms": 7.0,
        "percentile": "p99",
        "deployment": Deployment(32, 1, (16, 32), 100, cuda_graphs=False, warmup=True),
        "load": examples.load("online", 12, 1940.4, latency_ms=LATENCY_MS),
        "verdict": "within",
        "lead": Estimate(1.03, 1.01, 1.05),
        "configurations": 9,
        "passes": 95,
        "duration_s": 71.6,
        "config": "case.search/config.pbtxt",
        "accuracy": examples.accuracy(),
    }
    return examples.record(search=Search(**(fields | changes)))


def found_rate(**changes: Any) -> Record:
    """A record with a search for the highest rate whose winner is proven."""
    at = {"request_rate_per_s": 118.0, "arrivals": "poisson"}
    load = examples.load("online", 0, 117.6, latency_ms=LATENCY_MS, **at)
    goodput = Estimate(117.25, 116.1, 118.4)
    return found_record(**{"load": load, "goodput_per_s": goodput, "rates": 37} | changes)


def test_unproven_rate_is_in_no_figure() -> None:
    published = publishable(found_rate(accuracy=None))
    assert published.search is not None
    assert "118" not in search_paragraph(published)
    assert not {"request_rate_per_s", "goodput_per_s"} & set(of_search(published.search))
    proven = publishable(found_rate()).search
    assert proven is not None
    assert of_search(proven)["goodput_per_s"] == 117.25


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
    for text in (
        as_markdown(summary([publishable(found_record())])),
        as_markdown(case_section(publishable(found_record()))),
    ):
        assert "1,940.4 infer/s with p99 6.800 ms" in text
        assert "`case.search/config.pbtxt`" in text
    assert "latency budget" not in as_markdown(case_section(publishable(examples.record())))
    alone = structs.replace(found_record(), accuracy=None, loads=())
    assert "No throughput is shown" not in as_markdown(summary([publishable(alone)]))


@pytest.mark.parametrize("ledger", [None, examples.failed_accuracy()])
def test_unproven_winner_shows_no_speed(ledger: Accuracy | None) -> None:
    text = search_paragraph(publishable(found_record(accuracy=ledger)))
    assert text.startswith("The winner within 7 ms is not proven. No throughput is shown: ")
    assert "1,940" not in text


def test_random_weights_rely_on_conversion_for_proof() -> None:
    def of(**changes: Any) -> Record:
        return examples.random_weights(search=found_record(accuracy=None).search, **changes)

    assert "1,940.4 infer/s" in search_paragraph(publishable(of()))
    assert "not proven" in search_paragraph(publishable(of(conversion=examples.failed_conversion())))
