"""What earlier runs left is found, with a command that removes it, and nothing of others is."""

import os
from pathlib import Path

from fixtures.doctor import leftovers
from fixtures.doctor.leftovers import Process
from fixtures.host import locks
from tests.doctor.findings import states

INIT = Process(1, 0, ("/sbin/init",))
GUARD = Process(10, 1, ("python", "-I", "-S", "/somewhere/fixtures/host/guard.py", "--caller", "9"))
GUARDED = Process(11, 10, ("/opt/tritonserver", "--id=tritonproof-abc"))
STUB = Process(12, 11, ("/x/triton_python_backend_stub",))
LEFT = Process(20, 1, ("/opt/tritonserver", "--id=tritonproof-def"))
THEIRS = Process(21, 1, ("/opt/tritonserver", "--model-repository=/srv/models"))


def by_id(*processes: Process) -> dict[int, Process]:
    return {one.pid: one for one in processes}


def test_a_server_without_a_guard_is_left_over() -> None:
    sound = leftovers.processes(by_id(INIT, GUARD, GUARDED, STUB))
    found = leftovers.processes(by_id(INIT, GUARD, GUARDED, STUB, LEFT))

    assert states(sound, found) == ["ok", "warning"]
    assert found.cure.startswith("kill 20,")


def test_a_server_of_somebody_elses_is_named_and_not_to_be_killed() -> None:
    theirs = leftovers.processes(by_id(INIT, THEIRS))
    both = leftovers.processes(by_id(INIT, THEIRS, LEFT))

    assert states(theirs, both) == ["warning", "warning"]
    assert "tritonserver 21" in theirs.found
    assert "kill" not in theirs.cure
    assert "20" in both.cure
    assert "21" not in both.cure


def test_own_processes_are_seen_with_their_parents() -> None:
    found = leftovers.own_processes()[os.getpid()]

    assert found.parent == os.getppid()
    assert Path(found.command[0]).name.startswith("python")


def test_a_model_that_was_sent_to_a_server_that_is_gone_is_left_over(tmp_path: Path) -> None:
    sent, empty, link = (tmp_path / name for name in ("folderAb; 23", "folderXyZ789", "folderLnk123"))
    sent.mkdir()
    empty.mkdir()
    (sent / "config.pbtxt").touch()
    link.symlink_to(sent)  # as another user may have put it there

    serving = leftovers.sent_models(by_id(LEFT), tmp_path)
    found = leftovers.sent_models({}, tmp_path)

    assert states(serving, leftovers.sent_models({}, empty), found) == ["ok", "ok", "warning"]
    assert found.cure == f"rm -r '{sent}'", "it can be pasted"


def test_who_holds_the_machine_is_named(private_locks: Path) -> None:
    free = leftovers.lock()
    with locks.hold_machine(exclusive=True):
        held = leftovers.lock()

    assert states(free, held, leftovers.lock()) == ["ok", "warning", "ok"]
    assert f"process {os.getpid()} of " in held.found


def test_unreadable_records_are_named(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "a.json.unreadable").touch()
    found = leftovers.kept_files(tmp_path, tmp_path)

    assert states(found) == ["warning"]
    assert "1 unreadable records (a.json.unreadable)" in found.found


def test_what_is_kept_to_be_found_again_is_told_with_its_size_and_is_free_to_delete(tmp_path: Path) -> None:
    engines = tmp_path / "engines"
    none = leftovers.kept_files(tmp_path, tmp_path, engines)
    (engines / "0f3c").mkdir(parents=True)
    (engines / "0f3c" / "kernel.engine").write_bytes(bytes(3 << 20))
    kept = leftovers.kept_files(tmp_path, tmp_path, engines)

    assert states(none, kept) == ["ok", "ok"]
    assert "engines" not in none.found
    assert f"3 MiB of TensorRT's engines in {engines}, which may be deleted" in kept.found
