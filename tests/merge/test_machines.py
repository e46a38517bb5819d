"""Records of several machines and runs: each measurement is there once, of the machine that made it, in whatever order."""

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.merge import folders
from reports.record import files, machines, per_sample
from reports.record.files import RecordError
from reports.record.foreign import visible
from reports.record.schema import Load, Origin, Parity, Record, Start
from tests import samples

OFFLINE = [samples.load("offline", batch, 1000.0) for batch in (1, 2, 4)]


def stored(folder: Path, *records: Record) -> Path:
    return samples.store(folder, *records)


def merged(output: Path, *arguments: Path) -> Path:
    folders.merge(arguments, output)
    return output


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def speeds(record: Record) -> list[float]:
    return [load.throughput_per_s.value for load in record.loads]


def of_host(host: str, run: int = 1, speed: float = 1000.0, **changes: object) -> Record:
    """The sample case, whole, of a machine's run."""
    loads = tuple(samples.load("offline", batch, speed) for batch in (1, 2))
    return samples.measured_at(samples.origin(host, run), samples.record(loads=loads, **changes))


def test_two_hosts_of_one_kind_that_measured_the_same_case_stay_apart(tmp_path: Path) -> None:
    both = of_host("node1", speed=1000), of_host("node2", speed=900)
    out = merged(tmp_path / "out", *(stored(tmp_path / str(n), one) for n, one in enumerate(both)))
    assert files.read_all(out) == list(both)
    assert [path.name for path in files.record_paths(out)] == [
        "a40-resnet50-onnx-trt-fp16@node1.json",
        "a40-resnet50-onnx-trt-fp16@node2.json",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("GPU-11111111-0000-0000-0000-000000000001", "GPU-11111111-0000-0000-0000-000000000002"),
        ("GPU-1", "GPU-2"),
        ("GPU a/b", "GPU.a b"),
    ],
)
def test_two_gpus_of_one_host_stay_apart(first: str, second: str, tmp_path: Path) -> None:
    both = [
        samples.measured_at(samples.origin("node1", 1, uuid), samples.record()) for uuid in (first, second)
    ]
    out = merged(tmp_path / "out", *(stored(tmp_path / str(n), one) for n, one in enumerate(both)))
    assert {tuple(one.machine.gpu_uuids) for one in files.read_all(out)} == {(first,), (second,)}


def test_gpus_of_records_from_before_stay_apart_by_their_uuids(tmp_path: Path) -> None:
    one, other = (
        samples.record(machine=dataclasses.replace(samples.record().machine, gpu_uuids=(uuid,)))
        for uuid in ("GPU-1", "GPU-2")
    )
    out = merged(tmp_path / "out", stored(tmp_path / "a", one), stored(tmp_path / "b", other))
    assert [record.machine.gpu_uuids for record in files.read_all(out)] == [("GPU-1",), ("GPU-2",)]


def test_hosts_whose_names_differ_in_what_no_file_may_be_called_stay_apart(tmp_path: Path) -> None:
    hosts = ["node.1", "node-1", "node/1", "../node-1", "NODE-1", "x" * 300, "x" * 301, "\x1b[2J"]
    out = merged(
        tmp_path / "out", *(stored(tmp_path / str(n), of_host(host)) for n, host in enumerate(hosts))
    )
    assert {one.host for record in files.read_all(out) for one in machines.origins_of(record)} == {
        visible(host) for host in hosts
    }


def test_of_two_runs_on_one_host_the_later_figures_stand(tmp_path: Path) -> None:
    early, late = of_host("node1", 1, 1000), of_host("node1", 2, 900)
    late = dataclasses.replace(late, loads=late.loads[:1])
    done = folders.merge([stored(tmp_path / "b", late), stored(tmp_path / "a", early)], tmp_path / "out")
    (one,) = files.read_all(tmp_path / "out")
    assert speeds(one) == [900, 1000]
    assert [sentence for sentence in done.earlier if "3 figures of earlier runs gave way" in sentence]


def test_two_figures_of_one_run_on_one_host_are_refused(tmp_path: Path) -> None:
    shards = stored(tmp_path / "a", of_host("node1")), stored(tmp_path / "b", of_host("node1", speed=900))
    with pytest.raises(
        RecordError, match="both measured offline, batch 1, with different figures, in one run"
    ):
        folders.merge(shards, tmp_path / "out")


def test_a_case_whose_node_died_joins_with_what_another_node_measured(tmp_path: Path) -> None:
    whole = of_host("node1")
    begun = dataclasses.replace(whole, loads=())
    rest = of_host("node2", conversion=None, accuracy=None, updated="2026-03-04T09:00:00+00:00")
    out = merged(tmp_path / "out", stored(tmp_path / "b", rest), stored(tmp_path / "a", begun))
    (one,) = files.read_all(out)
    assert (one.conversion, one.accuracy, one.loads) == (begun.conversion, begun.accuracy, rest.loads)
    assert [path.name for path in files.record_paths(out)] == ["a40-resnet50-onnx-trt-fp16.json"]


def test_a_joined_case_stays_joined_beside_a_third_machine(tmp_path: Path) -> None:
    begun = dataclasses.replace(of_host("node1"), loads=())
    rest = of_host("node2", conversion=None, accuracy=None)
    other = of_host("node3", run=2)
    out = merged(
        tmp_path / "out", *(stored(tmp_path / str(n), one) for n, one in enumerate((begun, rest, other)))
    )
    assert [speeds(one) for one in files.read_all(out)] == [[1000, 1000], [1000, 1000]]
    assert all(one.accuracy for one in files.read_all(out))


def test_records_that_say_no_machine_are_not_taken_for_one_of_several(tmp_path: Path) -> None:
    from_before = samples.record(loads=())
    shards = [
        stored(tmp_path / str(n), one)
        for n, one in enumerate((from_before, of_host("node1"), of_host("node2")))
    ]
    with pytest.raises(RecordError, match=r"0/a40/.*does not say on which machine"):
        folders.merge(shards, tmp_path / "out")


def test_samples_go_with_the_ledger_that_counts_them(tmp_path: Path) -> None:
    shards = []
    for run, score in ((1, 0.0), (2, 1.0)):
        shards.append(stored(tmp_path / str(run), of_host("node1", run)))
        scores = {"top-1": {"served": (score,)}}
        found = per_sample.SampleScores(samples.record().case, "0f3c", ("a",), scores, ())
        per_sample.write(found, per_sample.path_of(found.case, shards[-1]))
    out = merged(tmp_path / "out", *reversed(shards))
    assert per_sample.read(per_sample.path_of(samples.record().case, out)).scores == {
        "top-1": {"served": (1.0,)}
    }


def test_what_stands_beside_the_record_of_each_machine_stays_beside_it(tmp_path: Path) -> None:
    shards = []
    for host in ("node1", "node2"):
        shards.append(stored(tmp_path / host, of_host(host)))
        (shards[-1] / "a40" / "a40-resnet50-onnx-trt-fp16.config.pbtxt").write_text(host)
        files.replace(
            shards[-1] / "a40" / "a40-resnet50-onnx-trt-fp16.search" / "config.pbtxt", host.encode()
        )
    out = merged(tmp_path / "out", *shards)
    for host in ("node1", "node2"):
        case = f"a40-resnet50-onnx-trt-fp16@{host}"
        assert (out / "a40" / f"{case}.config.pbtxt").read_text() == host
        assert (out / "a40" / f"{case}.search" / "config.pbtxt").read_text() == host
    assert content(merged(tmp_path / "again", out, *shards)) == content(out)


def test_a_record_without_a_machine_beside_those_of_machines_is_refused_by_every_reader(
    tmp_path: Path,
) -> None:
    out = merged(tmp_path / "out", stored(tmp_path / "a", of_host("a")), stored(tmp_path / "b", of_host("b")))
    stored(out, of_host("c"))
    with pytest.raises(RecordError, match="beside records of the same case that name their machines"):
        files.read_all(out)


def test_a_record_under_the_name_of_another_machine_is_refused(tmp_path: Path) -> None:
    out = merged(tmp_path / "out", stored(tmp_path / "a", of_host("a")), stored(tmp_path / "b", of_host("b")))
    path = files.record_paths(out)[0]
    path.rename(path.with_name(path.name.replace("@a", "@c")))
    with pytest.raises(RecordError, match="Give it that name"):
        files.read_all(out)


# Whatever the order, and however often.


def record_of(chance: random.Random, hosts: Sequence[str]) -> Record:
    """A record with some measurements, each of a host and a run of it, as a folder that was measured into may have it."""

    def made() -> tuple[Origin, float]:
        host, run = chance.choice(hosts), chance.randint(1, 3)
        uuids = ("GPU-1",) if host == "gpus" else ()
        return samples.origin(host, run, *uuids), 1000.0 + 100 * hosts.index(host) + 10 * run

    loads: list[Load] = []
    fields: dict[str, Any] = {"conversion": None, "accuracy": None}
    for load in OFFLINE:
        if chance.random() < 0.5:
            where, speed = made()
            loads.append(dataclasses.replace(load, throughput_per_s=samples.estimate(speed), origin=where))
    if chance.random() < 0.5:
        fields["conversion"] = Parity(64, 0.0004, 0.01, 1.0, 0.99, passed=True, origin=made()[0])
    if chance.random() < 0.5:
        where, _ = made()
        fields["accuracy"] = samples.accuracy(origin=where)
        fields["accuracy_missing"] = "no data set" if where == samples.origin(where.host, 2) else None
    elif chance.random() < 0.5:
        fields["accuracy_missing"] = chance.choice(["no checkpoint", "no data set"])
    gates = [samples.gate(name) for name in ("batches", "malformed") if chance.random() < 0.5]
    fields["gates"] = tuple(dataclasses.replace(one, origin=made()[0]) for one in gates)
    if chance.random() < 0.5:
        where, speed = made()
        fields["starts"] = (Start("offline", 1.0, speed, 3.0, where),)
    return samples.record(
        loads=tuple(loads),
        build=dataclasses.replace(samples.record().build, build_time_s=float(chance.randint(1, 3))),
        serving=chance.choice([None, samples.record().serving]),
        price_per_hour=chance.choice([None, 2.5]),
        updated=f"2026-03-0{chance.randint(4, 6)}T00:00:00+00:00",
        **fields,
    )


@pytest.mark.parametrize("seed", [*range(40), 1329, 1432])
def test_the_same_measurements_give_the_same_folder_in_whatever_order_and_however_often(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    hosts = ["node1", "node2", "gpus"][: chance.randint(1, 3)]
    records = [record_of(chance, hosts) for _ in range(3)]
    a, b, c = (stored(tmp_path / name, one) for name, one in zip("abc", records, strict=True))
    ab, bc = merged(tmp_path / "ab", a, b), merged(tmp_path / "bc", b, c)
    whole = content(merged(tmp_path / "abc", a, b, c))
    assert content(merged(tmp_path / "ba", b, a)) == content(ab)
    assert content(merged(tmp_path / "ab+a", ab, a)) == content(ab)
    assert content(merged(tmp_path / "abb", a, b, b)) == content(ab)
    assert content(merged(tmp_path / "ab+b+ab", b, ab, ab)) == content(ab)
    assert content(merged(tmp_path / "ab+c", ab, c)) == whole
    assert content(merged(tmp_path / "a+bc", a, bc)) == whole
    assert content(merged(tmp_path / "bc+ab+a", bc, ab, a)) == whole
    found = files.read_all(tmp_path / "abc")
    kept = [measured for record in found for measured in machines.measurements(record)]
    assert sorted((one.machine, one.key) for one in kept) == sorted(
        {(one.machine, one.key) for record in records for one in machines.measurements(record)}
    )
    for record in records:
        for one in machines.measurements(record):
            (stands,) = [other for other in kept if (other.machine, other.key) == (one.machine, one.key)]
            assert stands.started > one.started or stands.value == one.value
