"""In a temporary folder that others may write to, what a run keeps there and in shared memory is this user's alone."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.errors import SetupError
from fixtures.host import private, scratch, segments
from tests.helpers import theirs


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, into which everybody may write."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    return tmp_path


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[Path]:
    """A file of this user's that another one would like to see emptied."""
    path = tmp_path / "secret"
    path.write_text("kept")
    yield path
    assert path.read_text() == "kept"


def a_link_to_a_folder(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    path.symlink_to(tmp_path / "elsewhere")


def a_link_to_nothing(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "nowhere")


def a_link_to_a_file(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "secret")


def a_file(path: Path, _tmp_path: Path) -> None:
    path.touch()


def a_fifo(path: Path, _tmp_path: Path) -> None:
    os.mkfifo(path)


def open_to_all(path: Path, _tmp_path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def open_to_the_group(path: Path, _tmp_path: Path) -> None:
    path.mkdir()
    path.chmod(0o770)


def another_users_folder(path: Path, _tmp_path: Path) -> None:
    path.mkdir(mode=0o700)
    theirs(path)


@pytest.mark.parametrize(
    "put",
    [
        a_link_to_a_folder,
        a_link_to_nothing,
        a_link_to_a_file,
        a_file,
        a_fifo,
        open_to_all,
        open_to_the_group,
        another_users_folder,
    ],
)
def test_a_folder_that_is_not_this_users_alone_is_refused_and_left_as_it_is(
    put: Callable[[Path, Path], None], secret: Path, tmp_path: Path
) -> None:
    put(private.user_folder(), tmp_path)
    before = private.user_folder().lstat()

    with pytest.raises(SetupError, match=r"what has to be of this user alone") as caught:
        scratch.scratch_folder("test").__enter__()
    said = str(caught.value)
    assert f"where: {private.user_folder()}\n" in said
    assert f"remove it (rm -r {private.user_folder()}), or set TMPDIR to a folder of your own" in said

    after = private.user_folder().lstat()
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)
    assert not list(tmp_path.rglob("tritonproof-test*"))


@pytest.mark.parametrize("below", ["", "mine", "mine/deeper"], ids=["itself", "above it", "far above it"])
def test_a_temporary_folder_in_which_anybody_renames_is_refused(
    below: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared / below).mkdir(mode=0o700, parents=True, exist_ok=True)
    monkeypatch.setattr("tempfile.tempdir", str(shared / below))
    private.folder_of_user()

    shared.chmod(0o777)

    with pytest.raises(SetupError, match="no sticky bit") as caught:
        private.folder_of_user()
    assert f"chmod +t {shared}" in str(caught.value)


def test_the_folder_is_looked_at_each_time(tmp_path: Path) -> None:
    private.folder_of_user("engines")
    private.user_folder().rename(tmp_path / "elsewhere")
    private.user_folder().symlink_to(tmp_path / "elsewhere")

    with pytest.raises(SetupError, match="symbolic link"):
        private.folder_of_user("engines")


def test_a_folder_by_another_users_id_is_told_from_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    private.folder_of_user()
    own, other_id = private.user_folder(), os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other_id)
    own.rename(private.user_folder())

    with pytest.raises(SetupError, match="belongs to another user"):
        private.folder_of_user()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nobody_else_sees_what_a_run_keeps_for_itself(umask: int) -> None:
    before = os.umask(umask)
    try:
        with scratch.scratch_folder("test") as folder:
            seen = [mode(private.user_folder()), mode(folder.parent), mode(folder)]
    finally:
        os.umask(before)

    assert seen == [0o700] * 3


def test_the_folder_of_an_earlier_version_is_closed_to_others_and_used() -> None:
    private.user_folder().mkdir()
    private.user_folder().chmod(0o755)

    private.folder_of_user("engines")

    assert mode(private.user_folder()) == 0o700


@pytest.mark.parametrize("letter", [" ", "'", '"', "ü", ":", "$"])
def test_a_temporary_folder_that_a_shell_would_take_for_something_else_is_not_used(
    letter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"a{letter}b").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / f"a{letter}b"))

    with scratch.scratch_folder("test") as folder:
        assert letter not in str(folder)


def test_nobody_elses_segments_are_touched(tmp_path: Path, secret: Path) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    own, other, strange = (memory / name for name in ("tritonproof-ab", "tritonproof-x", "tritonproof-abc"))
    own.touch()
    other.touch()
    for path in (own, other, secret):
        path.chmod(0o644)
    strange.symlink_to(secret)
    os.mkfifo(memory / "tritonproof-abd")

    segments.close_to_others("tritonproof-ab", memory)

    assert [mode(path) for path in (own, other, secret)] == [0o600, 0o644, 0o644]


def test_the_doctor_makes_no_folder() -> None:
    assert not private.user_folder().exists()
