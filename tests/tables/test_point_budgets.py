"""Latency budgets of load points in tables, in figures and in records."""

from reports.record import figures
from reports.record.schema import LatencyBudget, Record
from reports.text.publishable import publishable
from tests import rendered as tables
from tests import samples

BUDGET = LatencyBudget("p99", 1.5, "agreed in May", "failed")


def record() -> Record:
    load = samples.load("online", 16, 1000.0, budget=BUDGET)
    return samples.record(loads=(load, samples.load("offline", 8, 1000.0)))


def test_a_budget_is_in_the_table_of_its_case_and_a_point_without_one_is_not() -> None:
    table = tables.budget_table([publishable(record())])

    assert len(table.splitlines()) == 3
    assert "1.5 ms" in table
    assert "beyond" in table
    assert "agreed in May" in table
    assert table in tables.case_section(publishable(record()))
    assert tables.budget_table([publishable(samples.record())]) == ""


def test_the_figures_of_a_point_have_the_budget_and_the_verdict() -> None:
    found = figures.of_load(record().loads[0]) | figures.of_load(record().loads[1])

    assert found["budget_p99_ms"] == 1.5
    assert found["budget_verdict"] == "failed"
