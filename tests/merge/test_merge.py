"""Shards of several machines and jobs in one folder: everything arrives whole, or nothing is written."""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from reports.record import files, per_sample
from reports.record.schema import Case, Load, Record, Serving, Start
from tests import samples as sample
from tests.modes import closed

CASE = "a40-resnet50-onnx-trt-fp16"
OFFLINE, ONLINE = sample.record().loads[:3], sample.record().loads[3:]


def on(target: str, **changes: Any) -> Record:
    """The same case on another GPU."""
    one = sample.record(**changes)
    gpu = f"NVIDIA {target.upper()}"
    return dataclasses.replace(
        one,
        case=dataclasses.replace(one.case, target=target),
        machine=dataclasses.replace(one.machine, gpu=gpu),
    )


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def merge(tmp_path: Path, printed: Callable[..., str]) -> Callable[..., str]:
    """Runs the command into `out`; gives what it printed."""
    return lambda *arguments: printed("merge", *arguments, "--output", tmp_path / "out")


@pytest.fixture
def refused(tmp_path: Path, refused: Callable[..., str]) -> Callable[..., str]:
    """Runs the command, which must write nothing; gives the error."""

    def run(*arguments: Path) -> str:
        before = content(tmp_path)
        why = refused("merge", *arguments, "--output", tmp_path / "out")
        assert content(tmp_path) == before
        assert not list(tmp_path.glob(".*"))
        return why

    return run


# What arrives.


def test_records_of_three_machines_arrive_with_all_that_stands_beside_them(
    tmp_path: Path, merge: Callable[..., str]
) -> None:
    shards = [sample.store(tmp_path / name, on(name)) for name in ("a100", "t4", "v100")]
    beside = shards[1] / "t4" / "t4-resnet50-onnx-trt-fp16.search" / "config.pbtxt"
    files.replace(beside, b"instances")
    (shards[1] / "t4" / "t4-resnet50-onnx-trt-fp16.server.log").write_text("started")
    text = merge(*shards)
    assert text == f"{tmp_path / 'out'}: wrote 3 records\n"
    expected = {name: one for shard in shards for name, one in content(shard).items()}
    assert len(expected) == 5
    assert content(tmp_path / "out") == expected


def test_load_points_of_one_case_become_one_record(tmp_path: Path, merge: Callable[..., str]) -> None:
    whole = sample.record(
        loads=tuple(
            sorted((*OFFLINE, *ONLINE), key=lambda load: (load.scenario, load.batch, load.concurrency))
        ),
        starts=(Start("offline", 1.0, 2.0, 3.0), Start("online", 1.5, 2.5, 3.5)),
        price_per_hour=2.5,
    )
    parts: list[dict[str, Any]] = [
        {"loads": whole.loads[:1], "starts": whole.starts[:1], "accuracy": None, "price_per_hour": None},
        {"loads": whole.loads[1:3], "starts": (), "conversion": None, "accuracy": None},
        {"loads": whole.loads[3:], "starts": whole.starts[1:], "conversion": None},
        {"loads": (), "starts": (), "conversion": None, "accuracy": None, "serving": None},
    ]
    shards = [
        sample.store(tmp_path / f"job-{n}", dataclasses.replace(whole, **part))
        for n, part in enumerate(parts)
    ]
    text = merge(*shards)
    assert text == f"{tmp_path / 'out'}: wrote 1 record\njoined from several: {CASE}\n"
    assert files.read_all(tmp_path / "out") == [whole]


def test_what_a_run_would_replace_is_of_the_latest_shard(tmp_path: Path, merge: Callable[..., str]) -> None:
    old = sample.record(
        loads=OFFLINE, starts=(Start("offline", 1.0, 2.0, 3.0),), updated="2026-03-01T00:00:00+00:00"
    )
    new = sample.record(
        loads=ONLINE, starts=(Start("offline", 9.0, 9.0, 9.0),), updated="2026-03-02T00:00:00+00:00"
    )
    merge(sample.store(tmp_path / "new", new), sample.store(tmp_path / "old", old))
    (one,) = files.read_all(tmp_path / "out")
    assert (one.starts, one.updated, len(one.loads)) == (new.starts, new.updated, 5)


def test_logs_of_all_shards_are_kept(tmp_path: Path, merge: Callable[..., str]) -> None:
    shards = []
    for name, loads in (("a", OFFLINE), ("b", ONLINE)):
        shards.append(sample.store(tmp_path / name, sample.record(loads=loads)))
        (shards[-1] / "a40" / f"{CASE}.server.log").write_text(name)
    merge(*shards)
    found = content(tmp_path / "out")
    assert found[f"a40/{CASE}.server.log"] == b"a"
    assert found[f"a40/{CASE}.2.server.log"] == b"b"


def test_what_is_left_out_is_said_by_name_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard = sample.store(tmp_path / "a", sample.record())
    old = sample.store(shard / "a40", sample.record()) / "a40"
    old = old.rename(shard / "a40" / "superseded") / f"{CASE}.json"
    (shard / "a40" / "other.server.log").write_text("started")
    (shard / "a40" / f".{CASE}.json.lock").touch()
    assert main(["merge", str(shard), "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"left out, since it belongs to no record: {shard / 'a40' / 'other.server.log'}",
        f"left out, since it lies deeper than records are read from (TARGET/CASE.json): {old}",
    ]
    assert list(content(tmp_path / "out")) == [f"a40/{CASE}.json"]


def test_the_same_merge_again_changes_nothing(tmp_path: Path, merge: Callable[..., str]) -> None:
    shard = sample.store(tmp_path / "a", sample.record())
    merge(shard)
    before = content(tmp_path / "out")
    assert "already holds 1 record" in merge(shard)
    assert content(tmp_path / "out") == before


def test_an_empty_output_folder_will_do(tmp_path: Path, merge: Callable[..., str]) -> None:
    (tmp_path / "out").mkdir()
    merge(sample.store(tmp_path / "a", sample.record()))
    assert list(content(tmp_path / "out")) == [f"a40/{CASE}.json"]


# What is refused.


def test_two_machines_of_one_case_are_named_with_what_differs(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    other = dataclasses.replace(
        sample.record(loads=ONLINE), machine=dataclasses.replace(sample.record().machine, cores=32)
    )
    shards = sample.store(tmp_path / "a", sample.record(loads=OFFLINE)), sample.store(tmp_path / "b", other)
    assert refused(*shards) == (
        "error: the records cannot be merged, and nothing was written:\n"
        f"- target a40: two machine stamps: {shards[0] / 'a40' / CASE}.json and {shards[1] / 'a40' / CASE}.json differ "
        "in machine.cores (16 and 32). Merge the records of each machine into a folder of its own; "
        "`python -m reports compare` sets them side by side.\n"
    )


def test_two_machines_of_one_target_are_refused_even_in_different_cases(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    one = sample.record()
    versions = dataclasses.replace(one.machine, versions={"python": "3.11.7", "torch": "2.14.0"})
    other = dataclasses.replace(one, case=Case("a40", "nnunet", "onnx", None, "fp16"), machine=versions)
    text = refused(sample.store(tmp_path / "a", one), sample.store(tmp_path / "b", other))
    assert "differ in versions.torch (2.13.0 and 2.14.0). Merge " in text


def test_what_differs_between_two_machines_begins_no_line_of_the_error(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    one = sample.record()
    versions = dataclasses.replace(one.machine, versions={"python": "3.11\n::error::of another's making"})
    other = dataclasses.replace(one, machine=versions)
    text = refused(sample.store(tmp_path / "a", one), sample.store(tmp_path / "b", other))
    assert "::error::of another's making" in text
    assert not any(line.startswith("::") for line in text.splitlines())


def test_cases_on_two_gpus_of_one_machine_are_joined(tmp_path: Path) -> None:
    one = sample.record()
    second_gpu = dataclasses.replace(one.machine, gpu_uuids=("GPU-2",))
    other = dataclasses.replace(one, case=Case("a40", "nnunet", "onnx", None, "fp16"), machine=second_gpu)
    shards = sample.store(tmp_path / "a", one), sample.store(tmp_path / "b", other)
    assert main(["merge", *map(str, shards), "--output", str(tmp_path / "all")]) == 0
    assert {tuple(record.machine.gpu_uuids) for record in files.read_all(tmp_path / "all")} == {
        (),
        ("GPU-2",),
    }


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"build": dataclasses.replace(sample.record().build, digest="77aa")},
            "build.digest (0f3c and 77aa)",
        ),
        (
            {"deployment": dataclasses.replace(sample.record().deployment, instances=2)},
            "deployment.instances (1 and 2)",
        ),
        (
            {"serving": Serving("embedded", "2.61.0", "python", "system")},
            "serving.triton (2.51.0 and 2.61.0)",
        ),
        (
            {"serving": Serving("embedded", "2.51.0", "python", "system", versions={"torch": "2.5.0"})},
            "serving.versions.torch (none and 2.5.0)",
        ),
    ],
    ids=["build", "deployment", "server", "libraries in the server"],
)
def test_shards_of_another_build_or_setup_are_no_shards_of_one_case(
    changes: Any, named: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    shards = (
        sample.store(tmp_path / "a", sample.record(loads=OFFLINE)),
        sample.store(tmp_path / "b", sample.record(loads=ONLINE, **changes)),
    )
    paths = f"{shards[0] / 'a40' / CASE}.json and {shards[1] / 'a40' / CASE}.json"
    assert f"\n- {paths} differ in {named}. Measure the case again " in refused(*shards)


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (
            {"loads": (sample.load("offline", 8, 1000),)},
            {"loads": (sample.load("offline", 8, 1001),)},
            "both measured offline, batch 8, with different figures",
        ),
        ({}, {"accuracy": sample.accuracy(samples=400)}, "both have accuracy, with different figures"),
        ({}, {"conversion": sample.failed_conversion()}, "both have conversion, with different figures"),
        ({"price_per_hour": 2.0}, {"price_per_hour": 3.0}, "both have price_per_hour, and it differs"),
        (
            {"search": sample.search()},
            {"search": sample.search(budget_ms=20.0)},
            "both have search, with different figures",
        ),
    ],
    ids=["point", "accuracy", "conversion", "price", "search"],
)
def test_two_figures_of_the_same_thing_are_a_conflict(
    first: Any, second: Any, named: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    shards = (
        sample.store(tmp_path / "a", sample.record(**first)),
        sample.store(tmp_path / "b", sample.record(**second)),
    )
    text = refused(*shards)
    assert f"\n- {shards[0] / 'a40' / CASE}.json and {shards[1] / 'a40' / CASE}.json: {named}" in text


def test_every_conflict_is_named_at_once(tmp_path: Path, refused: Callable[..., str]) -> None:
    def shard(name: str, speed: float) -> Path:
        loads: tuple[Load, ...] = tuple(sample.load("offline", batch, speed) for batch in (1, 2))
        return sample.store(tmp_path / name, sample.record(loads=loads), on("t4", loads=loads[:1]))

    assert refused(shard("a", 1000), shard("b", 1001)).count("\n- ") == 3


def test_files_beside_the_records_that_differ_are_a_conflict(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    shards = []
    for name, loads in (("a", OFFLINE), ("b", ONLINE)):
        shards.append(sample.store(tmp_path / name, sample.record(loads=loads)))
        files.replace(shards[-1] / "a40" / f"{CASE}.search" / "config.pbtxt", name.encode())
    assert f"config.pbtxt and {shards[1] / 'a40' / CASE}.search/config.pbtxt differ." in refused(*shards)


def test_a_folder_that_holds_something_else_is_never_written_to(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    sample.store(tmp_path / "out", sample.random_weights())
    text = refused(sample.store(tmp_path / "a", sample.record()))
    assert f"{tmp_path / 'out'}: holds other files than this merge gives (a40/{CASE}.json)." in text


def test_a_record_that_changed_is_not_overwritten(tmp_path: Path, refused: Callable[..., str]) -> None:
    sample.store(tmp_path / "out", sample.record(loads=OFFLINE))
    assert "holds other files than this merge gives" in refused(sample.store(tmp_path / "a", sample.record()))


@pytest.mark.parametrize("place", ["", "a40", "new", "new/deep", "link"])
def test_a_folder_that_is_or_lies_in_one_of_the_given_is_no_output(
    place: str, tmp_path: Path, refused: Callable[..., str], printed: Callable[..., str]
) -> None:
    given = sample.store(tmp_path / "a", sample.record())
    other = sample.store(tmp_path / "b", sample.record())
    (given / "here").mkdir()
    (tmp_path / "out").symlink_to(given / "here" if place == "link" else given / place)
    before = sorted(given.rglob("*"))

    text = refused(other, given)

    assert f"{given}" in text
    assert "Give a new one with --output" in text
    assert sorted(given.rglob("*")) == before
    # Beside it there is room.
    printed("merge", other, given, "--output", tmp_path / "beside")


def test_a_file_is_no_output(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "out").write_text("notes")
    assert "not a folder. Give a new one with --output." in refused(
        sample.store(tmp_path / "a", sample.record())
    )


@pytest.mark.parametrize("strange", ["link", "link to a folder", "FIFO"])
@pytest.mark.parametrize(
    "suffix", [".server.log", ".samples.json", ".search", ".search/config.pbtxt", ".json"]
)
def test_what_is_beside_a_record_and_is_no_file_of_its_own_stops_the_merge(
    suffix: str, strange: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    shard = sample.store(tmp_path / "a", sample.record())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_bytes((shard / "a40" / f"{CASE}.json").read_bytes())
    path = shard / "a40" / f"{CASE}{suffix}"
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if strange == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(elsewhere / "secret" if strange == "link" else elsewhere)
    text = refused(shard)
    assert text.startswith(f"error: {path}: ")
    assert "it is, or lies behind, a symbolic link, or is no regular file. Take it out" in text


@pytest.mark.parametrize("name", ["b c", "<b>", "a\nb", "\x1b[2J", "ü"])
def test_a_file_beside_a_record_has_a_plain_name(
    name: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    shard = sample.store(tmp_path / "a", sample.record())
    files.replace(shard / "a40" / f"{CASE}.search" / name, b"")
    assert f"{name!r} is no name for a file beside records" in refused(shard)


@pytest.mark.parametrize("key", ["target", "model", "format", "accelerator", "precision"])
@pytest.mark.parametrize(
    "name", ["..", ".", "", "/", "a/b", "../../x", "/tmp/x", "a\0b", "a\nb", "a b", "\x1b[2J"]
)
def test_the_parts_of_a_case_are_names_and_no_ways_to_other_folders(
    key: str, name: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    shard = sample.store(tmp_path / "a", sample.record())
    file = files.path_of(sample.record().case, shard)
    data = json.loads(file.read_text())
    data["case"][key] = name
    file.write_text(json.dumps(data))
    why = refused(shard)
    assert why.startswith(f"error: {file}: case.{key}: ")
    assert "cannot be part of a file's name" in why
    assert why.removesuffix("\n").isprintable()


def test_a_link_that_is_given_itself_is_followed(tmp_path: Path, merge: Callable[..., str]) -> None:
    shard = sample.store(tmp_path / "a", sample.record())
    (shard / "a40" / f"{CASE}.server.log").write_text("started")
    other = sample.store(tmp_path / "b", on("t4"))
    (tmp_path / "folder").symlink_to(other)
    (tmp_path / "record.json").symlink_to(files.path_of(sample.record().case, shard))
    merge(tmp_path / "folder", tmp_path / "record.json")
    assert content(tmp_path / "out") == content(shard) | content(other)


@pytest.mark.parametrize("suffix", [".json", ".samples.json", ".search/samples.json"])
def test_a_damaged_file_stops_the_merge(suffix: str, tmp_path: Path, refused: Callable[..., str]) -> None:
    shards = [sample.store(tmp_path / name, on(name)) for name in ("a100", "t4")]
    found = per_sample.SampleScores(on("t4").case, "0f3c", ("a",), {"top-1": {"served": (1.0,)}}, ())
    per_sample.write(found, per_sample.path_of(on("t4").case, shards[1]))
    per_sample.write(found, per_sample.path_of_search(on("t4").case, shards[1]))
    damaged = shards[1] / "t4" / f"t4-resnet50-onnx-trt-fp16{suffix}"
    damaged.write_bytes(damaged.read_bytes()[:60])
    assert refused(*shards).startswith(f"error: {damaged}: not JSON (")


def test_a_folder_that_is_given_twice_is_there_once(tmp_path: Path, merge: Callable[..., str]) -> None:
    shard = sample.store(tmp_path / "a", sample.record())
    merge(shard, shard / "a40", shard)
    assert content(tmp_path / "out") == content(shard)


def test_a_write_that_fails_leaves_nothing(
    tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = [sample.store(tmp_path / name, on(name)) for name in ("a100", "t4")]
    write, written = Path.write_bytes, []

    def full(path: Path, data: bytes) -> int:
        written.append(path)
        if len(written) == 2:
            raise OSError(28, "No space left on device", str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    assert "No space left on device" in refused(*shards)
    assert len(written) == 2


def test_shards_of_a_case_keep_how_long_the_stages_of_each_took(
    tmp_path: Path, merge: Callable[..., str]
) -> None:
    one = sample.record(loads=OFFLINE, stage_seconds={"offline": 3.0}, updated="2026-03-05T05:06:07+00:00")
    other = sample.record(loads=ONLINE, stage_seconds={"online": 5.0, "offline": 1.0})
    for name, record in (("one", one), ("other", other)):
        files.write(record, files.path_of(record.case, tmp_path / name))

    merge(tmp_path / "one", tmp_path / "other")

    joined = files.read(files.path_of(one.case, tmp_path / "out"))
    assert joined.stage_seconds == {"offline": 3.0, "online": 5.0}, "the longest of each"


@pytest.mark.parametrize("mode", [0, 0o111])
def test_a_folder_beside_a_record_that_may_not_be_listed_is_not_left_out(
    mode: int, refused: Callable[..., str], tmp_path: Path
) -> None:
    path = files.path_of(sample.record().case, tmp_path / "a")
    files.write(sample.record(), path)
    beside = path.with_name(f"{path.stem}.search")
    beside.mkdir()
    (beside / "config.pbtxt").touch()
    with closed(beside, mode):
        assert str(beside) in refused(tmp_path / "a")
