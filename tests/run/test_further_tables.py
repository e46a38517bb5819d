"""Which tables a run shows beside its summary: those of what its options asked for."""

from types import SimpleNamespace

import pytest

from reports import tables
from reports.run.written import further_tables
from tests.options import options


@pytest.mark.parametrize(
    ("option", "table"),
    [
        ({"against": "HEAD"}, tables.comparison_table),
        ({"against_triton": "embedded"}, tables.comparison_table),
        ({"soak": "10m"}, tables.soak_table),
    ],
)
def test_what_an_option_asks_for_has_its_table(option: dict[str, str], table: object) -> None:
    assert further_tables(SimpleNamespace(option=options(**option))) == [table]
    assert further_tables(SimpleNamespace(option=options())) == []
