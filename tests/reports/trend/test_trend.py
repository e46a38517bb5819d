"""`python -m tritonproof report trend`: output, pictures, gate and added histories; and the search for shifts, which finds
the planted ones of noisy histories in place, and no others."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from msgspec.structs import replace

from fixtures.outcomes import STATUS
from tests import sample_records
from tests.conftest import Reports
from tests.helpers import cells
from tests.reports.trend import past
from tritonproof.reports.history import HistoryRow, append, read
from tritonproof.reports.trend import all_series, find_shifts

SLOWER = past.shifted(60, 50, 0.95)
BETWEEN = f"{past.COMMITS[49][:9]} and {past.COMMITS[50][:9]}"
FAIL = ("--fail-on", "shift")


def scores(*values: float, name: str = "score") -> list[HistoryRow]:
    """An accuracy, measured once a day from the 20th on."""
    return [
        past.row(n, kind="accuracy", at="top-1", figures={name: (s, s, s)}, samples=500)
        for n, s in enumerate(values, 20)
    ]


@pytest.fixture
def trend(tmp_path: Path, reports: Reports) -> Reports:
    """Runs the command on the history in `tmp_path`."""
    return lambda *options: reports("trend", "--history", tmp_path, *options)


@pytest.mark.parametrize(
    ("values", "options", "status"),
    [
        (SLOWER, (), 0),
        (SLOWER, FAIL, STATUS["speed"]),
        (SLOWER, (*FAIL, "--known", past.COMMITS[49][:9]), STATUS["speed"]),
        (SLOWER, (*FAIL, "--known", past.COMMITS[50][:9]), 0),
        (SLOWER, (*FAIL, "--known", "fffff"), 4),
        (SLOWER, (*FAIL, "--known", past.COMMITS[50][:6]), 4),
        (SLOWER, ("--known", past.COMMITS[50][:9]), 4),
        (SLOWER, ("--within", "9"), 4),
        (SLOWER, ("--theme", "light"), 4),
        (past.shifted(60, 50, 1.05), FAIL, 0),
        (past.shifted(60, 0, 1.0), FAIL, 0),
        (past.shifted(120, 50, 0.95), FAIL, 0),  # long ago
        ([100.0], FAIL, 0),
        ([], (), 4),
    ],
)
def test_gate_fails_for_recent_unknown_regression(
    tmp_path: Path, trend: Reports, values: list[float], options: tuple[str, ...], status: int
) -> None:
    append(tmp_path, past.rows(values))
    exit_status, text, errors = trend(*options)
    assert exit_status == status
    assert (BETWEEN in errors) == (status == STATUS["speed"])
    if exit_status != 4:
        (line,) = [line for line in text.splitlines() if past.CASE in line]
        assert (BETWEEN in line) == (len(values) >= 60 and values != past.shifted(60, 0, 1.0))


def test_commit_accepts_the_shifts_of_series_that_it_ran_in(tmp_path: Path, trend: Reports) -> None:
    append(tmp_path, [*past.rows(SLOWER), past.row(59, commit=past.COMMITS[20], host="another")])
    assert trend(*FAIL, "--known", past.COMMITS[20][:9]).status == STATUS["speed"]


@pytest.mark.parametrize("speeds", [[], SLOWER], ids=["no speed", "a speed that fell too"])
def test_lower_accuracy_precedes_speed(tmp_path: Path, trend: Reports, speeds: list[float]) -> None:
    append(tmp_path, [*past.rows(speeds), *scores(*[0.98] * 30, *[0.97] * 10)])
    assert trend(*FAIL).status == STATUS["accuracy"]


@pytest.mark.parametrize("clean", [True, False])
def test_shift_of_one_commit_names_both_runs_and_changes(tmp_path: Path, trend: Reports, clean: bool) -> None:
    rows = past.rows(SLOWER, commit=past.COMMITS[0], clean=clean)
    rows[50:] = [replace(row, build="another", triton="2.61.0") for row in rows[50:]]
    append(tmp_path, rows)
    text = trend().out
    assert rows[49].started[:16] in text
    assert rows[50].started[:16] in text
    assert (f"{past.COMMITS[0][:9]}-dirty" in text) == (not clean)
    assert "; the build is another; Triton 2.51.0 became 2.61.0" in text


def test_shifts_do_not_depend_on_selection(tmp_path: Path, trend: Reports) -> None:
    of_machine = np.exp(np.random.default_rng(0).normal(0, 0.01, 60))
    for case in range(12):
        values = past.shifted(60, 50, 0.95, seed=case) * of_machine
        append(tmp_path, past.rows(values.tolist(), case=f"cpu-model{case}-onnx-fp32"))
    every_case, one_case = (
        [line.split(" | ")[-1].strip() for line in trend(*options).out.splitlines() if "cpu-model7" in line]
        for options in ((), ("-k", "model7"))
    )
    assert every_case == one_case
    assert BETWEEN in every_case[0], "the shift that all cases have in common"
    assert trend("-k", "nothing").status == 4


def test_picture_shows_shift_in_both_themes_and_escapes_names(tmp_path: Path, trend: Reports) -> None:
    strange = 'b001 <script>alert("1")</script> & \x07'
    append(tmp_path, [replace(row, started=f"\x07{row.started}") for row in past.rows(SLOWER, at=strange)])
    assert "\x07" not in trend("--output", tmp_path / "out", *FAIL).err
    paths = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in paths] == ["trend-dark.svg", "trend-light.svg"]
    for path in paths:
        elements = [*ElementTree.parse(path).getroot().iter()]
        texts = [(element.text or "").strip() for element in elements]
        assert not any(element.tag.endswith(("script", "}b")) for element in elements)
        assert any(strange.replace("\x07", "\\x07") in text for text in texts)
        assert any(text.startswith("▼ -") for text in texts)


def test_other_records_and_histories_are_added_once(tmp_path: Path, trend: Reports) -> None:
    shard = sample_records.store(tmp_path / "shard", past.measured())
    append(shard / "history", past.rows([100.0, 101.0]))
    for expected in (8, 0):
        status, text, errors = trend("--add", shard)
        assert (status, f" {expected} " in errors, "a40-resnet50" in text) == (0, True, True)


def test_damaged_lines_are_named_and_others_kept(tmp_path: Path, trend: Reports) -> None:
    for folder in (tmp_path, tmp_path / "other"):
        append(folder, past.rows([100.0, 101.0, 102.0], host=folder.name))
        path = folder / "cpu.jsonl"
        path.write_bytes(path.read_bytes()[:-40])
    status, _, errors = trend("--add", tmp_path / "other")
    assert status == 0
    for folder in (tmp_path, tmp_path / "other"):
        assert f"{folder / 'cpu.jsonl'}, line 3: " in errors
    assert len(read(tmp_path)[0]) == 4


@pytest.mark.parametrize("name", ["taken", "taken/below", "loop"])
def test_undrawable_output_is_refused_before_adding(name: str, tmp_path: Path, trend: Reports) -> None:
    append(tmp_path / "other", past.rows(SLOWER))
    (tmp_path / "taken").write_text("theirs")
    (tmp_path / "loop").symlink_to("nowhere")
    status, text, errors = trend("--add", tmp_path / "other", "--output", tmp_path / name)
    assert (status, text) == (4, "")
    assert errors.startswith(f"error: {tmp_path / name}: ")
    assert not list(tmp_path.glob("*.jsonl"))


@dataclass(frozen=True)
class Tally:
    """How many planted shifts of 3 % were found."""

    planted: int
    found: int
    near: int
    """Found within two commits."""
    false: int


def tally(**settings: Any) -> Tally:
    """The shifts that are found in a `past.history`."""
    rows, planted = past.history(**settings)
    near = false = hits = 0
    for series in all_series(rows):
        indices = [past.COMMITS.index(shift.after.commit or "") for shift in series.shifts]
        true = planted.get(series.at)
        of_planted = [abs(index - true) for index in indices if true is not None and abs(index - true) <= 25]
        false += len(series.shifts) - min(1, len(of_planted))
        if of_planted:
            hits += 1
            near += min(of_planted) <= 2
    return Tally(len(planted), hits, near, false)


def test_shift_has_size_and_surrounding_runs() -> None:
    (series,) = all_series(past.rows(past.shifted(60, 40, 0.97)))
    (shift,) = series.shifts
    assert (shift.before.commit, shift.after.commit) == (past.COMMITS[39], past.COMMITS[40])
    assert shift.change.low <= -0.03 <= shift.change.high
    assert shift.change.high - shift.change.low < 0.02
    assert shift.is_worse


def test_higher_latency_is_worse() -> None:
    for factor, is_worse in ((1.1, True), (0.9, False)):
        values = past.shifted(60, 40, factor)
        rows = [past.row(n, figures={"latency_p99_ms": (v, v, v)}) for n, v in enumerate(values)]
        (series,) = all_series(rows)
        assert [shift.is_worse for shift in series.shifts] == [is_worse]


def test_bad_week_is_no_shift_but_lasting_level_is() -> None:
    values = np.random.default_rng(4).normal(0, 0.005, 60)
    values[30:36] -= 0.1
    assert find_shifts(values, usual_std=0.02) == []
    assert [at for at, *_ in find_shifts(values[:36], usual_std=0.02)] == [30]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("score", 0.98, 0.974), ("error", 0.0, 0.3), ("error", 0.012, 0.01204)],
    ids=["lost samples", "errors where none were", "a larger error"],
)
def test_lasting_loss_is_an_accuracy_shift(name: str, before: float, after: float) -> None:
    (series,) = all_series(scores(*[before] * 30, *[after] * 10, name=name))
    (shift,) = series.shifts
    assert (shift.after.commit, shift.is_worse) == (past.COMMITS[50], True)
    assert shift.change.value == pytest.approx(after - before)


def test_ratio_of_a_wide_interval_is_left_out(tmp_path: Path, trend: Reports) -> None:
    ratios = [(0.9, 0.85, 0.95)] * 3 + [(1.0, 0.5, 2.0)] * 10 + [(2.0, 1.0, 4.0)] * 10
    append(tmp_path, [past.row(n, figures={"in_process_ratio": ratio}) for n, ratio in enumerate(ratios)])
    assert [row[4:] for row in cells(trend().out)[1:]] == [["3", "0.90 (0.85 to 0.95)", "-"]]


def test_close_shifts_are_both_found() -> None:
    for first, second in ((0.9, 0.95), (0.95, 0.9)):
        values = [item * (second if n >= 60 else 1) for n, item in enumerate(past.shifted(120, 50, first))]
        (item,) = all_series(past.rows(values))
        assert [shift.after.commit for shift in item.shifts] == [past.COMMITS[50], past.COMMITS[60]]


def test_machines_hosts_and_kinds_stay_separate() -> None:
    fast = past.rows([100.0] * 20)
    for changes in ({"machine": "ffffffff"}, {"host": "ci-2"}, {"kind": "efficiency"}):
        other = past.rows([50.0] * 40, **changes)[20:]
        every_series = all_series([*fast, *other])
        assert [len(series.rows) for series in every_series] == [20, 20]
        assert not any(series.shifts for series in every_series)


def test_equal_hosts_are_joined_on_request() -> None:
    rows = [past.row(number, host=f"container-{number}") for number in range(20)]
    rows.append(past.row(3, host=""))  # an anonymous copy
    assert len(all_series(rows)) == 21
    (series,) = all_series(rows, join_hosts=True)
    assert len(series.rows) == 20


def test_planted_shifts_are_found_without_false_ones() -> None:
    """A small part of the simulation below."""
    counts = tally(seed=0, std=0.01, runs=400, count=30, share=0.5)
    assert counts.planted > 10
    assert counts.near >= 0.9 * counts.planted
    assert counts.false == 0


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("std", "least"), [(0.005, 0.95), (0.01, 0.95), (0.015, 0.9), (0.02, 0.8), (0.025, 0.65), (0.03, 0.4)]
)
def test_planted_shifts_are_found_in_long_histories(std: float, least: float) -> None:
    """The figures of docs/trend.md."""
    counts = tally(seed=7, std=std, share=0.5)
    print(std, counts)
    assert counts.near >= least * counts.planted
    assert counts.false <= 1
