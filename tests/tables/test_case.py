"""The tables of one case as values: rows, columns and cells."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from reports.record import figures
from reports.record.schema import (
    GATES,
    CertifiedPercentile,
    ComposingModel,
    GpuUse,
    LatencyBudget,
    Load,
    Record,
    Start,
)
from reports.tables.case import accuracy_blocks, configuration_list, scenario_section
from reports.tables.points import (
    RESOURCES,
    budget_table,
    certified_table,
    comparison_table,
    composing_table,
    efficiency_section,
    points_table,
    resources_table,
)
from reports.tables.table import Table
from reports.text.publishable import Publishable, publishable
from tests import examples

ROOT = Path(__file__).parents[2]


def seen(*loads: Load, **changes: Any) -> Publishable:
    return publishable(examples.record(**({"loads": loads} if loads else {}), **changes))


def points(record: Publishable, scenario: str) -> Table:
    table = points_table(record, scenario)
    assert isinstance(table, Table)
    return table


# --- load points -------------------------------------------------------------------------------------------


def test_missing_latency_is_an_empty_cell() -> None:
    load = examples.load("online", 16, 100, latency_ms={"p50": examples.estimate(2)}, components_ms={})
    assert points(seen(load), "online").texts == [["16", "100.0", *"-" * 7, "2.000", *"-" * 4]]


def test_request_rate_replaces_concurrency() -> None:
    rated = examples.load("online", 0, 118.0, request_rate_per_s=120.0, arrivals="poisson")
    table = points(seen(examples.load("online", 4, 300.0), rated), "online")
    assert [row[0] for row in table.texts] == ["4", "120/s, poisson"]


@pytest.mark.parametrize(
    ("record", "scenario", "said"),
    [
        (examples.random_weights(), "online", "No online load point has been measured."),
        (examples.record(conversion=None), "offline", "No throughput is shown: the converted model was not"),
    ],
)
def test_empty_table_says_why(record: Record, scenario: str, said: str) -> None:
    assert str(points_table(publishable(record), scenario)).startswith(said)


USE = GpuUse(0.93, 5120.4, 251.26, 159.671, 1395.2)
INSTANCE = structs.replace(USE, energy_j_per_1000=None, power_w=None, utilisation=None)
TAKEN = ["159.7", "251.3", "93 %", "5120", "1395"]


@pytest.mark.parametrize(
    ("uses", "price", "titles", "rows"),
    [
        ((USE, USE), 3.6, [column.title for column in RESOURCES], [[*TAKEN, "2.08"], [*TAKEN, "1.04"]]),
        ((INSTANCE, None), None, ["GPU memory (MiB)", "SM clock (MHz)"], [["5120", "1395"], ["-", "-"]]),
        ((None, None), None, [], []),
    ],
    ids=["all", "a MIG slice", "nothing"],
)
def test_resources_table_shows_only_measured_columns(
    uses: Sequence[GpuUse | None], price: float | None, titles: list[str], rows: list[list[str]]
) -> None:
    sizes = ((1, 500.0), (8, 1000.0))
    loads = [
        examples.load("offline", size, rate, gpu=use) for (size, rate), use in zip(sizes, uses, strict=True)
    ]
    table = resources_table(seen(*loads, price_per_hour=price), "offline")

    assert table.titles[1:] == titles
    assert [row[1:] for row in table.texts] == rows
    assert not resources_table(
        seen(*loads, price_per_hour=3.6, accuracy=examples.failed_accuracy()), "offline"
    )


def test_cost_of_unproven_inferences_says_so() -> None:
    record = examples.random_weights(loads=(examples.load("offline", 8, 1000.0),), price_per_hour=3.6)
    assert resources_table(publishable(record), "offline").texts == [["batch 8", "1 (any)"]]


ENOUGH, TOO_FEW = CertifiedPercentile(2.126, 2.875, 1500, 0), CertifiedPercentile(3.25, None, 1500, 5136)


def test_percentile_shows_bound_or_missing_requests() -> None:
    load = examples.load("offline", 8, 1000, certified={"p99": ENOUGH, "p99.9": TOO_FEW})
    (row,) = certified_table(seen(load), "offline").texts

    assert row == ["batch 8", "1500", "2.126", "2.875", "3.250", "5,136 requests too few"]
    assert not certified_table(seen(structs.replace(load, certified={"p99.9": TOO_FEW})), "offline")
    values = figures.load_figures(load)
    assert (values["certified_p99_ms"], values.get("certified_p99.9_ms")) == (2.875, None)


def test_composing_models_are_listed_per_request() -> None:
    load = examples.load("online", 16, 1000, composing=(ComposingModel("tokens", 2.0, 0.5, 1.25),))
    assert composing_table(seen(load), "online").texts == [
        ["concurrency 16", "tokens", "2.00", "0.500", "1.250"]
    ]


def test_latency_budget_is_in_table_and_figures() -> None:
    load = examples.load("online", 16, 1000.0, budget=LatencyBudget("p99", 1.5, "agreed in May", "failed"))
    record = seen(load, examples.load("offline", 8, 1000.0))
    (row,) = budget_table([record]).texts

    assert row[1] == "online, concurrency 16"
    assert row[3:] == ["1.5 ms", "beyond", "agreed in May"]
    assert budget_table([record], "online") in scenario_section(record, "online")
    assert not budget_table([record], "offline")
    values = figures.load_figures(load)
    assert (values["budget_p99_ms"], values["budget_verdict"]) == (1.5, "failed")


def test_comparison_shows_verdict_or_reason() -> None:
    load = examples.load("offline", 8, 1000.0, comparison=examples.comparison())
    right, wrong = seen(load), seen(load, conversion=None)
    shown, hidden = comparison_table([right, wrong]).texts

    assert shown[1:4] == ["offline, batch 8", "0.90 (0.88 to 0.92)", "HEAD~1"]
    assert shown[4].startswith("slower than the 3 % allowed")
    assert hidden[1:] == ["offline, batch 8", "-", "HEAD~1", wrong.no_speed]


def test_gates_have_ordered_rows() -> None:
    gates = [examples.gate(name) for name in reversed(GATES)]
    record = seen(gates=(*gates, examples.gate("malformed", "answered")))
    *_, table = accuracy_blocks(record)
    assert isinstance(table, Table)
    rows = table.texts

    assert [row[0] for row in rows if row[4] == "passed"] == list(GATES.values())
    assert len(rows) == len(GATES) + 1


def test_other_in_process_modes_have_columns_if_measured() -> None:
    serial, resident = examples.estimate(1650.0), examples.estimate(2100.0)
    efficiency = examples.efficiency(serial_per_s=serial, resident_per_s=resident)
    _, table = efficiency_section(seen(efficiency=(efficiency, examples.efficiency("online"))))
    assert isinstance(table, Table)
    assert [row[3:5] for row in table.texts] == [["1650.0", "2100.0"], ["-", "-"]]


# --- settings ----------------------------------------------------------------------------------------------


def lines(record: Publishable, scenario: str = "offline") -> dict[str, str]:
    """The lines of a configuration by their names."""
    pairs = (line.split(": ", 1) for line in configuration_list(record, scenario).lines)
    return {name: text for name, text in pairs}  # noqa: C416 - of lists, which mypy does not take for pairs


STARTS = (Start("offline", 0.41, 2.53, 12.51), Start("online", None, 1.0, 8.0))
WARMED = (examples.load("offline", 8, 200, warm_up_s=0.3), examples.load("offline", 1, 200, warm_up_s=0.02))
NATIVE = structs.replace(examples.record().serving, backend="onnxruntime")  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("changes", "scenario", "name", "wanted"),
    [
        ({"tf32": True}, "offline", "Options", "warm-up, FP32 in TF32"),
        ({"tf32": False}, "offline", "Options", "warm-up, FP32 without TF32"),
        ({"serving": NATIVE}, "offline", "Backend", "ONNX Runtime"),
        (
            {"starts": STARTS, "loads": WARMED},
            "offline",
            "Start",
            "server 0.41 s, model load 2.5 s, first request 12.510 ms, warm-up under load 0.30 s at most",
        ),
        ({"starts": STARTS, "loads": WARMED}, "online", "Start", "model load 1.0 s, first request 8.000 ms"),
    ],
)
def test_configuration_line_matches_settings(
    changes: dict[str, Any], scenario: str, name: str, wanted: str
) -> None:
    if "tf32" in changes:
        changes = {"deployment": structs.replace(examples.record().deployment, **changes)}
    assert lines(seen(**changes), scenario)[name] == wanted


# --- the command -------------------------------------------------------------------------------------------


def test_ascii_terminal_prints_tables(tmp_path: Path) -> None:
    examples.store(tmp_path, examples.record())
    process = subprocess.run(
        [sys.executable, "-m", "reports", "tables", "--results", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert "3166.7 ? 2.0 %" in process.stdout
