"""What a reader sees of percentiles that can be signed."""

import dataclasses

from reports.record.figures import of_load
from reports.record.schema import CertifiedPercentile
from reports.text.publishable import publishable
from tests import rendered as tables
from tests import samples

ENOUGH = CertifiedPercentile(2.126, 2.875, 1500, 0)
TOO_FEW = CertifiedPercentile(3.25, None, 1500, 5136)


def test_the_bound_stands_below_the_table_of_its_scenario_with_whose_rule_it_is() -> None:
    load = samples.load("offline", 8, 1000, certified={"p99": ENOUGH, "p99.9": TOO_FEW})
    text = tables.case_section(publishable(samples.record(loads=(load, samples.load("online", 16, 900)))))
    (row,) = [line for line in text.splitlines() if line.startswith("| batch 8") and "too few" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        *("batch 8", "1500", "2.126", "2.875", "3.250", "5,136 requests too few"),
    ]
    assert "99 % confidence, by the rule of LoadGen's early stopping" in text


def test_where_no_point_has_a_bound_nothing_is_said() -> None:
    load = samples.load("offline", 8, 1000, certified={"p99.9": TOO_FEW})
    for loads in ((load,), (dataclasses.replace(load, certified={}),)):
        assert "early stopping" not in tables.case_section(publishable(samples.record(loads=loads)))


def test_figures_have_the_bound_where_there_is_one() -> None:
    figures = of_load(samples.load("offline", 8, 1000, certified={"p99": ENOUGH, "p99.9": TOO_FEW}))
    assert figures["certified_p99_ms"] == 2.875
    assert "certified_p99.9_ms" not in figures
