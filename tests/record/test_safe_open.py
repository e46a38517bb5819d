"""A search finds every file in a folder, or names the folder that it cannot list."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reports.record import safe_open
from reports.record.safe_open import below, matching
from tests.helpers import closed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder of folders of files, one of them behind a link."""
    for name in ("a/one.json", "a/two.txt", "b/three.json", "b/deep/four.json", ".hidden/five.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a", target_is_directory=True)
    return tmp_path


def test_folder_search_matches_pathlib(tree: Path) -> None:
    assert matching(tree, "*/*.json") == sorted(tree.glob("*/*.json"))
    assert sorted(below(tree)) == sorted(tree.rglob("*"))
    assert matching(tree / "none", "*") == list(below(tree / "a" / "one.json")) == []


@pytest.mark.parametrize("mode", [0, 0o111])
@pytest.mark.parametrize("find", [lambda folder: matching(folder, "*/*"), lambda folder: list(below(folder))])
def test_unlistable_folder_is_named(mode: int, find: Callable[[Path], object], tree: Path) -> None:
    with closed(tree / "b", mode), pytest.raises(PermissionError, match=str(tree / "b")):
        find(tree)


def test_lost_and_found_folder_is_skipped(tree: Path) -> None:
    (tree / "lost+found").mkdir()
    with closed(tree / "lost+found"):
        assert len(matching(tree, "*/*.json")) == 4
        assert tree / "lost+found" not in below(tree)


@pytest.mark.parametrize("shut", ["b/deep/four.json", "b/deep", "b", ""])
def test_unreadable_record_is_named_with_fix(shut: str, tree: Path) -> None:
    path = tree / "b" / "deep" / "four.json"
    with closed(tree / shut), pytest.raises(PermissionError, match="Let this user read it") as raised:
        safe_open.content(path, tree / "b")
    assert raised.value.filename == str(path)
