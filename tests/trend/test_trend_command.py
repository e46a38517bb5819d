"""`python -m reports trend`: what it prints and draws, when it fails, and what it takes from elsewhere."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from reports import history
from reports.record import atomic
from reports.run.outcomes import STATUS
from tests import samples
from tests.conftest import Reports
from tests.trend import past
from tests.trend.test_history import measured

SLOWER = past.stepped(60, 50, 0.95)
BETWEEN = f"between {past.COMMITS[49][:9]} and {past.COMMITS[50][:9]}"


@pytest.fixture
def trend(tmp_path: Path, reports: Reports) -> Reports:
    """Runs the command on the history in `tmp_path`."""
    return lambda *options: reports("trend", "--history", tmp_path, *options)


def test_the_table_names_the_commits_of_a_step_and_its_size(tmp_path: Path, trend: Reports) -> None:
    history.append(tmp_path, past.rows(SLOWER))
    status, text, _ = trend()
    assert status == 0
    (line,) = [line for line in text.splitlines() if past.CASE in line]
    assert f"**{BETWEEN}: -" in line
    assert "%" in line


@pytest.mark.parametrize(
    ("values", "status"),
    [
        (SLOWER, STATUS["speed"]),
        (past.stepped(60, 50, 1.05), 0),
        (past.stepped(60, 0, 1.0), 0),
        (past.stepped(120, 50, 0.95), 0),
    ],
    ids=["slower", "faster", "as before", "slower long ago"],
)
def test_the_gate_fails_for_a_recent_step_for_the_worse(
    tmp_path: Path, trend: Reports, values: list[float], status: int
) -> None:
    history.append(tmp_path, past.rows(values))
    found, _, errors = trend("--fail-on", "step")
    assert found == status
    assert (BETWEEN in errors) == bool(status)
    assert ("worse within the latest 50 runs" in errors) == bool(status)


def test_a_step_that_is_known_fails_no_more(tmp_path: Path, trend: Reports) -> None:
    history.append(tmp_path, past.rows(SLOWER))
    for known in (50, 55):
        assert trend("--fail-on", "step", "--known", past.COMMITS[known][:9])[0] == 0
    assert trend("--fail-on", "step", "--known", past.COMMITS[49][:9])[0] == STATUS["speed"]
    assert "no run" in trend("--fail-on", "step", "--known", "fffff")[2]


@pytest.mark.parametrize("speeds", [[], SLOWER], ids=["no speed", "a speed that fell too"])
def test_an_accuracy_that_fell_is_no_matter_of_speed(
    tmp_path: Path, trend: Reports, speeds: list[float]
) -> None:
    scores = [0.98] * 30 + [0.97] * 10
    history.append(
        tmp_path,
        [
            *past.rows(speeds),
            *(
                past.row(n, kind="accuracy", at="top-1", figures={"score": (s, s, s)}, samples=500)
                for n, s in enumerate(scores, 20)
            ),
        ],
    )
    assert trend("--fail-on", "step")[0] == STATUS["accuracy"]


def test_a_step_without_a_commit_between_is_said_to_be_none_of_the_code(
    tmp_path: Path, trend: Reports
) -> None:
    history.append(tmp_path, past.rows(SLOWER, commit=past.COMMITS[0]))
    assert "so not by a commit" in trend()[1]


def test_of_two_runs_with_changed_files_nobody_knows_whether_it_was_the_code(
    tmp_path: Path, trend: Reports
) -> None:
    history.append(tmp_path, past.rows(SLOWER, commit=past.COMMITS[0], clean=False))
    text = trend()[1]
    assert f"two runs of {past.COMMITS[0][:9]}-dirty" in text
    assert "so not by a commit" not in text


def test_steps_are_the_same_whatever_is_shown(tmp_path: Path, trend: Reports) -> None:
    for case in range(12):
        history.append(
            tmp_path, past.rows(past.stepped(60, 50, 0.95, seed=case), case=f"cpu-model{case}-onnx-fp32")
        )
    every = [line.split(" | ")[-1].strip() for line in trend()[1].splitlines() if "cpu-model7" in line]
    one = [
        line.split(" | ")[-1].strip() for line in trend("-k", "model7")[1].splitlines() if "model7" in line
    ]
    assert every == one


def test_the_picture_is_drawn_for_both_themes_and_has_the_step(tmp_path: Path, trend: Reports) -> None:
    history.append(tmp_path, past.rows(SLOWER))
    assert trend("--output", str(tmp_path / "out"))[0] == 0
    paths = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in paths] == ["trend-dark.svg", "trend-light.svg"]
    texts = [(element.text or "").strip() for element in ElementTree.parse(paths[0]).getroot().iter()]
    assert [text for text in texts if text.startswith("▼ -")]


def test_a_strange_name_in_the_history_is_text_in_the_picture_and_nothing_else(
    tmp_path: Path, trend: Reports
) -> None:
    strange = 'b001 <script>alert("1")</script> & \x07'
    history.append(tmp_path, past.rows(SLOWER, at=strange))
    assert trend("--output", str(tmp_path / "out"))[0] == 0
    for path in (tmp_path / "out").iterdir():
        elements = [*ElementTree.parse(path).getroot().iter()]
        assert not any(element.tag.endswith(("script", "}b")) for element in elements)
        assert any(strange.replace("\x07", "\\x07") in (element.text or "") for element in elements)


def test_one_run_alone_is_a_trend_without_steps(tmp_path: Path, trend: Reports) -> None:
    history.append(tmp_path, past.rows([100.0]))
    status, text, _ = trend("--output", str(tmp_path / "out"))
    assert status == 0
    assert "1 run of 1 commit" in text


def test_records_and_histories_of_other_machines_are_added_once(tmp_path: Path, trend: Reports) -> None:
    shard = tmp_path / "shard"
    samples.store(shard, measured())
    history.append(shard / "history", past.rows([100.0, 101.0]))
    for expected in ("added 8 ", "added 0 "):
        status, text, errors = trend("--add", str(shard))
        assert status == 0
        assert expected in errors
        assert "a40-resnet50" in text


def test_a_damaged_line_of_a_history_that_is_added_is_told_of(tmp_path: Path, trend: Reports) -> None:
    history.append(tmp_path / "other", past.rows([100.0, 101.0]))
    (path,) = (tmp_path / "other").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-40])

    status, _, errors = trend("--add", str(tmp_path / "other"))

    assert status == 0
    assert f"{path}, line 2: left out" in errors
    assert "added 1 " in errors


def test_a_damaged_line_of_the_history_itself_is_told_of_too(tmp_path: Path, trend: Reports) -> None:
    history.append(tmp_path, past.rows([100.0, 101.0, 102.0]))
    (path,) = tmp_path.glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-40])

    status, text, errors = trend()

    assert (status, "2 runs of 2 commits" in text) == (0, True)
    assert f"{path}, line 3: left out" in errors


def test_no_history_is_an_error_with_its_cure(tmp_path: Path, trend: Reports) -> None:
    status, _, errors = trend()
    assert status == 4
    assert "--add" in errors
    history.append(tmp_path, past.rows([1.0]))
    assert past.CASE in trend("-k", "nothing")[2]


@pytest.mark.parametrize("place", ["taken", "taken/below", "loop"])
def test_a_place_that_cannot_be_drawn_into_is_refused_before_anything_is_added(
    place: str, tmp_path: Path, trend: Reports
) -> None:
    history.append(tmp_path / "other", past.rows(SLOWER))
    (tmp_path / "taken").write_text("theirs")
    (tmp_path / "loop").symlink_to("nowhere")
    status, text, said = trend("--add", tmp_path / "other", "--output", tmp_path / place)
    assert (status, text) == (4, "")
    assert said.startswith(f"error: {tmp_path / place}: it is ")
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_folder_that_may_not_be_written_to_is_refused_before_anything_is_added(
    tmp_path: Path, trend: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.append(tmp_path / "other", past.rows(SLOWER))
    monkeypatch.setattr(atomic.os, "access", lambda *_: False)
    assert trend("--add", tmp_path / "other", "--output", tmp_path / "new").status == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other"]
