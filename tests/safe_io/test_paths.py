"""Invalid paths are refused by the option's name before they are used."""

import os
from pathlib import Path

import pytest

from fixtures.errors import InputError
from fixtures.safe_io.paths import existing, folder_of, path_of
from tests.helpers import closed


@pytest.mark.parametrize(
    "text", ["", "  ", "-", "~no-such-user-here/x", "a\nb", "\x1b[31mred", "bytes-\udcff"]
)
def test_invalid_path_is_refused_without_control_characters(text: str) -> None:
    with pytest.raises(InputError) as raised:
        path_of("--results", text)
    assert raised.value.where.startswith("--results")
    assert all(character.isprintable() or character == "\n" for character in str(raised.value))


@pytest.mark.parametrize("name", ["gone", "link", "link/x", "self", "fifo", "a" * 300, "a/" * 3000])
def test_nonexistent_or_irregular_path_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nothing")
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InputError) as raised:
        existing("--dataset", f"{tmp_path}/{name}")
    assert raised.value.where.startswith(f"--dataset {tmp_path}")
    assert len(raised.value.what) < 200


@pytest.mark.parametrize(("mode", "name"), [(0, ""), (0, "/there"), (0, "/new"), (0o444, ""), (0o111, "")])
def test_inaccessible_folder_is_refused(mode: int, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "of-another"
    (folder / "there").mkdir(parents=True)
    where = f"--results {folder}{name}"
    with closed(folder, mode), pytest.raises(InputError, check=lambda error: error.where == where):
        folder_of("--results", f"{folder}{name}")


def test_looping_link_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to("self")
    with pytest.raises(InputError, check=lambda error: "self" in error.where):
        folder_of("--answers", str(tmp_path / "self" / "x"))
