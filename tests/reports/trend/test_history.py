"""The history on disk has every measurement once and whole, even if processes add concurrently."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from fixtures.outcomes import add_to_history
from tests import sample_records
from tests.helpers import ROOT
from tests.reports.trend import past
from tritonproof.base.paths import history_folder
from tritonproof.record import Record
from tritonproof.reports import history
from tritonproof.reports.publishable import publishable


def added(folder: Path, *records: Record) -> int:
    return history.append(folder, [row for record in records for row in history.rows_of(publishable(record))])


def test_each_point_and_metric_is_a_row(tmp_path: Path) -> None:
    record = past.measured()
    assert added(tmp_path, record) == 6
    rows, _ = history.read(tmp_path)
    offline = ("offline b008-c001", "offline b001-c001", "offline b002-c001")
    assert {row.at for row in rows} == {*offline, "online b001-c032", "online b001-c016", "top-1"}
    of_run = past.ORIGIN.run, "node-7", past.ORIGIN.commit, "a40-resnet50-onnx-trt-fp16"
    assert {(row.run, row.host, row.commit, row.case) for row in rows} == {of_run}
    (first,) = [row for row in rows if row.at == "offline b001-c001"]
    throughput = record.points[0].throughput_per_s
    assert first.figures["throughput_per_s"] == (throughput.value, throughput.low, throughput.high)
    assert set(first.figures) == {"throughput_per_s", "latency_p99_ms"}
    origin = sample_records.origin("node-8", 1, "GPU-2")
    elsewhere = publishable(sample_records.measured_at(origin, sample_records.record()))
    assert {row.machine for row in history.rows_of(elsewhere)} == {first.machine}, "the same hardware"


def test_wrong_case_has_score_but_no_speed_in_history(tmp_path: Path) -> None:
    added(tmp_path, past.measured(accuracy=sample_records.failed_accuracy()))
    ((row,), _) = history.read(tmp_path)
    assert row.kind == "accuracy"


@pytest.mark.parametrize(
    "changes",
    [
        {"case": "../../etc"},
        {"commit": "<script>"},
        {"kind": "guess"},
        {"figures": {"throughput_per_s": [1, 2]}},
        {"figures": {"throughput_per_s": [10**400, 1, 1]}},
        {"figures": {"throughput_per_s": [1e308, 1, 1]}},
        {"color": "red"},
    ],
)
def test_invalid_line_is_left_out(tmp_path: Path, changes: dict) -> None:
    strange = json.dumps(msgspec.to_builtins(past.row(1)) | changes) + "\n"
    (tmp_path / "cpu.jsonl").write_bytes(strange.encode() + msgspec.json.encode(past.row(2)))
    rows, damaged = history.read(tmp_path)
    assert [row.run for row in rows] == ["run-2"]
    assert len(damaged) == 1
    assert "line 1: left out" in damaged[0]


def test_concurrent_processes_add_whole_unique_lines(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tritonproof.reports import history; from tests.reports.trend import past\n"
        "own = past.rows([1.0] * 20, host=sys.argv[2]); common = past.rows([1.0] * 20)\n"
        "for one, other in zip(own, common): history.append(Path(sys.argv[1]), [one, other])\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), f"node-{number}"], cwd=ROOT)
        for number in range(3)
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    lines = (tmp_path / "cpu.jsonl").read_bytes().splitlines()
    assert len(history.read(tmp_path)[0]) == len(lines) == 80


def test_run_adds_its_records_to_history_or_says_how(tmp_path: Path) -> None:
    records = [publishable(past.measured())]
    assert add_to_history(records, tmp_path, None) == ""
    assert len(history.read(tmp_path / "history")[0]) == 6
    (tmp_path / "file").write_text("a file is here")
    sentence = add_to_history(records, tmp_path / "results", tmp_path / "file")
    assert str(tmp_path / "file") in sentence
    assert f"--add {tmp_path / 'results'}" in sentence


def test_only_the_checkouts_own_records_have_its_history(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ROOT / "reports" / "results")
    own = dict.fromkeys((ROOT / "reports" / "results", link), ROOT / "reports" / "history")
    expected = own | {tmp_path: tmp_path / "history"}
    assert {results: history_folder(results) for results in expected} == expected
