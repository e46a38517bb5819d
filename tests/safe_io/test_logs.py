"""The last lines of another program's output are shown, whatever its size."""

import os
import tracemalloc
from pathlib import Path

import pytest

from fixtures.safe_io.logs import end_of, last_lines


def test_last_lines_of_huge_log_are_read(tmp_path: Path) -> None:
    """Empty lines do not count."""
    with (tmp_path / "log").open("wb") as file:
        file.truncate(1 << 36)
        file.seek(0, os.SEEK_END)
        file.write(
            b"\n" * 100_000 + b"cut off, and so left out" * 10_000 + b"\nfirst\n\nthe \x1b[31mreason\xff\n\n"
        )
    tracemalloc.start()
    try:
        first, reason = last_lines(tmp_path / "log", 5)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert first == "first"
    assert "reason" in reason
    assert "\x1b" not in end_of(tmp_path / "log")


def test_endless_line_is_shown_by_its_end(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 1_000_000 + b"the reason")

    (line,) = last_lines(tmp_path / "log", 5)
    assert line.endswith("the reason")
    assert len(line) < 100_000


@pytest.mark.parametrize("put", [lambda _path: None, os.mkfifo, lambda path: path.symlink_to("/etc/passwd")])
def test_non_log_has_no_lines(put: object, tmp_path: Path) -> None:
    put(tmp_path / "log")  # type: ignore[operator]

    assert last_lines(tmp_path / "log", 3) == []
