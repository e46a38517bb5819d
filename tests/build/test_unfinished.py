"""Builds that a killed run left half made go; one that is made right now stays."""

from pathlib import Path

import pytest

from fixtures.build import unfinished
from fixtures.host import locks, scratch


@pytest.fixture
def half_made(tmp_path: Path) -> Path:
    """A build that a killed run was making."""
    folder = tmp_path / "cpu" / ".cpu-a.unfinished"
    (folder / "1").mkdir(parents=True)
    folder.with_name(".cpu-a.lock").touch()
    return folder


def test_what_nobody_builds_any_more_goes(half_made: Path, tmp_path: Path) -> None:
    export = tmp_path / ".against" / ".unfinished-0"
    export.mkdir(parents=True)

    assert unfinished.found(tmp_path) == [half_made, export]
    assert unfinished.remove(tmp_path) == [half_made, export]
    assert not half_made.exists()
    assert not export.exists()


def test_what_is_built_right_now_stays(half_made: Path, tmp_path: Path) -> None:
    (tmp_path / ".against").mkdir()
    with (
        locks.hold_file(half_made.with_name(".cpu-a.lock")),
        scratch.locked_folder(tmp_path / ".against", ".unfinished-") as export,
    ):
        assert unfinished.remove(tmp_path) == []
        assert half_made.is_dir()
        assert export.is_dir()


def test_a_finished_build_and_a_link_stay(half_made: Path, tmp_path: Path) -> None:
    half_made.rename(half_made.with_name("cpu-a"))
    half_made.symlink_to("cpu-a")

    assert unfinished.remove(tmp_path) == []
    assert (tmp_path / "cpu" / "cpu-a" / "1").is_dir()
