"""`python -m reports trend`: output, pictures, gate and added histories."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from reports.history import Row, append, read
from reports.run import STATUS
from tests import examples
from tests.conftest import Reports
from tests.trend import past
from tests.trend.test_history import measured

SLOWER = past.stepped(60, 50, 0.95)
BETWEEN = f"{past.COMMITS[49][:9]} and {past.COMMITS[50][:9]}"
FAIL = ("--fail-on", "step")


def scores(*values: float) -> list[Row]:
    """An accuracy, measured once a day from the 20th on."""
    return [
        past.row(n, kind="accuracy", at="top-1", figures={"score": (s, s, s)}, samples=500)
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
        (past.stepped(60, 50, 1.05), FAIL, 0),
        (past.stepped(60, 0, 1.0), FAIL, 0),
        (past.stepped(120, 50, 0.95), FAIL, 0),  # long ago
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
        assert (BETWEEN in line) == (len(values) >= 60 and values != past.stepped(60, 0, 1.0))


@pytest.mark.parametrize("speeds", [[], SLOWER], ids=["no speed", "a speed that fell too"])
def test_lower_accuracy_precedes_speed(tmp_path: Path, trend: Reports, speeds: list[float]) -> None:
    append(tmp_path, [*past.rows(speeds), *scores(*[0.98] * 30, *[0.97] * 10)])
    assert trend(*FAIL).status == STATUS["accuracy"]


@pytest.mark.parametrize("clean", [True, False])
def test_step_within_one_commit_names_both_runs(tmp_path: Path, trend: Reports, clean: bool) -> None:
    rows = past.rows(SLOWER, commit=past.COMMITS[0], clean=clean)
    append(tmp_path, rows)
    text = trend().out
    assert rows[49].started[:16] in text
    assert rows[50].started[:16] in text
    assert (f"{past.COMMITS[0][:9]}-dirty" in text) == (not clean)


def test_steps_do_not_depend_on_selection(tmp_path: Path, trend: Reports) -> None:
    for case in range(12):
        append(tmp_path, past.rows(past.stepped(60, 50, 0.95, seed=case), case=f"cpu-model{case}-onnx-fp32"))
    changes = [
        next(
            line.split(" | ")[-1].strip() for line in trend(*options).out.splitlines() if "cpu-model7" in line
        )
        for options in ((), ("-k", "model7"))
    ]
    assert changes[0] == changes[1]
    assert trend("-k", "nothing").status == 4


def test_picture_shows_step_in_both_themes_and_escapes_names(tmp_path: Path, trend: Reports) -> None:
    strange = 'b001 <script>alert("1")</script> & \x07'
    append(tmp_path, past.rows(SLOWER, at=strange))
    assert trend("--output", tmp_path / "out").status == 0
    paths = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in paths] == ["trend-dark.svg", "trend-light.svg"]
    for path in paths:
        elements = [*ElementTree.parse(path).getroot().iter()]
        texts = [(element.text or "").strip() for element in elements]
        assert not any(element.tag.endswith(("script", "}b")) for element in elements)
        assert any(strange.replace("\x07", "\\x07") in text for text in texts)
        assert any(text.startswith("▼ -") for text in texts)


def test_other_records_and_histories_are_added_once(tmp_path: Path, trend: Reports) -> None:
    shard = examples.store(tmp_path / "shard", measured())
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


@pytest.mark.parametrize("place", ["taken", "taken/below", "loop"])
def test_undrawable_output_is_refused_before_adding(place: str, tmp_path: Path, trend: Reports) -> None:
    append(tmp_path / "other", past.rows(SLOWER))
    (tmp_path / "taken").write_text("theirs")
    (tmp_path / "loop").symlink_to("nowhere")
    status, text, errors = trend("--add", tmp_path / "other", "--output", tmp_path / place)
    assert (status, text) == (4, "")
    assert errors.startswith(f"error: {tmp_path / place}: ")
    assert not list(tmp_path.glob("*.jsonl"))
