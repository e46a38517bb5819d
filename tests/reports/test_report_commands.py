"""Report commands name every unreadable record, keep what they do not write, and end as a run does."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import sample_records
from tests.conftest import Reports
from tests.helpers import ROOT, project_file
from tests.reports.every_output import words_of
from tritonproof.base import disk
from tritonproof.base.commands import EXIT_INPUT
from tritonproof.record import record_files

WHOLE = sample_records.measured_at(sample_records.origin(), sample_records.record())
OTHER = sample_records.random_weights()


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two records, and another with the first of them for comparison."""
    monkeypatch.chdir(tmp_path)
    sample_records.store(tmp_path / "other", WHOLE)
    return sample_records.store(tmp_path / "results", WHOLE, OTHER)


@pytest.mark.parametrize("command", ["tables.md", "readme", "compare", "merge", "trend"])
def test_every_damaged_record_is_named(command: str, results: Path, refused: Callable[..., str]) -> None:
    damaged = [record_files.record_path(record.case, results) for record in (WHOLE, OTHER)]
    words = words_of(command, results, results.parent)
    if command in ("compare", "merge"):
        words[2 : 2 + (command == "compare")] = ["other"]
        damaged.append(record_files.record_path(WHOLE.case, Path("other")))
    for path in damaged:
        path.write_text("{")

    text = refused(*words)

    assert all(f"{path}: " in text for path in damaged)


def test_link_given_directly_is_read(results: Path, printed: Callable[..., str]) -> None:
    (results.parent / "link").symlink_to(results.parent / "other")
    printed("tables", "--results", results.parent / "link")
    printed("merge", results.parent / "link" / "a40", "--output", results.parent / "out")
    assert len(record_files.record_paths(results.parent / "out")) == 1
    (results.parent / "record.json").symlink_to(record_files.record_path(WHOLE.case, results))
    printed("compare", results.parent / "record.json", results)


def test_non_record_files_are_skipped(results: Path, printed: Callable[..., str]) -> None:
    (results / "after.json").write_text('{"machine_info": {}, "benchmarks": [{"case": 1}]}')
    disk.write_atomically(results / "a40" / "a40-of-before.search" / "samples.json", b"{}")
    disk.write_atomically(results / "a40" / "superseded" / "old.json", b"{}")
    assert WHOLE.name in printed("tables", "--results", results)
    assert "1 case" in printed("compare", results.parent / "other", results / "a40")


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("report tables --not-an-option", EXIT_INPUT, "--not-an-option"),
        ("doctor --not-an-option", EXIT_INPUT, "--not-an-option"),
        ("new mine --not-an-option", EXIT_INPUT, "--not-an-option"),
        ("train resnet50-micro --not-an-option", EXIT_INPUT, "--not-an-option"),
        ("--version", 0, project_file()["project"]["version"]),
        ("prove --help", 0, "--repository"),
    ],
)
def test_command_answers_or_refuses_an_unknown_option(command: str, status: int, said: str) -> None:
    words = [sys.executable, "-m", "tritonproof", *command.split()]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == status
    assert said in (result.stderr if status else result.stdout)
    assert ("error:" in result.stderr, "Traceback" in result.stderr) == (bool(status), False)


@pytest.fixture
def one_record(tmp_path: Path) -> Path:
    return sample_records.store(tmp_path / "results", sample_records.record(points=()))


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo])
@pytest.mark.parametrize("command", ["merge {} --output", "trend --add {} --history"])
def test_non_folder_output_is_refused_and_kept(
    command: str, make: Any, tmp_path: Path, one_record: Path, refused: Callable[..., str]
) -> None:
    path = tmp_path / "there"
    make(path)
    before = path.lstat().st_ino
    assert str(path) in refused(*command.format(one_record).split(), path)
    assert path.lstat().st_ino == before


def test_cases_with_nothing_to_show_are_named(tmp_path: Path, reports: Reports) -> None:
    failed = sample_records.record(points=(), accuracy=None)
    options = ("--results", sample_records.store(tmp_path, failed, sample_records.random_weights(points=())))
    assert reports("csv", *options).out.startswith("case,target,")
    text = reports("plots", "--output", tmp_path / "plots", *options).out
    assert "\nall cases: nothing to show: No accuracy has been measured. No case has a throughput to" in text


def test_unwritable_page_is_named(one_record: Path, refused: Callable[..., str]) -> None:
    assert "/dev/full" in refused("html", "--results", one_record, "--output", "/dev/full")


def test_tilde_expands_to_home_folder(
    one_record: Path, reports: Reports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert reports("merge", one_record, "--output=~/out").status == 0
    assert record_files.record_paths(tmp_path / "home" / "out")
