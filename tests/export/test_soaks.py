"""A soak where records are taken on: in a markdown file of one's own, as CSV, for a service, from run to run, beside another."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from msgspec import structs

from reports import readme
from reports.plots import trend as pictures
from reports.plots.shapes import Trend
from reports.record.schema import Estimate, Growth, case_id
from reports.run.outcomes import STATUS
from reports.text.publishable import publishable
from reports.trend import files, rows, series
from tests import samples
from tests.conftest import Reports
from tests.soak.made_up import CLEAN, LEAK, record, soak
from tests.trend import past

ONLINE = (samples.load("online", 16, 1000.0),)


@pytest.mark.parametrize("name", ["soak", f"soak {case_id(samples.record().case)}"])
def test_a_markdown_file_may_ask_for_what_grew(name: str) -> None:
    page = f"<!-- tritonproof:{name} -->\n<!-- /tritonproof:{name} -->\n"

    synced = readme.sync(page, [publishable(record(soak(CLEAN, LEAK)))])

    assert "memory of its stubs" in synced
    assert "Nothing has been measured" in readme.sync(page, [publishable(samples.record())])


@pytest.mark.parametrize("loads", [ONLINE, ()], ids=["measured besides", "soaked alone"])
def test_csv_has_it_in_the_row_of_its_load_point(
    tmp_path: Path, printed: Callable[..., str], loads: Any
) -> None:
    samples.store(tmp_path, record(soak(CLEAN, LEAK), loads=loads))

    text = printed("csv", "--results", tmp_path)

    (row,) = pd.read_csv(io.StringIO(text)).to_dict("records")
    assert (row["scenario"], row["batch"], row["concurrency"]) == ("online", 1, 16)
    assert row["growth_memory_of_its_stubs_per_request_bytes"] == 1034.0
    assert (row["soak_verdict"], row["soak_requests"], row["soak_s"]) == ("failed", 300_000, 600.0)


def test_csv_of_a_wrong_model_has_no_speed_of_its_soak(tmp_path: Path, printed: Callable[..., str]) -> None:
    wrong = record(soak(LEAK), loads=ONLINE, accuracy=samples.failed_accuracy())
    samples.store(tmp_path, wrong)

    text = printed("csv", "--results", tmp_path)

    (row,) = pd.read_csv(io.StringIO(text)).to_dict("records")
    assert row["soak_verdict"] == "failed"
    assert not {"soak_s", "speed_end_over_begin"} & row.keys()


def test_a_service_gets_the_growth_with_its_bounds(tmp_path: Path, printed: Callable[..., str]) -> None:
    samples.store(tmp_path, record(soak(CLEAN, LEAK)))

    text = printed("export", "--format", "bencher", "--results", tmp_path)

    (found,) = (value for name, value in json.loads(text).items() if name.endswith("memory of its stubs"))
    assert found["growth_bytes_per_request"] == {
        "value": 1034.0,
        "lower_value": 1029.0,
        "upper_value": 1041.0,
    }


def nightly(values: list[float], per: str = "request") -> list[rows.Row]:
    """What a soak found of the server's memory in a run of each day, in bytes a request or a loading."""
    return [
        past.row(
            number,
            kind="soak",
            at="memory of the server",
            figures={f"growth_bytes_per_{per}": (value, value - 1, value + 1)},
        )
        for number, value in enumerate(values)
    ]


def test_a_run_with_a_soak_is_in_the_history(tmp_path: Path, printed: Callable[..., str]) -> None:
    found = structs.replace(soak(CLEAN, LEAK), origin=samples.origin())
    samples.store(tmp_path / "results", record(found, loads=(), accuracy=None, conversion=None))

    assert files.append(tmp_path, rows.rows_of(publishable(record(found)))) == 2
    text = printed("trend", "--history", tmp_path)

    (line,) = [line for line in text.splitlines() if "memory of its stubs" in line]
    assert "1,034 B a request" in line
    assert {row.at: row.passed for row in files.read(tmp_path).rows} == {CLEAN.what: True, LEAK.what: False}


def test_what_is_left_by_each_loading_is_infrastructure_too(tmp_path: Path, reports: Reports) -> None:
    files.append(tmp_path, nightly([2.0 + number % 3 for number in range(30)] + [1e8] * 10, "loading"))

    assert reports("trend", "--history", tmp_path, "--fail-on", "step")[0] == STATUS["infrastructure"]


@pytest.mark.parametrize(
    ("after", "is_step"), [(1030.0, True), (20.0, False)], ids=["a leak", "less than a leak"]
)
def test_a_leak_is_a_step_for_the_worse_and_what_is_less_is_none(
    tmp_path: Path, reports: Reports, after: float, is_step: bool
) -> None:
    files.append(tmp_path, nightly([2.0 + number % 3 for number in range(30)] + [after] * 10))

    status, text, _ = reports("trend", "--history", tmp_path, "--fail-on", "step")

    between = f"**between {past.COMMITS[29][:9]} and {past.COMMITS[30][:9]}: +1,027 B a request"
    assert (between in text) == is_step
    assert status == (STATUS["infrastructure"] if is_step else 0)


def test_a_picture_of_the_history_has_growth_in_its_own_unit() -> None:
    (one,) = series.all_series(nightly([2.0] * 20 + [1030.0] * 20))

    content = pictures.chart([one]).content

    assert isinstance(content, Trend)
    (panel,) = content.panels
    assert "request" in panel.title
    assert panel.unit == "B a request"
    assert max(panel.rows[0].values) - min(panel.rows[0].values) == pytest.approx(1028)


def test_two_runs_side_by_side_say_what_leaks_now(tmp_path: Path, printed: Callable[..., str]) -> None:
    fixed = structs.replace(LEAK, slope=Estimate(2.0, -1.0, 5.0, 0.99), verdict="passed")
    before = samples.store(tmp_path / "before", record(soak(CLEAN, fixed)))
    after = samples.store(tmp_path / "after", record(soak(CLEAN, LEAK)))

    worse = printed("compare", before, after)
    better = printed("compare", after, before)
    same = printed("compare", after, samples.store(tmp_path / "again", record(soak(CLEAN, LEAK))))

    assert worse.count("no leak → **leak**") == better.count("leak → *no leak*") == 2
    assert "B a request" in worse
    assert "→ **" not in same
    assert "| leak |" in same


def test_a_soak_of_one_side_alone_is_said(tmp_path: Path, printed: Callable[..., str]) -> None:
    before = samples.store(tmp_path / "before", samples.record())
    after = samples.store(tmp_path / "after", record(soak(CLEAN), loads=ONLINE))

    text = printed("compare", before, after)

    assert "Only B has a soak" in text
    assert "| Soak" not in text


def test_what_was_watched_on_one_side_alone_is_left_out(tmp_path: Path, printed: Callable[..., str]) -> None:
    other = Growth("open files", "number", "request", Estimate(0.0, 0.0, 0.0, 0.99), 9.0, 9.0, 100, "passed")
    before = samples.store(tmp_path / "before", record(soak(CLEAN)))
    after = samples.store(tmp_path / "after", record(soak(CLEAN, other)))

    text = printed("compare", before, after)

    assert "memory of the server" in text
    assert "open files" not in text
