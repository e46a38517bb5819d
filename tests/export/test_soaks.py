"""A soak where records are taken on: in a markdown file of one's own, as CSV, for a service, from run to run, beside another."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from msgspec import structs

from reports import history, readme
from reports.record.schema import Estimate, case_id
from reports.run.outcomes import STATUS
from reports.text.publishable import publishable
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


def test_a_service_gets_the_growth_with_its_bounds(tmp_path: Path, printed: Callable[..., str]) -> None:
    samples.store(tmp_path, record(soak(CLEAN, LEAK)))

    text = printed("export", "--format", "bencher", "--results", tmp_path)

    (found,) = (value for name, value in json.loads(text).items() if name.endswith("memory of its stubs"))
    assert found["growth_bytes_per_request"] == {
        "value": 1034.0,
        "lower_value": 1029.0,
        "upper_value": 1041.0,
    }


def nightly(values: list[float], per: str = "request") -> list[history.Row]:
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

    assert history.append(tmp_path, history.rows_of(publishable(record(found)))) == 2
    text = printed("trend", "--history", tmp_path)

    (line,) = [line for line in text.splitlines() if "memory of its stubs" in line]
    assert "1,034 B a request" in line


def test_what_is_left_by_each_loading_is_infrastructure_too(tmp_path: Path, reports: Reports) -> None:
    history.append(tmp_path, nightly([2.0 + number % 3 for number in range(30)] + [1e8] * 10, "loading"))

    assert reports("trend", "--history", tmp_path, "--fail-on", "step")[0] == STATUS["infrastructure"]


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
