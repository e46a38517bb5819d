"""Only regular files are opened, and no folder is skipped unseen; writes are all or nothing."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import closed
from tritonproof.base import disk
from tritonproof.base.disk import strict_glob, strict_walk


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """A symbolic link to another file."""
    (tmp_path / "elsewhere").write_bytes(b"before")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    return tmp_path / "link"


def test_given_link_is_followed_and_other_link_is_refused(link: Path) -> None:
    with pytest.raises(OSError, check=lambda error: error.filename == str(link)):
        disk.write_atomically(link, b"after")
    assert link.read_bytes() == b"before"
    disk.write_user_file(link, b"after")
    assert link.is_symlink()
    assert (link.parent / "elsewhere").read_bytes() == b"after"
    assert disk.content(link.resolve()) == b"after"


def test_open_file_in_dev_receives_content_and_stays(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb", buffering=0) as out:
        out.write(b"before ")
        disk.write_user_file(Path(f"/dev/fd/{out.fileno()}"), b"page")
        assert os.path.samestat(os.fstat(out.fileno()), (tmp_path / "out").stat())
    assert (tmp_path / "out").read_bytes() == b"before page"


def test_pipe_receives_content_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as reader:
        disk.write_user_file(pipe, b"page")
        assert reader.read() == b"page"
    assert pipe.is_fifo()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("write", [disk.write_atomically, disk.write_user_file])
def test_root_keeps_owner_of_a_file(write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.touch(0o640)
    os.chown(path, 12345, 12346)
    write(path, b"after")
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (12345, 12346, 0o640)


def test_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page"
    path.write_bytes(b"before")
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    with pytest.raises(PermissionError):
        disk.write_user_file(path, b"after")
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("write", [disk.write_atomically, disk.write_user_file])
@pytest.mark.parametrize("name", ["file/page", "x" * 300, "folder"])
def test_unwritable_path_is_named_as_given(
    name: str, write: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError) as raised:  # noqa: PT011
        write(tmp_path / name, b"page")
    assert str(raised.value.filename) in (str(tmp_path / name), str((tmp_path / name).parent))


def test_concurrent_writers_leave_one_whole_file(tmp_path: Path) -> None:
    contents = [bytes([65 + number]) * 100_000 for number in range(4)]
    path = tmp_path / ("c" * 250 + ".json")  # the longest name that the file system allows
    writers = [threading.Thread(target=disk.write_atomically, args=(path, content)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", ["pipe", "large", "gone"])
def test_only_regular_files_of_limited_size_are_read(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"before")
    with pytest.raises(OSError, check=lambda error: error.filename == str(tmp_path / path)):
        disk.content(tmp_path / path, largest_bytes=5)


@pytest.mark.parametrize("name", ["link", "inside/file", "inside/../elsewhere", "pipe"])
def test_links_inside_a_folder_are_not_followed(name: str, link: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "file").write_bytes(b"secret")
    (tmp_path / "inside").symlink_to("beside")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, check=lambda error: error.filename == str(tmp_path / name)):
        disk.content(tmp_path / name, tmp_path)
    assert disk.content(tmp_path / "inside" / "file") == b"secret"  # in the folder that the link leads to


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder of folders of files, one of them behind a link."""
    for name in ("a/one.json", "a/two.txt", "b/three.json", "b/deep/four.json", ".hidden/five.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a", target_is_directory=True)
    return tmp_path


def test_folder_search_matches_pathlib(tree: Path) -> None:
    assert strict_glob(tree, "*/*.json") == sorted(tree.glob("*/*.json"))
    assert sorted(strict_walk(tree)) == sorted(tree.rglob("*"))
    (tree / "a" / "circle").symlink_to(tree)
    (tree / "behind").symlink_to(tree / ".hidden")
    followed = list(strict_walk(tree, lambda inside: not inside.name.startswith("."), follow_links=True))
    assert {*tree.rglob("*"), tree / "behind" / "five.json"} - {*followed} == {tree / ".hidden" / "five.json"}
    assert len(followed) == len({*followed}) == len([*tree.rglob("*")])
    assert strict_glob(tree / "none", "*") == list(strict_walk(tree / "a" / "one.json")) == []


@pytest.mark.parametrize("find", [lambda tree: strict_glob(tree, "*/*"), lambda tree: [*strict_walk(tree)]])
def test_unlistable_folder_is_named(find: Callable[[Path], object], tree: Path) -> None:
    with closed(tree / "b"), pytest.raises(PermissionError, match=str(tree / "b")):
        find(tree)


def test_lost_and_found_folder_is_skipped(tree: Path) -> None:
    (tree / "lost+found").mkdir()
    with closed(tree / "lost+found"):
        assert len(strict_glob(tree, "*/*.json")) == 4
        assert tree / "lost+found" not in strict_walk(tree)


@pytest.mark.parametrize("shut", ["b/deep/four.json", "b"])
def test_unreadable_record_is_named(shut: str, tree: Path) -> None:
    path = tree / "b" / "deep" / "four.json"
    with closed(tree / shut), pytest.raises(PermissionError) as raised:
        disk.content(path, tree / "b")
    assert raised.value.filename == str(path)
