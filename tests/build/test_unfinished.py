"""Builds that a killed run left half made go; one that is made right now stays."""

from pathlib import Path

import pytest

from fixtures.build import unfinished
from fixtures.spec import ConversionJob
from tests.build.conversions import build, case_with


@pytest.fixture
def half_made(tmp_path: Path) -> Path:
    """A build that a killed run was making."""
    folder = tmp_path / "cpu" / ".unfinished-cpu-a-0"
    (folder / "cpu-a" / "1").mkdir(parents=True)
    return folder


def test_what_nobody_builds_any_more_goes(half_made: Path, tmp_path: Path) -> None:
    export = tmp_path / ".against" / ".unfinished-0"
    export.mkdir(parents=True)

    assert unfinished.remove(tmp_path) == [export, half_made]
    assert not half_made.exists()
    assert not export.exists()


def test_what_is_built_right_now_stays(tmp_path: Path) -> None:
    seen: list[list[Path]] = []

    def convert(_job: ConversionJob, path: Path) -> None:
        seen.append(unfinished.remove(tmp_path))
        path.write_text("converted")

    assert build(case_with(convert), tmp_path).artifact.read_text() == "converted"
    assert seen == [[]]


def test_a_finished_build_and_a_link_stay(half_made: Path, tmp_path: Path) -> None:
    (half_made / "cpu-a").rename(half_made.with_name("cpu-a"))
    half_made.rmdir()
    half_made.symlink_to("cpu-a")

    assert unfinished.remove(tmp_path) == []
    assert (tmp_path / "cpu" / "cpu-a" / "1").is_dir()
