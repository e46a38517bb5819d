"""Cost of inferences and the energy they took: the arithmetic, the tables, the columns, the option."""

import dataclasses
import io
from pathlib import Path

import pandas as pd
import pytest

from fixtures.run import record_file
from reports.export import load_points
from reports.record.schema import GpuUse, Load, Record
from reports.tables.points import RESOURCES
from reports.text.publishable import publishable
from reports.text.speed import cost
from tests import rendered as tables
from tests import samples
from tests.markdown_tables import cells

USE = GpuUse(0.93, 5120.4, 251.26, 159.671, 1395.2, "counter")


def point(scenario: str = "offline", size: int = 8, rate: float = 1000.0) -> Load:
    """A load point with what the GPU did."""
    return samples.load(scenario, size, rate, passes=(), warm_up_s=1.0, gpu=USE)


def priced(price: float | None = 3.6, **changes: object) -> Record:
    """A case with two points and a price."""
    loads = (point(size=1, rate=500.0), point(size=8, rate=1000.0))
    return dataclasses.replace(samples.record(loads=loads), price_per_hour=price, **changes)  # type: ignore[arg-type]


# --- arithmetic --------------------------------------------------------------------------------------------


def test_wrong_inferences_are_paid_for_by_the_right_ones() -> None:
    one = priced(accuracy=samples.accuracy(samples.score(served=0.8, limits=())))
    found = cost(publishable(one), point(rate=1000.0))
    assert found is not None
    # 3.6 per hour buy 1000 inferences a second: a million cost 1, of which four in five are right.
    assert found.per_million == pytest.approx(1.25)
    assert found.of == "correct inferences"


@pytest.mark.parametrize(
    "one",
    [
        priced(accuracy=samples.accuracy(samples.score(better="lower", served=0.012, limits=()))),
        samples.random_weights(loads=(point(),), price_per_hour=3.6),
    ],
    ids=["an error", "random weights"],
)
def test_without_a_score_that_is_a_share_all_inferences_are_paid_for_alike(one: Record) -> None:
    found = cost(publishable(one), point(rate=1000.0))
    assert found is not None
    assert (found.per_million, found.of) == (pytest.approx(1.0), "inferences")


def test_there_is_no_cost_without_a_price() -> None:
    assert cost(publishable(priced(None)), point()) is None


# --- tables ------------------------------------------------------------------------------------------------


def test_the_summary_has_a_cost_where_any_case_has_a_price() -> None:
    unpriced = priced(None)
    assert "Cost per million correct" not in tables.summary_table([publishable(unpriced)])
    wrong = priced(accuracy=samples.failed_accuracy())
    table = tables.summary_table(samples.seen(priced(), unpriced, wrong))
    header, *rows = cells(table)
    place = header.index("Cost per million correct")
    assert [row[place] for row in rows] == ["1.04", "-", "-"]  # 1 / 0.9625, at the fastest of its points
    assert "at 3.6 per hour" in table


def test_a_cost_of_any_inferences_says_so() -> None:
    one = samples.random_weights(loads=(point(),), price_per_hour=3.6)
    table = tables.summary_table([publishable(one)])
    assert "1 (any) |" in table
    assert "(any) is per million inferences of any kind" in table


def test_each_point_shows_energy_use_and_cost() -> None:
    table = tables.resources_table(publishable(priced()), "offline")
    header, first, second = cells(table)
    assert header == ["Load point", *(one.title for one in RESOURCES)]
    taken = ["159.7", "251.3", "93 %", "5120", "1395"]
    assert first == ["batch 1", *taken, "2.08"]
    assert second == ["batch 8", *taken, "1.04"]
    assert table in tables.case_section(publishable(priced()))


def test_figures_that_no_point_has_take_no_column() -> None:
    instance = dataclasses.replace(USE, energy_j_per_1000=None, power_w=None, utilisation=None)
    loads = (dataclasses.replace(point(size=1), gpu=instance), dataclasses.replace(point(size=8), gpu=None))
    table = tables.resources_table(publishable(priced(None, loads=loads)), "offline")
    assert cells(table) == [
        ["Load point", "GPU memory (MiB)", "SM clock (MHz)"],
        ["batch 1", "5120", "1395"],
        ["batch 8", "-", "-"],
    ]


def test_nothing_is_shown_where_nothing_is_known_or_the_case_failed() -> None:
    bare = tuple(dataclasses.replace(load, gpu=None) for load in priced().loads)
    assert tables.resources_table(publishable(priced(None, loads=bare)), "offline") == ""
    assert tables.resources_table(publishable(priced()), "online") == ""
    assert tables.resources_table(publishable(priced(accuracy=samples.failed_accuracy())), "offline") == ""
    assert "\n\n\n" not in tables.case_section(publishable(priced(None, loads=bare)))


# --- records and columns -----------------------------------------------------------------------------------


def test_the_price_of_the_newest_run_that_gives_one_wins(tmp_path: Path) -> None:
    def price_after(given: float | None) -> float | None:
        return record_file.update(priced(given, loads=()), tmp_path, lambda stored: stored).price_per_hour

    assert price_after(None) is None
    assert price_after(2.0) == 2.0
    assert price_after(3.0) == 3.0
    assert price_after(None) == 3.0


def test_another_build_keeps_the_price(tmp_path: Path) -> None:
    record_file.update(priced(2.0), tmp_path, lambda stored: stored)
    other = priced(None, build=dataclasses.replace(priced().build, digest="another"), loads=())
    stored = record_file.update(other, tmp_path, lambda stored: stored)
    assert stored.price_per_hour == 2.0
    assert stored.loads == ()


def test_columns_hold_energy_and_cost_and_pandas_reads_them_back() -> None:
    failed = priced(accuracy=samples.failed_accuracy())
    frame = load_points([publishable(priced()), publishable(failed)])
    row = frame.iloc[1]
    assert row["gpu_energy_j_per_1000"] == USE.energy_j_per_1000
    assert (row["gpu_power_w"], row["gpu_utilisation"]) == (USE.power_w, USE.utilisation)
    assert row["price_per_hour"] == 3.6
    assert row["cost_per_million"] == pytest.approx(1 / 0.9625)
    assert row["cost_of"] == "correct inferences"
    assert frame[~frame["passed"]]["cost_per_million"].isna().all()
    assert "gpu_energy_from" in frame
    read = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)


def test_a_record_without_either_has_none_of_the_columns() -> None:
    bare = tuple(dataclasses.replace(load, gpu=None) for load in priced().loads)
    columns = load_points([publishable(priced(None, loads=bare))]).columns
    assert not [name for name in columns if name.startswith(("gpu_", "price", "cost"))]


def test_a_figure_that_no_point_has_is_no_column() -> None:
    silent = dataclasses.replace(point(), gpu=GpuUse(0.9, None, None, None, None))
    columns = load_points([publishable(priced(None, loads=(silent,)))]).columns
    assert [name for name in columns if name.startswith("gpu_")] == ["gpu_utilisation"]
