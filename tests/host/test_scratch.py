"""Scratch folders and segments of shared memory are private, and later runs remove those of killed runs."""

import contextlib
import errno
import json
import os
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests import toy
from tests.helpers import give_to_another_user, present
from tests.host.conftest import Beside
from tritonproof.accuracy.stages import temporary_arrays
from tritonproof.base.errors import ProofError, SetupError
from tritonproof.client.input_data import input_data
from tritonproof.efficiency import worker
from tritonproof.host import scratch

HOLDING = """\
import sys
from tritonproof.host.scratch import scratch_folder
with scratch_folder("test") as folder:
    (folder / "file").write_text("content")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_only_folders_of_killed_runs_are_removed(beside: Beside, temporary: Path) -> None:
    def run() -> "tuple[subprocess.Popen[str], Path]":
        process = beside(HOLDING, TMPDIR=str(temporary))
        return process, Path(present(process.stdout).readline().strip())

    (killed, leftover), (ending, ended), (_, alive) = run(), run(), run()
    assert len({leftover, ended, alive}) == 3
    ending.communicate()
    assert not ended.exists()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    (alive.parent / "somebody-elses").mkdir()
    (temporary / "elsewhere").mkdir()
    (alive.parent / "tritonproof-link").symlink_to(temporary / "elsewhere")
    assert scratch.remove_orphaned_folders() == [leftover]
    assert not leftover.exists()
    assert (alive / "file").is_file()
    kept = {alive.name, "somebody-elses", "tritonproof-link"}
    assert {path.name for path in alive.parent.iterdir()} == kept


def test_folder_of_a_run_killed_before_its_lock_is_removed_once_it_is_old(tmp_path: Path) -> None:
    fresh, old = (tmp_path / f".new-tritonproof-{name}" for name in ("fresh", "old"))
    fresh.mkdir()
    old.mkdir()
    os.utime(old, (0, 0))
    assert scratch.remove_unlocked(tmp_path) == [old]
    assert list(tmp_path.iterdir()) == [fresh]


def link(path: Path) -> None:
    path.with_name("elsewhere").mkdir(mode=0o700)
    path.symlink_to(path.with_name("elsewhere"))


def open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def another_users(path: Path) -> None:
    path.mkdir(mode=0o700)
    give_to_another_user(path)


@pytest.mark.parametrize("below", ["", "runs"])
@pytest.mark.parametrize("put", [link, Path.touch, open_to_all, another_users])
def test_unsafe_folder_is_refused_and_unchanged(
    put: Callable[[Path], None], below: str, temporary: Path
) -> None:
    if below:
        scratch.private_folder()
    path = scratch.user_folder() / below
    put(path)
    before = path.lstat()
    uses = [scratch.scratch_folder("test").__enter__]
    for use in (*uses, scratch.remove_orphaned_folders) if below else uses:  # this makes no folder
        with pytest.raises(SetupError, check=lambda error: error.where == str(path)):
            use()
    after = path.lstat()
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)
    assert not list(temporary.rglob("tritonproof-test*"))


def test_scratch_folders_are_private_for_any_umask(temporary: Path) -> None:
    before = os.umask(0)
    scratch.user_folder().mkdir(mode=0o755)
    try:
        with scratch.scratch_folder("test") as folder:
            folders = (folder.parent.parent, folder.parent, folder)
            assert {stat.S_IMODE(path.lstat().st_mode) for path in folders} == {0o700}
    finally:
        os.umask(before)


@pytest.mark.parametrize("letter", [" ", "'", "ü", ":"])
def test_temporary_folder_with_special_characters_is_avoided(
    letter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"a{letter}b").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / f"a{letter}b"))
    with scratch.scratch_folder("test") as folder:
        assert letter not in str(folder)


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_truncated_input_data_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Path.write_text

    def cut(path: Path, text: str, *arguments: Any) -> int:
        original(path, text[:10], *arguments)
        raise FULL

    with input_data(model := toy.model(), toy.samples(), tmp_path) as data:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_text", cut)
            with pytest.raises(ProofError, check=lambda error: error.where == str(data.folder)) as raised:
                data.written_file(1, model)
        assert "TMPDIR" in raised.value.fix
        assert json.loads(data.written_file(1, model).read_text())["data"]


def test_full_disk_error_names_the_folder(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", Mock(side_effect=FULL))
    with pytest.raises(ProofError, check=lambda error: error.where == str(temporary)):
        temporary_arrays({"OUT": np.zeros((2, 3), np.float32)}, 8)
    (temporary / "0.npy").symlink_to("/dev/full")
    monkeypatch.setattr(worker, "scratch_folder", lambda _name: contextlib.nullcontext(temporary))
    with pytest.raises(ProofError, check=lambda error: error.where == str(temporary)):
        worker.worker_process("toy", {}, {}, [np.zeros(3)]).__enter__()


def test_only_own_segments_become_private(tmp_path: Path) -> None:
    names = ("triton-ab", "triton-x", "secret", "triton-abc")
    own, other, secret, strange = (tmp_path / name for name in names)
    for path in (own, other, secret):
        path.touch(0o644)
    strange.symlink_to(secret)
    os.mkfifo(tmp_path / "triton-abd")
    scratch.hide_segments("triton-ab", tmp_path)
    assert [path.stat().st_mode & 0o777 for path in (own, other, secret)] == [0o600, 0o644, 0o644]
