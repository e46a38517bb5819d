"""The history on disk: every measurement once, nothing lost and nothing half written, whoever adds at the same time."""

import fcntl
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from msgspec import structs

from reports.record.schema import Origin, Record
from reports.text.publishable import publishable
from reports.trend import files, rows
from tests import samples
from tests.trend import past

ORIGIN = Origin("run-1", "node-7", ("GPU-1",), "a" * 40, True, "2026-03-04T05:06:07+00:00")


def measured(origin: Origin = ORIGIN, **changes: object) -> Record:
    """A record whose measurements say where they come from."""
    one = samples.record(**changes)
    loads = tuple(structs.replace(load, origin=origin) for load in one.loads)
    ledger = structs.replace(one.accuracy, origin=origin) if one.accuracy else None
    return structs.replace(one, loads=loads, accuracy=ledger)


def added(folder: Path, *records: Record) -> int:
    return files.append(folder, [row for one in records for row in rows.rows_of(publishable(one))])


def test_each_point_and_metric_of_a_record_is_a_row_with_its_run_and_commit(tmp_path: Path) -> None:
    one = measured()
    assert added(tmp_path, one) == 6
    found = files.read(tmp_path).rows
    assert {row.at for row in found} == {
        "offline b008-c001",
        "offline b001-c001",
        "offline b002-c001",
        "online b001-c032",
        "online b001-c016",
        "top-1",
    }
    assert {(row.run, row.host, row.commit, row.case) for row in found} == {
        ("run-1", "node-7", "a" * 40, "a40-resnet50-onnx-trt-fp16")
    }
    (first,) = [row for row in found if row.at == "offline b008-c001"]
    throughput = one.loads[0].throughput_per_s
    assert first.figures["throughput_per_s"] == (throughput.value, throughput.low, throughput.high)
    assert {"latency_p50_ms", "latency_p99_ms"} < set(first.figures)


def test_what_is_added_again_is_there_once(tmp_path: Path) -> None:
    added(tmp_path, measured())
    before = (tmp_path / "a40.jsonl").read_bytes()
    assert added(tmp_path, measured()) == 0
    assert (tmp_path / "a40.jsonl").read_bytes() == before
    assert added(tmp_path, measured(structs.replace(ORIGIN, run="run-2"))) == 6


def test_a_history_that_lies_in_two_files_is_read_once(tmp_path: Path) -> None:
    files.append(tmp_path, past.rows([1.0, 2.0]))
    (tmp_path / "copy.jsonl").write_bytes((tmp_path / "cpu.jsonl").read_bytes())
    assert [row.run for row in files.read(tmp_path).rows] == ["run-0", "run-1"]


def test_twins_of_one_run_are_kept_apart(tmp_path: Path) -> None:
    added(tmp_path, measured())
    assert added(tmp_path, measured(structs.replace(ORIGIN, host="node-8"))) == 6


def test_a_wrong_case_has_its_score_in_the_history_and_no_speed(tmp_path: Path) -> None:
    added(tmp_path, measured(accuracy=samples.failed_accuracy()))
    (row,) = files.read(tmp_path).rows
    assert (row.kind, row.passed) == ("accuracy", False)


def test_a_line_that_a_kill_cut_off_is_told_of_and_loses_no_other(tmp_path: Path) -> None:
    files.append(tmp_path, past.rows([1.0, 2.0]))
    path = tmp_path / "cpu.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    found = files.read(tmp_path)
    assert [row.run for row in found.rows] == ["run-0"]
    assert len(found.damaged) == 1
    assert f"{path}, line 2: left out: no whole row" in found.damaged[0]

    assert files.append(tmp_path, past.rows([1.0, 2.0, 3.0])) == 2
    assert sorted(row.run for row in files.read(tmp_path).rows) == ["run-0", "run-1", "run-2"]


def test_damaged_lines_of_a_long_history_are_named_by_their_numbers(tmp_path: Path) -> None:
    files.append(tmp_path, past.rows([1.0] * 1000) + past.rows([1.0] * 1000, host="ci-2"))
    path = tmp_path / "cpu.jsonl"
    lines = path.read_bytes().splitlines()
    for number in (3, 1500, 2000):
        lines[number - 1] = lines[number - 1][:90]
    path.write_bytes(b"\n".join(lines))
    found = files.read(tmp_path)
    assert len(found.rows) == 1997
    assert [one.split(":")[0] for one in found.damaged] == [f"{path}, line {n}" for n in (3, 1500, 2000)]


def test_a_file_that_is_no_history_does_not_flood_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "cpu.jsonl"
    path.write_bytes(b"{\n" * 5000 + rows.encode(past.row(2)))
    found = files.read(tmp_path)
    assert [row.run for row in found.rows] == ["run-2"]
    assert f"{path}, line 1: left out" in found.damaged[0]
    assert len(found.damaged) < 100
    assert "more lines, the last of them 5000: left out" in found.damaged[-1]


@pytest.mark.parametrize(
    "changes",
    [
        {"case": "../../etc"},
        {"machine": "x/../../../elsewhere"},
        {"machine": "\x1b[2J"},
        {"commit": "<script>"},
        {"kind": "guess"},
        {"figures": {"throughput_per_s": [1, 2]}},
        {"figures": {"throughput_per_s": [float("inf"), 1, 1]}},
        {"figures": {"throughput_per_s": [10**400, 1, 1]}},
        {"color": "red"},
        {"started": 7},
    ],
)
def test_a_line_of_strange_content_is_left_out(tmp_path: Path, changes: dict) -> None:
    strange = json.dumps(structs.asdict(past.row(1)) | changes) + "\n"
    (tmp_path / "cpu.jsonl").write_bytes(strange.encode() + rows.encode(past.row(2)))
    found = files.read(tmp_path)
    assert [row.run for row in found.rows] == ["run-2"]
    assert len(found.damaged) == 1
    assert "line 1: left out: no whole row" in found.damaged[0]


def test_processes_that_add_at_once_write_whole_lines_and_each_row_once(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from reports.trend import files; from tests.trend import past\n"
        "own = past.rows([1.0] * 20, host=sys.argv[2]); common = past.rows([1.0] * 20)\n"
        "for one, other in zip(own, common): files.append(Path(sys.argv[1]), [one, other])\n"
    )
    root = Path(__file__).parents[2]
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), f"node-{number}"], cwd=root)
        for number in range(3)
    ]
    assert [one.wait(timeout=120) for one in started] == [0, 0, 0]
    lines = (tmp_path / "cpu.jsonl").read_bytes().splitlines()
    assert len({rows.key(row) for row in files.read(tmp_path).rows}) == len(lines) == 80


def test_who_adds_waits_for_another_that_does_and_sees_what_it_added(tmp_path: Path) -> None:
    added_by_thread: list[int] = []
    adding = threading.Thread(target=lambda: added_by_thread.append(files.append(tmp_path, past.rows([1.0]))))
    with (tmp_path / "cpu.jsonl").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        adding.start()
        adding.join(timeout=0.3)  # time to add without waiting, which would be wrong
        other.write(rows.encode(past.row(0, 1.0)))
    adding.join(timeout=60)
    assert added_by_thread == [0]


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.append(tmp_path, past.rows([1.0]))
    before = (tmp_path / "cpu.jsonl").read_bytes()
    write = files.os.write
    monkeypatch.setattr(files.os, "write", lambda descriptor, content: write(descriptor, content[:50]))
    with pytest.raises(OSError, match="No space left"):
        files.append(tmp_path, past.rows([1.0, 2.0]))
    monkeypatch.undo()
    assert (tmp_path / "cpu.jsonl").read_bytes() == before


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    (tmp_path / "cpu.jsonl").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="it is a symbolic link"):
        files.append(tmp_path, past.rows([1.0]))
    assert (tmp_path / "other").read_text() == ""


def test_the_history_of_scratch_records_is_not_that_of_the_checkout(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    assert files.folder_of(root / "reports" / "results") == root / "reports" / "history"
    assert files.folder_of(tmp_path) == tmp_path / "history"
