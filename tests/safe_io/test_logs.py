"""Of what another program has written, its last words are shown: all else may be as much as there is room for."""

import os
import tracemalloc
from pathlib import Path

import pytest

from fixtures.safe_io.logs import end_of, last_lines


def test_the_last_lines_are_those_that_say_something(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("first\nsecond\n\nthird\n\n")

    assert last_lines(tmp_path / "log", 2) == ["second", "third"]


def test_of_a_log_as_large_as_the_disk_the_end_is_read(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.truncate(1 << 36)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" * 100_000 + b"cut off, and so left out" * 10_000 + b"\nthe reason\n")
    tracemalloc.start()
    try:
        assert last_lines(tmp_path / "log", 5) == ["the reason"]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_one_line_without_an_end_is_shown_by_its_end(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 1_000_000 + b"the reason")

    (line,) = last_lines(tmp_path / "log", 5)
    assert line.endswith("the reason")
    assert len(line) < 100_000


def test_what_a_terminal_would_obey_is_written_out(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\xff\x1b[31mred\x07\n")

    assert "\x1b" not in end_of(tmp_path / "log")
    assert "red" in end_of(tmp_path / "log")


@pytest.mark.parametrize("what", ["nothing", "a pipe", "a link"])
def test_what_is_no_log_says_nothing(what: str, tmp_path: Path) -> None:
    if what == "a pipe":
        os.mkfifo(tmp_path / "log")
    elif what == "a link":
        (tmp_path / "log").symlink_to("/etc/passwd")

    assert last_lines(tmp_path / "log", 3) == []
