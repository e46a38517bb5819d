"""In a temporary folder that others may write to, locks and shared memory are this user's alone."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.doctor import leftovers
from fixtures.errors import SetupError
from fixtures.host import locks, private
from tests.conftest import theirs
from tests.host.conftest import is_free


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


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


def another_users_file(path: Path, _tmp_path: Path) -> None:
    path.touch(mode=0o666)
    theirs(path)


def a_folder(path: Path, _tmp_path: Path) -> None:
    path.mkdir()


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
def test_a_folder_of_locks_that_is_not_this_users_alone_is_refused_and_left_as_it_is(
    put: Callable[[Path, Path], None], name: str, secret: Path, tmp_path: Path
) -> None:
    put(locks.folder(), tmp_path)
    before = locks.folder().lstat()

    for exclusive in (True, False):
        with pytest.raises(SetupError, match=r"what has to be of this user alone") as caught:
            locks.hold_machine(name=name, exclusive=exclusive).__enter__()
    said = str(caught.value)
    assert f"where: {locks.folder()}\n" in said
    assert f"remove it (rm -r {locks.folder()}), or set TMPDIR to a folder of your own" in said

    after = locks.folder().lstat()
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)
    assert not list(tmp_path.rglob("*.lock"))
    assert leftovers.lock("", {}).state == "problem"


@pytest.mark.parametrize("put", [a_link_to_a_file, a_link_to_nothing, a_fifo, a_folder, another_users_file])
def test_a_lock_that_is_no_file_of_this_user_is_refused(
    put: Callable[[Path, Path], None], name: str, secret: Path, tmp_path: Path
) -> None:
    locks.folder().mkdir(mode=0o700)
    put(locks.folder() / f"{name}.lock", tmp_path)

    with pytest.raises(SetupError, match=rf"where: .*{name}\.lock"):
        locks.hold_machine(name=name, exclusive=True).__enter__()
    assert not (tmp_path / "nowhere").exists()


def test_the_folder_is_looked_at_each_time(name: str, tmp_path: Path) -> None:
    assert is_free(name, exclusive=True)
    locks.folder().rename(tmp_path / "elsewhere")
    locks.folder().symlink_to(tmp_path / "elsewhere")

    with pytest.raises(SetupError, match="symbolic link"):
        locks.hold_machine(name=name, exclusive=True).__enter__()


def test_a_folder_by_another_users_id_is_told_from_ones_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_free(name, exclusive=True)
    own, other_id = locks.folder(), os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other_id)
    own.rename(locks.folder())

    with pytest.raises(SetupError, match="belongs to another user"):
        locks.hold_machine(name=name, exclusive=True).__enter__()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nobody_else_sees_the_locks(umask: int, name: str) -> None:
    before = os.umask(umask)
    try:
        assert is_free(name, exclusive=True)
    finally:
        os.umask(before)

    assert mode(locks.folder()) == 0o700
    assert mode(locks.folder() / f"{name}.lock") == 0o600


def test_the_folder_of_an_earlier_version_is_closed_to_others_and_used(
    name: str, other: Callable[[str], object]
) -> None:
    locks.folder().mkdir()
    locks.folder().chmod(0o755)
    (locks.folder() / f"{name}.lock").touch(0o644)

    other("exclusive")

    assert mode(locks.folder()) == 0o700
    assert not is_free(name, exclusive=False)


def test_a_temporary_folder_that_everybody_may_write_to_will_do(name: str) -> None:
    Path(tempfile.gettempdir()).chmod(0o1777)

    assert is_free(name, exclusive=True)


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

    private.close_segments("tritonproof-ab", memory)

    assert [mode(path) for path in (own, other, secret)] == [0o600, 0o644, 0o644]


def test_the_doctor_makes_no_folder(name: str) -> None:
    assert leftovers.lock("", {}).state == "ok"
    assert not locks.folder().exists()
