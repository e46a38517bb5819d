"""All report commands read records alike and name unreadable ones, keep what they do not write, and end with the
exit status of a run."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.record import disk, files
from reports.record.commands import INPUT, UNREADABLE
from reports.record.schema import case_id
from tests import examples
from tests.conftest import Reports

WHOLE = examples.measured_at(examples.origin(), examples.record())
OTHER = examples.random_weights()
PAGE = "report.html"
SHOWING: dict[str, Callable[[Path], list[object]]] = {
    "tables": lambda results: ["tables", "--results", results],
    "html": lambda results: ["html", "--results", results, "--output", PAGE],
    "csv": lambda results: ["csv", "--results", results],
    "export": lambda results: ["export", "--format", "bencher", "--results", results],
    "published": lambda results: ["published", "--format", "csv", "--results", results],
    "plots": lambda results: ["plots", "--results", results, "--output", results.parent / "plots"],
    "compare": lambda results: ["compare", results, results.parent / "other"],
    "trend": lambda results: ["trend", "--history", results.parent / "history", "--add", results],
}
"""Commands that show all readable records."""


def _readme(results: Path) -> list[object]:
    page = results.parent / "page.md"
    page.write_text("<!-- tritonproof:summary -->\n<!-- /tritonproof:summary -->\n")
    return ["readme", page, "--results", results]


WRITING: dict[str, Callable[[Path], list[object]]] = {
    "merge": lambda results: ["merge", results, "--output", results.parent / "out"],
    "readme": _readme,
}
"""Commands whose output replaces records, or pages made of them."""
READING = SHOWING | WRITING


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two records, and another with the first of them for comparison."""
    monkeypatch.chdir(tmp_path)
    examples.store(tmp_path / "other", WHOLE)
    return examples.store(tmp_path / "results", WHOLE, OTHER)


# --- damaged records ---------------------------------------------------------------------------------------


def _into_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "is empty": lambda path: path.write_bytes(b""),
    "is cut": lambda path: path.write_bytes(path.read_bytes()[:200]),
    "is a folder": _into_folder,
    "has a value that is none": lambda path: path.write_text(
        path.read_text().replace('"build_time_s": ', '"build_time_s": -')
    ),
}


@pytest.mark.parametrize(
    ("reader", "damage"), [*((name, "is cut") for name in SHOWING), *(("tables", name) for name in DAMAGE)]
)
def test_readable_records_are_shown_and_status_reports_damage(
    reader: str, damage: str, results: Path, reports: Reports
) -> None:
    damaged = files.path_of(OTHER.case, results)
    DAMAGE[damage](damaged)

    result = reports(*SHOWING[reader](results))

    assert result.status == UNREADABLE
    assert f"{damaged}: " in result.err
    assert case_id(WHOLE.case) in (Path(PAGE).read_text() if reader == "html" else result.out)


def test_page_leaves_out_case_with_damaged_samples(results: Path, reports: Reports) -> None:
    samples_file = files.path_of(WHOLE.case, results).with_suffix(files.SAMPLES_SUFFIX)
    samples_file.write_text("{")

    result = reports(*SHOWING["html"](results))

    assert result.status == UNREADABLE
    assert f"{samples_file}: " in result.err
    page = Path(PAGE).read_text()
    assert case_id(OTHER.case) in page
    assert case_id(WHOLE.case) not in page


def test_damaged_record_outside_selection_is_not_named(results: Path, reports: Reports) -> None:
    files.path_of(OTHER.case, results).write_text("{")

    result = reports("tables", "--results", results, "-k", case_id(WHOLE.case))

    assert (result.status, result.err) == (0, "")


@pytest.mark.parametrize("reader", [*WRITING, "tables"])
def test_merge_and_readme_refuse_damaged_records(
    reader: str, results: Path, refused: Callable[..., str]
) -> None:
    """So does a command that only reads, if every record is damaged."""
    for record in (OTHER,) if reader in WRITING else (WHOLE, OTHER):
        files.path_of(record.case, results).write_text("{")

    assert str(files.path_of(OTHER.case, results)) in refused(*READING[reader](results))


# --- folders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", READING)
@pytest.mark.parametrize("is_link", [True, False], ids=["a linked target", "a record beside the targets"])
def test_folder_with_unreadable_parts_is_refused(
    is_link: bool, reader: str, results: Path, refused: Callable[..., str]
) -> None:
    place = results / ("t4" if is_link else "x.json")
    if is_link:
        place.symlink_to(results.parent / "other" / "a40")
    else:
        files.write(examples.record(loads=()), place)

    assert refused(*READING[reader](results)).startswith(f"error: {place}: ")


def test_linked_folder_given_directly_is_read(results: Path, printed: Callable[..., str]) -> None:
    (results.parent / "link").symlink_to(results.parent / "other")
    printed("tables", "--results", results.parent / "link")
    printed("merge", results.parent / "link" / "a40", "--output", results.parent / "out")
    assert len(files.record_paths(results.parent / "out")) == 1


def test_non_record_files_are_skipped(results: Path, printed: Callable[..., str]) -> None:
    (results / "after.json").write_text('{"machine_info": {}, "benchmarks": [{"case": 1}]}')
    disk.replace(results / "a40" / "a40-of-before.search" / "samples.json", b"{}")
    disk.replace(results / "a40" / "superseded" / "old.json", b"{}")

    assert case_id(WHOLE.case) in printed("tables", "--results", results)
    assert "1 case" in printed("compare", results.parent / "other", results / "a40")


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "reports", "tables"),
        ("-m", "fixtures.doctor"),
        ("-m", "fixtures.new", "mine"),
        ("-m", "fixtures.train", "resnet50-micro"),
    ],
    ids=lambda command: command[-1],
)
def test_unknown_option_ends_every_command_with_status_4(command: tuple[str, ...]) -> None:
    result = subprocess.run(
        [sys.executable, *command, "--not-an-option"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == INPUT == 4
    assert "error:" in result.stderr
    assert "--not-an-option" in result.stderr
    assert "Traceback" not in result.stderr


KINDS: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_text("theirs"),
    "a FIFO": os.mkfifo,
}


@pytest.fixture
def one_record(tmp_path: Path) -> Path:
    """A folder of one record."""
    return examples.store(tmp_path / "results", examples.record(loads=()))


def words_of(command: str, results: Path) -> list[object]:
    return [command, results] if command == "merge" else [command, "--results", results]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("command", "option"), [("merge", "--output"), ("trend", "--history")])
def test_non_folder_output_is_refused_and_kept(
    command: str, option: str, kind: str, tmp_path: Path, one_record: Path, refused: Callable[..., str]
) -> None:
    path = tmp_path / "there"
    KINDS[kind](path)
    before = path.lstat().st_ino

    assert str(path) in refused(*words_of(command, one_record), option, path)
    assert path.lstat().st_ino == before


@pytest.mark.parametrize("place", ["/dev/full", "x" * 300])
def test_unwritable_output_is_named(
    place: str, tmp_path: Path, one_record: Path, refused: Callable[..., str]
) -> None:
    assert str(tmp_path / place)[:100] in refused(
        "html", "--results", one_record, "--output", tmp_path / place
    )


def test_page_on_stdout_is_alone_there(one_record: Path, reports: Reports, tmp_path: Path) -> None:
    saved = os.dup(1)
    page = os.open(tmp_path / "page.html", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(page, 1)
    try:
        result = reports("html", "--results", one_record, "--output", "/dev/stdout")
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(page)

    assert result.status == 0
    assert (tmp_path / "page.html").read_text().rstrip().endswith("</html>")


def test_tilde_expands_to_home_folder(
    one_record: Path, reports: Reports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert reports("merge", one_record, "--output=~/out").status == 0
    assert files.record_paths(tmp_path / "home" / "out")
