"""A build in use does not change with the folder that it comes from."""

import dataclasses
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.build.in_use import FOLDER, in_use, remove_unfinished
from fixtures.errors import ProofError
from fixtures.spec import ConversionJob
from tests.build.conversions import WEIGHTS, build, case_with, writing

ROOT = Path(__file__).parents[2]
OTHER_WEIGHTS = dataclasses.replace(WEIGHTS, digest="w2")


@pytest.mark.parametrize("megabytes", [0, 3])
def test_rebuild_does_not_change_a_build_in_use(tmp_path: Path, megabytes: int) -> None:
    before, after = "before" + "." * (megabytes << 20), "after" + "." * (megabytes << 20)
    first = build(case_with(writing(before)), tmp_path)
    with in_use(first) as taken:
        second = build(case_with(writing(after)), tmp_path, OTHER_WEIGHTS)
        assert second.digest != taken.digest == first.digest
        assert second.artifact.read_text() == after
        assert taken.artifact.read_text() == before
        assert (taken.folder / "config.pbtxt").is_file()
        assert [path.name for path in taken.folder.parent.iterdir()] == [str(first.case)], "and no other case"


def test_code_edit_does_not_change_a_build_in_use(tmp_path: Path) -> None:
    built = build(case_with(writing("converted")), tmp_path)
    code = (built.folder / "1" / "runtime.py").read_text()
    with in_use(built) as taken:
        with (built.folder / "1" / "runtime.py").open("a") as file:
            file.write("import time; time.sleep(0.05)\n")
        assert (taken.folder / "1" / "runtime.py").read_text() == code


def test_build_replaced_before_use_is_refused(tmp_path: Path) -> None:
    first = build(case_with(writing("before")), tmp_path)
    build(case_with(writing("after")), tmp_path, OTHER_WEIGHTS)
    with pytest.raises(ProofError, check=lambda error: error.where == str(first.folder)), in_use(first):
        pass
    assert left_in(tmp_path) == []


def left_in(root: Path) -> list[str]:
    """The leftovers of builds in use."""
    return sorted(path.name for path in (root / "cpu" / FOLDER).iterdir() if path.name != ".lock")


KILLED = """
import os, sys
from pathlib import Path
from fixtures.build.in_use import in_use
from tests.build.conversions import build, case_with, writing
with in_use(build(case_with(writing("converted")), Path(sys.argv[1]))):
    os._exit(9)
"""


def test_leftovers_of_killed_run_are_removed(tmp_path: Path) -> None:
    built = build(case_with(writing("converted")), tmp_path)
    with in_use(built):
        pass
    assert left_in(tmp_path) == []
    result = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False, timeout=120)
    assert result.returncode == 9
    killed = left_in(tmp_path)
    assert killed
    with in_use(built) as first, in_use(built) as second:
        assert not set(killed) & set(left_in(tmp_path))
        assert first.artifact.is_file(), "it lives, and is left alone by the other"
        assert second.folder != first.folder
        assert remove_unfinished(tmp_path) == []
    assert left_in(tmp_path) == []


def test_stale_unfinished_builds_are_removed_and_active_ones_kept(tmp_path: Path) -> None:
    half_made, export = tmp_path / "cpu" / ".unfinished-cpu-a-0", tmp_path / ".against" / ".unfinished-0"
    (half_made / "cpu-a" / "1").mkdir(parents=True)
    export.mkdir(parents=True)
    (tmp_path / "cpu" / "cpu-b").mkdir()
    (tmp_path / "cpu" / ".unfinished-link").symlink_to("cpu-b")
    assert remove_unfinished(tmp_path) == [export, half_made]
    assert (tmp_path / "cpu" / "cpu-b").is_dir()
    seen: list[list[Path]] = []

    def convert(_job: ConversionJob, path: Path) -> None:
        seen.append(remove_unfinished(tmp_path))
        path.write_text("converted")

    assert build(case_with(convert), tmp_path).artifact.read_text() == "converted"
    assert seen == [[]]


def test_build_in_use_keeps_repository_permissions(tmp_path: Path) -> None:
    built = build(case_with(writing("converted")), tmp_path)
    for mode in (0o755, 0o700):
        built.folder.parent.chmod(mode)
        with in_use(built) as taken:
            assert stat.S_IMODE(taken.folder.parent.stat().st_mode) == mode
