"""One machine for all its users and all their temporary folders, and who has it is told to who waits."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import execnet
import pytest

from fixtures.build import in_use
from fixtures.errors import ProofError
from fixtures.host import lock_holders, locks
from fixtures.run import record_file
from reports.record import files
from tests import samples
from tests.host.conftest import HOLDER, is_free

ROOT = Path(__file__).parents[2]
NOBODY = 65534
"""The user's id that Linux systems have for whoever is nobody."""


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that every user may open; those of pytest are this user's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name, "machine")
        folder.mkdir()
        for path in (folder, folder.parent):
            path.chmod(0o755)
        yield folder


def test_runs_with_other_temporary_folders_are_on_the_same_machine(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from fixtures.host import locks; print(locks.machine())"],
        env={"TMPDIR": str(tmp_path), "PATH": os.environ["PATH"]},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == str(locks.machine())


def said_by_nobody(folder: Path) -> str:
    """What the run of another user is told when it wants to share the machine, or that it has it."""

    class ToldError(Exception):
        pass

    def waiting(holder: str) -> None:
        raise ToldError(holder)

    reading, writing = os.pipe()
    child = os.fork()  # another user may not be able to start this Python, which can lie in one's home
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with locks.hold_machine(folder=folder, exclusive=False, waiting=waiting):
                os.write(writing, b"has it")
        except BaseException as error:  # noqa: BLE001 - the test's own process goes on elsewhere
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_users_run_waits_for_this_one_and_learns_whose_it_is(everybodys: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(everybodys), "exclusive"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        said = said_by_nobody(everybodys)
        holder.communicate()

    assert said.startswith(f"process {holder.pid} of {lock_holders.name_of(0)}, ")
    assert "this run" not in said
    assert "running since " in said
    assert said_by_nobody(everybodys) == "has it"


def test_who_waits_is_told_again_and_again_who_has_the_machine(
    place: Path, other: Callable[[str], "subprocess.Popen[str]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LINE_EVERY_S", 0.01)
    holder = other("exclusive")
    told: list[str] = []
    thrice = threading.Event()

    def waiting(who: str) -> None:
        told.append(who)
        if len(told) == 3:
            thrice.set()

    def wait() -> None:
        with locks.hold_machine(folder=place, exclusive=True, waiting=waiting):
            pass

    thread = threading.Thread(target=wait)
    thread.start()
    assert thrice.wait(30)
    assert holder.stdin is not None
    holder.stdin.close()
    thread.join(30)

    assert {f"process {holder.pid} of" in who for who in told[:3]} == {True}
    assert is_free(place, exclusive=True)


def test_who_waits_for_a_build_is_told_who_builds(tmp_path: Path) -> None:
    told: list[str] = []

    def let_go(who: str) -> None:
        told.append(who)
        builder.stdin.close()  # type: ignore[union-attr]

    code = "import sys; from pathlib import Path; from fixtures.host import locks\n"
    code += "with locks.hold_file(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as builder:
        assert builder.stdout is not None
        assert builder.stdout.readline() == "held\n"
        with locks.hold_file(tmp_path / "lock", waiting=let_go):
            pass

    assert len(told) == 1
    assert f"process {builder.pid} of" in told[0]


def test_who_only_waits_for_a_lock_does_not_hold_it(tmp_path: Path) -> None:
    status = tmp_path.stat()
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    table = f"1: FLOCK  ADVISORY  WRITE 71 {place} 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 72 {place} 0 EOF\n"
    table += f"2: POSIX  ADVISORY  READ 73 {place} 0 EOF\n3: FLOCK  ADVISORY  WRITE 74 ff:ff:{status.st_ino} 0 EOF\n"

    assert [one.pid for one in lock_holders.holders(status, table)] == [71]


def test_what_a_holder_was_started_with_cannot_change_the_terminal() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()", "\x1b[31mred\nnext"], stdin=subprocess.PIPE
    ) as process:
        while "red" not in (text := str(lock_holders.holder(process.pid))):
            pass
        process.kill()

    assert text.isprintable()


def test_a_holder_that_was_stopped_is_told_with_what_lets_it_go_on() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        before = str(lock_holders.holder(process.pid))
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        text = str(lock_holders.holder(process.pid))
        process.kill()

    assert "stopped" not in before
    assert f"stopped: let it go on with kill -CONT {process.pid}" in text


@contextlib.contextmanager
def held_until_told(lock: Path) -> Iterator[Callable[[str], None]]:
    """Hold a file until the function that it gives is called, which notes what it is told."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(locks.hold_file(lock))

        def let_go(who: str) -> None:
            told.append(who)
            stack.close()

        told: list[str] = []
        yield let_go
        assert len(told) == 1, "nobody was told who is waited for"


def test_who_waits_for_a_record_that_another_run_writes_is_told(tmp_path: Path) -> None:
    fresh = samples.record()
    path = files.path_of(fresh.case, tmp_path)
    path.parent.mkdir(parents=True)
    lock = path.with_name(f".{path.name}.lock")

    with held_until_told(lock) as told:
        record_file.update(fresh, tmp_path, lambda stored: stored, waiting=told)
    with held_until_told(lock) as told:
        record_file.keep_stage_seconds(path, "online", 12.5, waiting=told)

    assert files.read(path).stage_seconds["online"] == 12.5


def test_who_waits_for_a_build_to_take_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "cpu-a").mkdir()

    with held_until_told(tmp_path / ".cpu-a.lock") as told, in_use.take(tmp_path / "cpu-a", report=told):
        pass


@pytest.mark.parametrize("what", ["link", "pipe", "folder", "socket"])
def test_something_else_in_the_place_of_a_lock_is_refused_in_a_sentence_and_left_alone(
    tmp_path: Path, what: str
) -> None:
    lock = tmp_path / "lock"
    match what:
        case "link":
            lock.symlink_to(tmp_path / "somewhere")
        case "pipe":
            os.mkfifo(lock)
        case "folder":
            lock.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(lock))
    before = lock.lstat()

    with pytest.raises(ProofError, match=r"where: .*lock"), locks.hold_file(lock):
        pass

    assert lock.lstat().st_mode == before.st_mode
    assert not (tmp_path / "somewhere").exists()


def test_a_worker_of_a_run_is_told_by_the_run() -> None:
    """What execnet starts workers with is the same for all, and says nothing of what is waited for."""
    gateway = execnet.makegateway()
    try:
        pid = gateway.remote_exec("import os; channel.send(os.getpid())").receive()
        said = str(lock_holders.holder(pid))
    finally:
        gateway.exit()

    assert f"process {pid}" in said
    assert f"a worker of process {os.getpid()}" in said
    assert "exec(" not in said
