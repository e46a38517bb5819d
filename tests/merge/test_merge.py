"""A merge of several folders writes all records whole, or nothing."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from reports.merge import merge
from reports.record import disk, files, per_sample
from reports.record.files import RecordError
from reports.record.schema import Case, Record, Serving, Start
from tests import examples
from tests.helpers import closed, records_in

CASE = "a40-resnet50-onnx-trt-fp16"
WHOLE = examples.measured_at(
    examples.origin(),
    examples.record(
        gates=(examples.gate(),),
        starts=(Start("offline", 1.0, 2.0, 3.0), Start("online", 1.5, 2.5, 3.5)),
        search=examples.search(accuracy=examples.accuracy()),
        price_per_hour=2.5,
        stage_seconds={"offline": 3.0, "online": 4.0},
    ),
)
LOGS, SAMPLES, CONFIG = f"{CASE}.server.log", f"{CASE}.samples.json", f"{CASE}.search/config.pbtxt"


def on(target: str) -> Record:
    """The same case on another GPU."""
    case = structs.replace(WHOLE.case, target=target)
    machine = structs.replace(WHOLE.machine, gpu=f"NVIDIA {target.upper()}")
    return structs.replace(WHOLE, case=case, machine=machine)


def shards(folder: Path, *parts: dict[str, Any]) -> list[Path]:
    """A folder for each part, with the whole record and these fields changed."""
    return [
        examples.store(folder / f"job-{n}", structs.replace(WHOLE, **changes))
        for n, changes in enumerate(parts)
    ]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Runs a merge that must fail and write nothing; returns the error."""

    def run(*arguments: Path, output: str = "out") -> str:
        before = content(tmp_path)
        with pytest.raises((RecordError, OSError)) as error:
            merge(arguments, tmp_path / output)
        assert content(tmp_path) == before
        assert not list(tmp_path.glob(".*"))
        return str(error.value)

    return run


def test_records_of_three_machines_arrive_with_their_files(tmp_path: Path) -> None:
    folders = [examples.store(tmp_path / name, on(name)) for name in ("a100", "t4", "v100")]
    disk.replace(folders[1] / "t4" / "t4-resnet50-onnx-trt-fp16.search" / "config.pbtxt", b"instances")
    (folders[1] / "t4" / "t4-resnet50-onnx-trt-fp16.server.log").write_text("started")
    expected = {name: data for folder in folders for name, data in content(folder).items()}

    merged = merge(folders, tmp_path / "out")

    assert (merged.records, merged.joined, merged.left_out) == (3, [], [])
    assert len(expected) == 5
    assert content(tmp_path / "out") == expected


def test_parts_of_a_case_merge_in_any_order(tmp_path: Path) -> None:
    empty: dict[str, Any] = {
        "conversion": None, "accuracy": None, "search": None, "gates": (), "loads": (), "starts": (), "efficiency": (),
        "stage_seconds": {}, "price_per_hour": None,
    }  # fmt: skip
    parts = shards(
        tmp_path,
        empty | {"loads": WHOLE.loads[:1], "conversion": WHOLE.conversion, "stage_seconds": {"offline": 3.0}},
        empty | {"loads": WHOLE.loads[1:3], "accuracy": WHOLE.accuracy, "starts": WHOLE.starts[:1]},
        empty | {"loads": WHOLE.loads[3:], "search": WHOLE.search, "starts": WHOLE.starts[1:]},
        empty | {"gates": WHOLE.gates, "serving": None, "stage_seconds": {"online": 4.0}},
        {"loads": WHOLE.loads[:2]},
    )
    outputs = []
    for number, order in enumerate(itertools.islice(itertools.permutations(parts), 0, None, 17)):
        merged = merge([*order, order[0]], tmp_path / f"out-{number}")
        assert merged.joined == [CASE]
        outputs.append(content(tmp_path / f"out-{number}"))
    assert records_in(tmp_path / "out-0") == [WHOLE]
    assert outputs == outputs[:1] * len(outputs)
    merge([tmp_path / "out-0", *parts], tmp_path / "again")
    assert content(tmp_path / "again") == outputs[0]


def test_later_record_replaces_earlier_results(tmp_path: Path) -> None:
    old = {"loads": WHOLE.loads[:3], "updated": "2026-03-01T00:00:00+00:00"}
    starts = (Start("offline", 9.0, 9.0, 9.0, examples.origin(run=2)),)
    build = structs.replace(WHOLE.build, build_time_s=1.0)
    new = {"loads": WHOLE.loads[3:], "starts": starts, "build": build, "updated": "2026-03-02T00:00:00+00:00"}
    first, second = shards(tmp_path, new, old)
    for number, folder in enumerate((first, second)):
        (folder / "a40" / LOGS).write_text(str(number))

    merged = merge([first, second], tmp_path / "out")

    (record,) = records_in(tmp_path / "out")
    assert (record.starts[0], record.build, record.updated) == (starts[0], build, new["updated"])
    assert len(record.loads) == 5
    assert content(tmp_path / "out")[f"a40/{LOGS}"] == b"0"
    assert merged.left_out == [second / "a40" / LOGS], "of two logs one stays, and the other is named"


def test_equal_figures_of_two_runs_merge(tmp_path: Path) -> None:
    assert WHOLE.conversion
    again = structs.replace(WHOLE.conversion, origin=examples.origin("node2", 2))
    merge(shards(tmp_path, {"loads": WHOLE.loads[:3]}, {"conversion": again}), tmp_path / "out")
    assert len(records_in(tmp_path / "out")[0].loads) == 5


def test_reason_for_missing_metric_follows_the_ledger(tmp_path: Path) -> None:
    missing = {"accuracy_missing": "no data set", "updated": "2026-03-02T00:00:00+00:00"}
    table: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
        ({"accuracy": None, **missing}, {}, None),
        ({"accuracy": None}, missing, "no data set"),
        ({"accuracy": None}, {"accuracy": None, **missing}, "no data set"),
    ]
    for number, (first, second, expected) in enumerate(table):
        merge(shards(tmp_path / str(number), first, second), tmp_path / f"out-{number}")
        assert records_in(tmp_path / f"out-{number}")[0].accuracy_missing == expected


def test_left_out_files_are_named(tmp_path: Path) -> None:
    (shard,) = shards(tmp_path, {})
    old = examples.store(shard / "a40", WHOLE) / "a40"
    old = old.rename(shard / "a40" / "superseded") / f"{CASE}.json"
    (shard / "a40" / "other.server.log").write_text("started")
    (shard / "a40" / f".{CASE}.json.lock").touch()
    assert merge([shard], tmp_path / "out").left_out == [shard / "a40" / "other.server.log", old]
    assert list(content(tmp_path / "out")) == [f"a40/{CASE}.json"]


def test_link_given_directly_is_followed(tmp_path: Path) -> None:
    (shard,), other = shards(tmp_path, {}), examples.store(tmp_path / "b", on("t4"))
    (shard / "a40" / LOGS).write_text("started")
    (tmp_path / "folder").symlink_to(other)
    (tmp_path / "record.json").symlink_to(files.path_of(WHOLE.case, shard))
    merge([tmp_path / "folder", tmp_path / "record.json"], tmp_path / "out")
    assert content(tmp_path / "out") == content(shard) | content(other)


CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "build": ({"build": structs.replace(WHOLE.build, digest="77aa")}, "build.digest 0f3c 77aa"),
    "deployment": (
        {"deployment": structs.replace(WHOLE.deployment, instances=2)},
        "deployment.instances 1 2",
    ),
    "server": (
        {"serving": Serving("embedded", "2.61.0", "python", "system")},
        "serving.triton 2.51.0 2.61.0",
    ),
    "libraries": (
        {"serving": Serving("embedded", "2.51.0", "python", "system", versions={"torch": "2.5.0"})},
        "serving.versions.torch none 2.5.0",
    ),
    "machine": ({"machine": structs.replace(WHOLE.machine, cores=32)}, "machine.cores 16 32"),
    "point": (
        {"loads": (examples.load("offline", 8, 1001.0, origin=examples.origin()),)},
        "loads offline 8 1",
    ),
    "accuracy": ({"accuracy": examples.accuracy(samples=400, origin=examples.origin())}, "accuracy"),
    "conversion": ({"conversion": examples.failed_conversion()}, "conversion"),
    "search": ({"search": examples.search(budget_ms=20.0)}, "search"),
    "price": ({"price_per_hour": 3.0}, "price_per_hour"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradicting_records_are_named_with_differences(
    name: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    changes, expected = CONTRADICTIONS[name]
    folders = shards(tmp_path, {}, changes)
    for order in (folders, folders[::-1]):
        (line,) = [line for line in refused(*order).splitlines() if line.startswith("- ")]
        assert all(str(files.path_of(WHOLE.case, folder)) in line for folder in folders)
        assert [word for word in expected.split() if word not in line] == []


def test_two_machines_of_one_target_are_refused(tmp_path: Path, refused: Callable[..., str]) -> None:
    machine = structs.replace(WHOLE.machine, versions={"python": "3.11.7", "torch": "2.14\n::error::forged"})
    other = {"case": Case("a40", "nnunet", "onnx", None, "fp16"), "machine": machine}
    text = refused(*shards(tmp_path, {}, other))
    assert "target a40" in text
    assert "versions.torch" in text
    assert not any(line.startswith("::") for line in text.splitlines())


@pytest.mark.parametrize("name", [CONFIG, SAMPLES])
def test_differing_files_beside_records_are_a_contradiction(
    name: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    folders = shards(tmp_path, {"loads": WHOLE.loads[:3]}, {"loads": WHOLE.loads[3:]})
    for score, folder in enumerate(folders):
        sample_scores = per_sample.SampleScores(
            WHOLE.case, "0f3c", ("a",), {"top-1": {"served": (score,)}}, ()
        )
        path = folder / "a40" / name
        per_sample.write(sample_scores, path) if name == SAMPLES else disk.replace(path, str(score).encode())
    assert str(folders[0] / "a40" / name) in refused(*folders)


@pytest.mark.parametrize("place", ["", "a40", "new", "new/deep", "link"])
def test_output_inside_an_input_is_refused(place: str, tmp_path: Path, refused: Callable[..., str]) -> None:
    shard, other = shards(tmp_path, {}, {})
    (shard / "here").mkdir()
    (tmp_path / "out").symlink_to(shard / "here" if place == "link" else shard / place)
    assert "--output" in refused(other, shard)
    merge([other, shard], tmp_path / "beside")


@pytest.mark.parametrize("there", ["a file", "a full folder"])
def test_output_must_be_new_or_empty(there: str, tmp_path: Path, refused: Callable[..., str]) -> None:
    (shard,), out = shards(tmp_path, {}), tmp_path / "out"
    if there == "a file":
        out.write_text("notes")
    else:
        examples.store(out, WHOLE)
    assert "--output" in refused(shard)
    (tmp_path / "empty").mkdir()
    merge([shard], tmp_path / "empty")


@pytest.mark.parametrize("strange", ["link", "link to a folder", "FIFO"])
@pytest.mark.parametrize(
    "suffix", [".server.log", ".samples.json", ".search", ".search/config.pbtxt", ".json"]
)
def test_links_and_special_files_stop_the_merge(
    suffix: str, strange: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    (shard,) = shards(tmp_path, {})
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
    assert str(path) in refused(shard)


@pytest.mark.parametrize("suffix", [".json", ".samples.json"])
def test_damaged_file_stops_the_merge(suffix: str, tmp_path: Path, refused: Callable[..., str]) -> None:
    folders = [examples.store(tmp_path / name, on(name)) for name in ("a100", "t4")]
    damaged = folders[1] / "t4" / f"t4-resnet50-onnx-trt-fp16{suffix}"
    disk.replace(damaged, b'{"case": ')
    assert str(damaged) in refused(*folders)


@pytest.mark.parametrize("mode", [0, 0o111])
def test_unlistable_folder_stops_the_merge(mode: int, refused: Callable[..., str], tmp_path: Path) -> None:
    (shard,) = shards(tmp_path, {})
    disk.replace(shard / "a40" / CONFIG, b"")
    with closed((shard / "a40" / CONFIG).parent, mode):
        assert CASE in refused(shard)
