"""What earlier runs left is found, with a command that removes it, and nothing of others is."""

import os
from pathlib import Path

from fixtures.doctor import leftovers
from fixtures.doctor.leftovers import Process
from fixtures.host import locks, private, scratch
from tests.doctor.findings import states

INIT = Process(1, 0, ("/sbin/init",))
GUARD = Process(10, 1, ("python", "-I", "-S", "/somewhere/fixtures/host/guard.py", "--caller", "9"))
GUARDED = Process(11, 10, ("/opt/tritonserver", "--id=tritonproof-abc"))
STUB = Process(12, 11, ("/x/triton_python_backend_stub",))
LEFT = Process(20, 1, ("/opt/tritonserver",))


def by_id(*processes: Process) -> dict[int, Process]:
    return {one.pid: one for one in processes}


def test_a_server_without_a_guard_is_left_over() -> None:
    sound = leftovers.processes(by_id(INIT, GUARD, GUARDED, STUB))
    found = leftovers.processes(by_id(INIT, GUARD, GUARDED, STUB, LEFT))

    assert states(sound, found) == ["ok", "warning"]
    assert found.cure.startswith("kill 20,")


def test_own_processes_are_seen_with_their_parents() -> None:
    found = leftovers.own_processes()[os.getpid()]

    assert found.parent == os.getppid()
    assert Path(found.command[0]).name.startswith("python")


def test_a_segment_that_no_process_uses_is_left_over(tmp_path: Path) -> None:
    names = ("tritonproof-a", "INPUT__0_3_0", "OUTPUT__0", "somebody-else", "INPUT__0_backup")
    used, *left, _, _ = (tmp_path / name for name in names)
    for name in names:
        (tmp_path / name).write_bytes(b"tensor")

    with used.open("rb"):
        found = leftovers.segments(tmp_path)

    assert states(found) == ["warning"]
    assert found.cure.endswith(f"rm {left[0]} {left[1]}")


def test_a_folder_of_a_run_that_is_gone_is_left_over(tmp_path: Path) -> None:
    alive, left, empty = (
        tmp_path / name for name in ("tritonproof-abc", "tritonproof-xyz", "python_env_aaaaaa")
    )
    for path in (alive, left, tmp_path / private.user_folder().name):
        path.mkdir()

    none = leftovers.folders(tmp_path / "nowhere", {}, [], tmp_path)
    found = leftovers.folders(tmp_path, by_id(GUARD, GUARDED), [empty])

    assert states(none, found) == ["ok", "warning"]
    assert found.found.startswith("1 of killed runs and servers (tritonproof-xyz); 1 empty")
    assert found.cure.startswith(f"rm -r {left}; ")


def test_links_that_another_user_may_have_put_there_are_no_leftovers(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "config.pbtxt").touch()
    (own / "tritonproof-a").symlink_to(own / "config.pbtxt")
    for name in ("tritonproof-a", "folderAbC123"):
        (tmp_path / name).symlink_to(own)

    found = leftovers.folders(tmp_path, {}, [], tmp_path)

    assert states(found, leftovers.segments(own)) == ["ok", "ok"]


def test_a_cure_can_be_pasted_whatever_a_leftover_is_called(tmp_path: Path) -> None:
    segment, folder = tmp_path / "tritonproof-a; touch x", tmp_path / "tritonproof-$(touch x)"
    segment.touch()
    folder.mkdir()

    assert leftovers.segments(tmp_path).cure.endswith(f"rm '{segment}'")
    assert leftovers.folders(tmp_path, {}, [], tmp_path).cure == f"rm -r '{folder}'"


def test_a_model_that_was_sent_to_a_server_that_is_gone_is_left_over(tmp_path: Path) -> None:
    sent, other = tmp_path / "folderAbC123", tmp_path / "folderXyZ789"
    for path in (sent, other):
        path.mkdir()
    (sent / "config.pbtxt").touch()

    serving = leftovers.folders(tmp_path / "nowhere", by_id(LEFT), [], tmp_path)
    found = leftovers.folders(tmp_path / "nowhere", {}, [], tmp_path)

    assert states(serving, found) == ["ok", "warning"]
    assert found.cure == f"rm -r {sent}"


def test_who_holds_the_machine_is_named(private_locks: Path) -> None:
    free = leftovers.lock()
    with locks.hold_machine(exclusive=True):
        held = leftovers.lock()

    assert states(free, held, leftovers.lock()) == ["ok", "warning", "ok"]
    assert f"process {os.getpid()} of " in held.found


def test_half_written_builds_and_unreadable_records_are_named(tmp_path: Path) -> None:
    results, builds = tmp_path / "results", tmp_path / "builds"
    (results / "cpu" / "superseded").mkdir(parents=True)
    (results / "cpu" / "superseded" / "old.json").touch()
    noted = leftovers.files(results, builds)
    (builds / "cpu" / ".unfinished-cpu-a-0").mkdir(parents=True)
    (results / "cpu" / f".cpu-a-{'0' * 32}.tmp").touch()
    (results / "cpu" / "a.json.unreadable").touch()
    found = leftovers.files(results, builds)

    assert states(noted, found) == ["ok", "warning"]
    assert "1 records of other machines" in noted.found
    assert ".unfinished-cpu-a-0" in found.found
    assert "1 records that a killed run was writing" in found.found
    assert "a.json.unreadable" in found.found


def test_what_is_kept_to_be_found_again_is_told_with_its_size_and_is_free_to_delete(tmp_path: Path) -> None:
    engines = tmp_path / "engines"
    none = leftovers.files(tmp_path, tmp_path, engines)
    (engines / "0f3c").mkdir(parents=True)
    (engines / "0f3c" / "kernel.engine").write_bytes(bytes(3 << 20))
    kept = leftovers.files(tmp_path, tmp_path, engines)

    assert states(none, kept) == ["ok", "ok"]
    assert "engines" not in none.found
    assert f"3 MiB of TensorRT's engines in {engines}, free to delete" in kept.found


def test_what_killed_runs_of_this_version_left_is_found_beside_what_is_in_use(temporary: Path) -> None:
    left = private.folder_of_user("runs") / "tritonproof-server-0"
    left.mkdir()
    with scratch.scratch_folder("server"):
        found = leftovers.folders(every={}, orphans=[], sent=temporary)

    assert states(found) == ["warning"]
    assert found.cure == f"rm -r {left}"
