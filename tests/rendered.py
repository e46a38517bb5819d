"""The tables of the reports as markdown, for the tests of what is in them."""

from collections.abc import Sequence
from typing import Any

from reports.tables import case, points, summary
from reports.tables.rendering import markdown


def _rendered(made: Any) -> str:
    return markdown(made if isinstance(made, list) else [made])


def points_table(record: Any, scenario: str) -> str:
    return _rendered(points.points_table(record, scenario))


def certified_table(record: Any, scenario: str) -> str:
    return _rendered(points.certified_table(record, scenario))


def resources_table(record: Any, scenario: str) -> str:
    return _rendered(points.resources_table(record, scenario))


def comparison_table(records: Sequence[Any], scenario: str | None = None) -> str:
    return _rendered(points.comparison_table(records, scenario))


def budget_table(records: Sequence[Any], scenario: str | None = None) -> str:
    return _rendered(points.budget_table(records, scenario))


def efficiency_section(record: Any) -> str:
    return _rendered(points.efficiency_section(record))


def case_section(record: Any) -> str:
    return _rendered(case.case_section(record))


def parameters_table(record: Any, scenario: str) -> str:
    return _rendered(case.parameters_table(record, scenario))


def configuration_list(record: Any, scenario: str) -> str:
    return _rendered(case.configuration_list(record, scenario))


def soak_table(records: Sequence[Any]) -> str:
    return _rendered(case.soak_table(records))


def soak_section(record: Any) -> str:
    return _rendered(case.soak_section(record))


def gates_table(found: Sequence[Any]) -> str:
    return _rendered(case.gates_table(found))


def summary_table(records: Sequence[Any]) -> str:
    return _rendered(summary.summary(records))


def machine_sentence(records: Sequence[Any]) -> str:
    return _rendered(summary.machine_blocks(records))


def serving_sentence(records: Sequence[Any]) -> str:
    return markdown(summary.serving_blocks(records))
