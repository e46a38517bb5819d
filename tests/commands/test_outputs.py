"""The output paths of report commands: existing files are kept, and errors name the path."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.record import files
from tests import examples
from tests.conftest import Reports

KINDS: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_text("theirs"),
    "a FIFO": os.mkfifo,
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of one record."""
    return examples.store(tmp_path / "results", examples.record(loads=()))


def words_of(command: str, results: Path) -> list[object]:
    return [command, results] if command == "merge" else [command, "--results", results]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("command", "option"), [("merge", "--output"), ("trend", "--history")])
def test_non_folder_output_is_refused_and_kept(
    command: str, option: str, kind: str, tmp_path: Path, results: Path, refused: Callable[..., str]
) -> None:
    path = tmp_path / "there"
    KINDS[kind](path)
    before = path.lstat().st_ino

    assert str(path) in refused(*words_of(command, results), option, path)
    assert path.lstat().st_ino == before


@pytest.mark.parametrize("place", ["/dev/full", "x" * 300])
def test_unwritable_output_is_named(
    place: str, tmp_path: Path, results: Path, refused: Callable[..., str]
) -> None:
    assert str(tmp_path / place)[:100] in refused("html", "--results", results, "--output", tmp_path / place)


def test_page_on_stdout_is_alone_there(results: Path, reports: Reports, tmp_path: Path) -> None:
    saved = os.dup(1)
    page = os.open(tmp_path / "page.html", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(page, 1)
    try:
        result = reports("html", "--results", results, "--output", "/dev/stdout")
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(page)

    assert result.status == 0
    assert (tmp_path / "page.html").read_text().rstrip().endswith("</html>")


def test_tilde_expands_to_home_folder(
    results: Path, reports: Reports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert reports("merge", results, "--output=~/out").status == 0
    assert files.record_paths(tmp_path / "home" / "out")
