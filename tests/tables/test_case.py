"""The tables of one case as values: rows, columns and cells."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from reports.record.schema import Load
from reports.tables.case import configuration_list
from reports.tables.points import points_table
from reports.tables.soak import leaks
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


def test_leak_states_size_and_time_to_a_gibibyte() -> None:
    soak = examples.complete().soak
    assert soak is not None
    (sentence,) = leaks(soak)

    # 1034 B each at 500 a second are 1 GiB in 2077 s.
    parts = ("memory of its stubs", "1,034 B", "1,029 to 1,041", "0.6 hours")
    assert [part for part in parts if part not in sentence] == []


# --- settings ----------------------------------------------------------------------------------------------


def lines(record: Publishable) -> dict[str, str]:
    """The lines of a configuration by their names."""
    pairs = (line.split(": ", 1) for line in configuration_list(record, "offline").lines)
    return {name: text for name, text in pairs}  # noqa: C416 - of lists, which mypy does not take for pairs


NATIVE = structs.replace(examples.record().serving, backend="onnxruntime")  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("changes", "name", "wanted"),
    [
        ({"tf32": True}, "Options", "warm-up, FP32 in TF32"),
        ({"tf32": False}, "Options", "warm-up, FP32 without TF32"),
        ({"serving": NATIVE}, "Backend", "ONNX Runtime"),
    ],
)
def test_configuration_line_matches_settings(changes: dict[str, Any], name: str, wanted: str) -> None:
    if "tf32" in changes:
        changes = {"deployment": structs.replace(examples.record().deployment, **changes)}
    assert lines(seen(**changes))[name] == wanted


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
