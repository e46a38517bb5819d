"""Where the commands of the reports write: whatever lies there, it stays what it is, and what is wrong is one sentence."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.__main__ import main
from reports.record import files
from tests import samples

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command with the record of a case; its status, and all that it says as an error."""
    record = samples.record(loads=())
    files.write(record, files.path_of(record.case, tmp_path / "results"))
    tmp_path.joinpath("page.md").write_text(
        "<!-- tritonproof:plot best-throughput -->\n<!-- /tritonproof:plot best-throughput -->\n"
    )

    def command(name: str, *words: object) -> tuple[int, str]:
        results = tmp_path / "results"
        first: dict[str, list[object]] = {
            "merge": [results],
            "readme": [tmp_path / "page.md", "--results", results],
        }
        given = [*first.get(name, ["--results", results]), *words]
        capfd.readouterr()
        try:
            status = main([name, *map(str, given)])
        except SystemExit as refused:
            status = int(str(refused.code))
        return status, capfd.readouterr().err

    return command


KINDS: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_text("theirs"),
    "a FIFO": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("command", "option"), [("merge", "--output"), ("trend", "--history")])
def test_what_is_no_folder_is_refused_and_stays(
    command: str, option: str, kind: str, tmp_path: Path, run: Run
) -> None:
    path = tmp_path / "there"
    KINDS[kind](path)
    before = path.lstat()

    status, said = run(command, option, path)

    assert path.lstat().st_ino == before.st_ino
    assert status == 4
    assert str(path) in said


@pytest.mark.parametrize("place", ["/dev/full", "page.md/below", "x" * 300])
def test_an_output_that_cannot_be_written_is_named(place: str, tmp_path: Path, run: Run) -> None:
    status, said = run("html", "--output", tmp_path / place)

    assert status == 4
    assert str(tmp_path / place)[:100] in said


def test_a_page_that_goes_to_standard_output_is_all_that_goes_there(
    run: Run, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = os.dup(1)
    page = os.open(tmp_path / "page.html", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(page, 1)
    try:
        status, said = run("html", "--output", "/dev/stdout")
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(page)

    assert status == 0
    assert "/dev/stdout" in said
    assert (tmp_path / "page.html").read_text().rstrip().endswith("</html>")


def test_a_tilde_in_a_path_is_the_users_own_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert run("merge", "--output=~/out")[0] == 0
    assert files.record_paths(tmp_path / "home" / "out")
    assert not (tmp_path / "~").exists()
