"""`python -m reports trend`: what it prints and draws, when it fails, and what it takes from elsewhere."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import structs

from reports.__main__ import main
from reports.record import writing
from reports.run.outcomes import STATUS
from reports.trend import files
from tests import samples
from tests.conftest import Reports
from tests.trend import past
from tests.trend.test_history_files import ORIGIN, measured

SLOWER = past.stepped(60, 50, 0.95)
BETWEEN = f"between {past.COMMITS[49][:9]} and {past.COMMITS[50][:9]}"


@pytest.fixture
def trend(tmp_path: Path, reports: Reports) -> Reports:
    """Runs the command on the history in `tmp_path`."""
    return lambda *options: reports("trend", "--history", tmp_path, *options)


def test_the_table_names_the_commits_of_a_step_and_its_size(tmp_path: Path, trend: Reports) -> None:
    files.append(tmp_path, past.rows(SLOWER))
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
    files.append(tmp_path, past.rows(values))
    found, _, errors = trend("--fail-on", "step")
    assert found == status
    assert (BETWEEN in errors) == bool(status)
    assert ("worse within the latest 50 commits" in errors) == bool(status)


def test_a_step_that_is_known_fails_no_more(tmp_path: Path, trend: Reports) -> None:
    files.append(tmp_path, past.rows(SLOWER))
    for known in (50, 55):
        assert trend("--fail-on", "step", "--known", past.COMMITS[known][:9])[0] == 0
    assert trend("--fail-on", "step", "--known", past.COMMITS[49][:9])[0] == STATUS["speed"]
    assert "no run" in trend("--fail-on", "step", "--known", "fffff")[2]


def test_the_gate_counts_commits_and_not_runs(tmp_path: Path, trend: Reports) -> None:
    rows = past.rows(past.stepped(120, 50, 0.95))
    nightly = [row if n < 50 else structs.replace(row, commit=past.COMMITS[50]) for n, row in enumerate(rows)]
    files.append(tmp_path, nightly)
    assert trend("--fail-on", "step")[0] == STATUS["speed"]


@pytest.mark.parametrize("speeds", [[], SLOWER], ids=["no speed", "a speed that fell too"])
def test_an_accuracy_that_fell_is_no_matter_of_speed(
    tmp_path: Path, trend: Reports, speeds: list[float]
) -> None:
    scores = [0.98] * 30 + [0.97] * 10
    files.append(
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
    files.append(tmp_path, past.rows(SLOWER, commit=past.COMMITS[0]))
    assert "so not by a commit" in trend()[1]


def test_of_two_runs_with_changed_files_nobody_knows_whether_it_was_the_code(
    tmp_path: Path, trend: Reports
) -> None:
    files.append(tmp_path, past.rows(SLOWER, commit=past.COMMITS[0], clean=False))
    text = trend()[1]
    assert f"two runs of {past.COMMITS[0][:9]}-dirty" in text
    assert "so not by a commit" not in text


def test_steps_are_the_same_whatever_is_shown(tmp_path: Path, trend: Reports) -> None:
    for case in range(12):
        files.append(
            tmp_path, past.rows(past.stepped(60, 50, 0.95, seed=case), case=f"cpu-model{case}-onnx-fp32")
        )
    every = [line.split(" | ")[-1].strip() for line in trend()[1].splitlines() if "cpu-model7" in line]
    one = [
        line.split(" | ")[-1].strip() for line in trend("-k", "model7")[1].splitlines() if "model7" in line
    ]
    assert every == one


def test_a_picture_of_each_case_is_drawn_for_both_themes(tmp_path: Path, trend: Reports) -> None:
    files.append(tmp_path, past.rows(SLOWER))
    assert trend("--output", str(tmp_path / "out"))[0] == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"trend-{past.CASE}-dark.svg", f"trend-{past.CASE}-light.svg"]
    root = ElementTree.parse(tmp_path / "out" / names[0]).getroot()
    texts = [element.text or "" for element in root.iter()]
    assert any(BETWEEN in text for text in texts), "the description lacks the step"
    assert any(text.startswith("▼ -") for text in texts)


def test_the_trend_is_drawn_without_packages_that_take_long_to_load(tmp_path: Path) -> None:
    files.append(tmp_path, past.rows(SLOWER))
    program = (
        "import sys\n"
        "for name in ('matplotlib', 'pandas', 'scipy'): sys.modules[name] = None\n"
        "from reports.__main__ import main; sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = ["trend", "--history", str(tmp_path), "--output", str(tmp_path / "out")]
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_a_strange_name_in_the_history_is_text_in_the_picture_and_nothing_else(
    tmp_path: Path, trend: Reports
) -> None:
    strange = 'b001 <script>alert("1")</script> & \x07'
    files.append(tmp_path, past.rows(SLOWER, at=strange, device='A "<b>CPU</b>"'))
    assert trend("--output", str(tmp_path / "out"))[0] == 0
    for path in (tmp_path / "out").iterdir():
        elements = [*ElementTree.parse(path).getroot().iter()]
        assert not any(element.tag.endswith(("script", "}b")) for element in elements)
        assert strange.replace("\x07", "\ufffd") in [element.text for element in elements]


def test_the_line_in_the_picture_goes_down_where_the_figures_do(tmp_path: Path, trend: Reports) -> None:
    values = [100.0] * 10 + [90.0] * 10
    rows = [past.row(n, figures={"throughput_per_s": (v, v, v)}) for n, v in enumerate(values)]
    files.append(tmp_path, rows)
    trend("--output", str(tmp_path / "out"), "--theme", "light")
    (path,) = (tmp_path / "out").iterdir()
    circles = [one for one in ElementTree.parse(path).getroot().iter() if one.tag.endswith("circle")]
    places = [(float(one.get("cx", "")), float(one.get("cy", ""))) for one in circles]
    assert [x for x, _ in places] == sorted({x for x, _ in places}), (
        "runs are not side by side in their order"
    )
    assert len(places) == 20
    assert max(y for _, y in places[:10]) < min(y for _, y in places[10:])


def test_cases_of_two_machines_are_two_pictures(tmp_path: Path, trend: Reports) -> None:
    files.append(tmp_path, past.rows(SLOWER) + past.rows(SLOWER, host="ci-2"))
    trend("--output", str(tmp_path / "out"), "--theme", "light")
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_one_run_alone_is_a_trend_without_steps(tmp_path: Path, trend: Reports) -> None:
    files.append(tmp_path, past.rows([100.0]))
    status, text, _ = trend("--output", str(tmp_path / "out"))
    assert status == 0
    assert "1 run of 1 commit" in text


def test_records_and_histories_of_other_machines_are_added_once(tmp_path: Path, trend: Reports) -> None:
    shard = tmp_path / "shard"
    samples.store(shard, measured())
    files.append(shard / "history", past.rows([100.0, 101.0]))
    for expected in ("added 8 ", "added 0 "):
        status, text, errors = trend("--add", str(shard))
        assert status == 0
        assert expected in errors
        assert "a40-resnet50" in text


def test_a_damaged_line_of_a_history_that_is_added_is_told_of(tmp_path: Path, trend: Reports) -> None:
    files.append(tmp_path / "other", past.rows([100.0, 101.0]))
    (path,) = (tmp_path / "other").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-40])

    status, _, errors = trend("--add", str(tmp_path / "other"))

    assert status == 0
    assert f"{path}, line 2: left out" in errors
    assert "added 1 " in errors


def test_a_damaged_line_of_the_history_itself_is_told_of_too(tmp_path: Path, trend: Reports) -> None:
    files.append(tmp_path, past.rows([100.0, 101.0, 102.0]))
    (path,) = tmp_path.glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-40])

    status, text, errors = trend()

    assert (status, "2 runs of 2 commits" in text) == (0, True)
    assert f"{path}, line 3: left out" in errors


def test_records_that_do_not_say_their_run_are_told_of(tmp_path: Path, trend: Reports) -> None:
    files.append(tmp_path, past.rows([100.0]))
    samples.store(tmp_path / "old", samples.record())
    assert "6 measurements are of an earlier version" in trend("--add", str(tmp_path / "old"))[2]


def test_the_latest_runs_alone_are_looked_at_on_request(tmp_path: Path, trend: Reports) -> None:
    files.append(tmp_path, past.rows(SLOWER))
    assert "8 runs of 8 commits" in trend("--last", "8")[1]


def test_no_history_is_an_error_with_its_cure(tmp_path: Path, trend: Reports) -> None:
    status, _, errors = trend()
    assert status == 4
    assert "--add" in errors
    files.append(tmp_path, past.rows([1.0]))
    assert past.CASE in trend("-k", "nothing")[2]


def test_the_page_shows_the_trend_of_a_case_on_its_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, output = tmp_path / "results", tmp_path / "report.html"
    arguments = ["html", "--results", str(results), "--output", str(output)]
    samples.store(results, measured())
    assert main(arguments) == 0
    assert "From run to run" not in output.read_text()
    assert "<h3>History</h3>" not in output.read_text()
    for number in range(2):
        origin = structs.replace(ORIGIN, run=f"run-{number}", started=f"2026-03-0{number + 1}T00:00:00+00:00")
        samples.store(tmp_path / "other", measured(origin))
        assert main(["trend", "--history", str(results / "history"), "--add", str(tmp_path / "other")]) == 0
    assert main(arguments) == 0
    page = output.read_text()
    assert "<h3>History</h3>" in page
    (words,) = re.findall(r'alt="(From run to run, [^"]*)"', page)
    assert measured().case.model in words
    headings = re.findall(r"<h\d[^>]*>([^<]*)</h\d>", page)
    assert not any("From run to run" in one for one in headings), "the picture has this title"
    capsys.readouterr()


@pytest.mark.parametrize("place", ["taken", "taken/below", "loop"])
def test_a_place_that_cannot_be_drawn_into_is_refused_before_anything_is_added(
    place: str, tmp_path: Path, trend: Reports
) -> None:
    files.append(tmp_path / "other", past.rows(SLOWER))
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
    files.append(tmp_path / "other", past.rows(SLOWER))
    monkeypatch.setattr(writing.os, "access", lambda *_: False)
    assert trend("--add", tmp_path / "other", "--output", tmp_path / "new").status == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other"]


@pytest.mark.parametrize("place", ["nowhere", "empty"])
def test_a_page_is_not_written_without_the_history_that_was_named(
    place: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    samples.store(tmp_path / "results", samples.record(loads=()))
    (tmp_path / "empty").mkdir()
    page = tmp_path / "page.html"
    said = refused("html", "--results", tmp_path / "results", "--history", tmp_path / place, "--output", page)
    assert said.startswith(f"error: {tmp_path / place}: no history (TARGET.jsonl). Give the folder of one")
    assert not page.exists()
