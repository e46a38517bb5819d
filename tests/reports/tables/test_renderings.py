"""All renderings of a table have the same content and hide the same values."""

import csv
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs

from tests import sample_records
from tests.helpers import ROOT
from tritonproof.record.fields import Estimate, Ratio
from tritonproof.record.quantities import LATENCY, NOT_SHOWN, RATIO, SHARE, Quantity, fixed
from tritonproof.record.speed import Mark, PointResult
from tritonproof.reports.publishable import Publishable, publishable
from tritonproof.reports.tables import points, summary
from tritonproof.reports.tables.case import case_section
from tritonproof.reports.tables.rendering import as_csv, bold, html, markdown, terminal_text
from tritonproof.reports.tables.table import Block, Bullets, Cell, Column, Heading, Table, cell_of, table

RENDERINGS: dict[str, Callable[[Sequence[Block]], str]] = {
    "markdown": markdown,
    "terminal": lambda blocks: terminal_text(blocks, 400),
    "narrow terminal": lambda blocks: terminal_text(blocks, 60),
    "html": html,
    "csv": as_csv,
}


class ResultWithCache(PointResult, frozen=True):
    """A load point with a new figure: a field ..."""

    cache_mib: float = 0.0


CACHE = Quantity("MiB", fixed(1), "lower")
"""... a quantity ..."""

COLUMN: Column[points.PointRow[object]] = Column(
    "Cache (MiB)", lambda row: getattr(row.result, "cache_mib", None), CACHE, is_optional=True
)
"""... and a column."""


@pytest.mark.parametrize("rendering", RENDERINGS)
def test_new_figure_appears_in_every_rendering(rendering: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "RESOURCES", (*points.RESOURCES, COLUMN))
    fields = structs.asdict(sample_records.measured("offline", 8, 1573.6))
    result = ResultWithCache(**fields, cache_mib=712.34)

    text = RENDERINGS[rendering](case_section(publishable(sample_records.record(points=(result,)))))

    assert "Cache (MiB)" in text
    assert ("712.34" if rendering == "csv" else "712.3") in text
    wrong = sample_records.record(points=(result,), accuracy=sample_records.failed_accuracy())
    assert "712.3" not in RENDERINGS[rendering](case_section(publishable(wrong)))


def test_new_column_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = summary.summary_columns
    added: Column[Publishable] = Column("FrameworkModel", lambda record: record.build.weights_source)
    monkeypatch.setattr(summary, "summary_columns", lambda records: [*columns(records), added])
    text = markdown(summary.summary([publishable(sample_records.record())]))
    assert "FrameworkModel" in text
    assert "checkpoint nvidia_resnet50.pth" in text.replace("\\_", "_")


KNOWN, WIDE = Ratio(1.25, 1.2, 1.3), Ratio(2.1654, 0.753, 5.889)
OPEN = Estimate(12.3456, 11.9, 12.8, open_above=True)


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        (cell_of(RATIO, None), Cell("-")),
        (cell_of(RATIO, KNOWN, "interval"), Cell("1.25 (1.20 to 1.30)", 1.25, 1.2, 1.3)),
        (cell_of(LATENCY, KNOWN, "half width"), Cell("1.250 ± 4.0 %", 1.25, 1.2, 1.3)),
        (cell_of(RATIO, WIDE, "interval"), Cell(NOT_SHOWN)),
        (cell_of(LATENCY, OPEN, "interval"), Cell("12.346 (11.900 or more)", 12.3456, 11.9)),
        (cell_of(SHARE, 0.98, with_unit=True), Cell("98 %", 98.0)),
    ],
)
def test_figure_has_text_and_values_or_neither(cell: Cell, wanted: Cell) -> None:
    assert cell == wanted


HOSTILE = "=<b>a|b</b> *c*"


@dataclass(frozen=True)
class Item:
    name: str
    ratio: Ratio | None
    marks: tuple[Mark, ...] = ()


COLUMNS: Sequence[Column[Item]] = (
    Column("Name", lambda item: item.name),
    Column("Ratio", lambda item: item.ratio, RATIO, "interval", meaning="of this to that"),
    Column("Nothing", lambda _item: None, RATIO, is_optional=True),
)


def made(*items: Item) -> Table:
    return table(COLUMNS, items, marks=lambda item: item.marks, notes=["A note."])


@pytest.mark.parametrize("rendering", RENDERINGS)
def test_hidden_value_and_empty_column_are_in_no_rendering(rendering: str) -> None:
    text = RENDERINGS[rendering]([made(Item("one", WIDE), Item("two", KNOWN))])
    assert (NOT_SHOWN in text) == (rendering != "csv")
    assert "1.2" in text
    for absent in ("2.1", "0.75", "5.88", "Nothing"):
        assert absent not in text
    assert ("of this to that" in text) == (rendering != "csv")


def test_marks_are_letters_that_rows_share() -> None:
    niced, shared = Mark("niced", "nice 5"), [Mark("cpu-shared", f"0.{share} of 2 cores") for share in (1, 2)]
    items = (Item("one", KNOWN, (niced, shared[0])), Item("two", KNOWN, (shared[1],)), Item("three", KNOWN))
    lettered = made(*items)
    assert lettered.titles == ["Name", "Ratio", "Note"]
    assert [row[-1] for row in lettered.texts] == ["a, b", "b", ""]
    assert lettered.remarks == ["a: nice 5", "b: other programs took part of the CPU"]


def test_html_escapes_names_and_keeps_emphasis() -> None:
    text = html([Heading(HOSTILE, 2), made(Item(HOSTILE, KNOWN)), Bullets([HOSTILE]), HOSTILE])
    tags = "h3 div table thead tbody tr th td p ul li"
    assert set(re.findall(r"<(\w+)", text)) == set(tags.split())
    assert "<strong>slower</strong>" in html([bold("slower")])


def rows_of(blocks: Sequence[Block]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(as_csv(blocks))))


def test_csv_has_bounds_and_no_formulas() -> None:
    (row,) = rows_of([Heading("cpu", 2), made(Item(HOSTILE, KNOWN))])
    assert (row["Section"], row["Name"]) == ("cpu", f"'{HOSTILE}")
    assert [row[name] for name in ("Ratio", "Ratio, low", "Ratio, high")] == ["1.25", "1.2", "1.3"]


def test_csv_has_numbers_apart_from_texts_that_say_more() -> None:
    cells = {
        Cell("3", 3): ("3.0", ""),
        Cell("-1.5 ± 4.0 %", -1.5, -1.56, -1.44): ("-1.5", ""),
        Cell("0.9 (0.8 or more)", 0.9, 0.8): ("0.9", ""),
        Cell("2.126+", 2.126, 2.0): ("2.126", ""),
        Cell("top-1 93.1 %", 93.1): ("93.1", "top-1 93.1 %"),
        Cell("≤ 0.04", 0.04): ("0.04", "≤ 0.04"),
        Cell("1404 (any)", 1403.8): ("1403.8", "1404 (any)"),
        Cell("no labels"): ("", "no labels"),
        Cell("-"): ("", ""),
        Cell(NOT_SHOWN): ("", ""),
    }
    rows = rows_of([table([Column[Cell]("Score", lambda cell: cell)], cells)])
    assert [(row["Score"], row["Score, text"]) for row in rows] == [*cells.values()]


def test_csv_tells_targets_apart_and_names_each_device() -> None:
    machine = structs.replace(sample_records.record().machine, gpu="NVIDIA A40-8Q")
    other = structs.replace(sample_records.ONNX, machine=machine)
    seen = sample_records.seen(sample_records.record(), sample_records.random_weights(), other)
    sections = [row["Section"] for row in rows_of(summary.summary(seen))]
    assert sections[0] == sections[1] == "Target a40, NVIDIA A40 or NVIDIA A40-8Q"
    assert sections[2].startswith("Target cpu, ")


@pytest.mark.parametrize("width", [20, 60, 200])
def test_terminal_table_fits_width_and_keeps_every_row(width: int) -> None:
    names = [f"case-{number}" for number in range(12)]
    blocks: list[Block] = [made(*(Item(name, KNOWN) for name in names)), "A sentence of a few words."]
    text = terminal_text(blocks, width)
    assert max(map(len, text.splitlines())) <= width
    assert all(name in text for name in names)


@pytest.mark.parametrize(("tf32", "said"), [(True, "FP32 in TF32"), (False, "FP32 without TF32")])
def test_case_says_whether_fp32_is_computed_in_tf32(tf32: bool, said: str) -> None:
    record = sample_records.record(deployment=structs.replace(sample_records.record().deployment, tf32=tf32))
    assert said in markdown(case_section(publishable(record)))


def test_ascii_terminal_prints_tables(tmp_path: Path) -> None:
    sample_records.store(tmp_path, sample_records.record())
    words = [sys.executable, "-m", "tritonproof", "report", "tables", "--results", str(tmp_path)]
    ascii_alone = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = subprocess.run(
        words, cwd=ROOT, env=ascii_alone, capture_output=True, encoding="utf-8", check=False, timeout=120
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert "3166.7 ? 2.0 %" in process.stdout
