"""The record file: it comes back as it was written, and anything less than a whole one is refused."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from reports.record import files, schema
from reports.record.schema import (
    CertifiedPercentile,
    CpuUse,
    GpuUse,
    Growth,
    LatencyBudget,
    Record,
    Soak,
    Start,
)
from tests import samples

Keys = tuple[str | int, ...]
GONE = object()
"""In place of a value that is taken out of a file."""


def complete() -> Record:
    """The sample record with everything that a record may hold."""
    first, *others = samples.record().loads
    whole = structs.replace(
        samples.wrong_under_load(first),
        budget=LatencyBudget("p99", 1.5, "agreed in May", "failed"),
        cpu=CpuUse(16, 0.4, 12.5, 0.1, 0.0),
        gpu=GpuUse(0.98, 4096.0, 240.0, 152.5, 1410.0),
        comparison=samples.comparison(),
        marks=samples.marks("a pass was repeated: 1"),
        certified={
            "p99": CertifiedPercentile(2.1, 2.4, 1500, 0),
            "p99.9": CertifiedPercentile(2.6, None, 1500, 5136),
        },
    )
    one = samples.record()
    growth = Growth(
        "memory of its stubs", "bytes", "request", samples.estimate(1034.0), 6e7, 3.7e8, 150_000, "failed"
    )
    assert one.serving is not None
    return samples.record(
        machine=structs.replace(one.machine, gpu_uuids=("GPU-1", "GPU-2")),
        serving=structs.replace(
            one.serving,
            image="tritonserver:24.10-py3",
            image_digest="sha256:ab",
            versions={"torch": "2.5.0a0"},
        ),
        build=structs.replace(one.build, inputs={"INPUT__0": (3, 224, 224)}),
        gates=(samples.gate(),),
        soak=Soak(
            "online", 1, 16, 600.0, 300_000, 119, (growth,), 24, ("a reason",), samples.estimate(0.93), 500.0
        ),
        price_per_hour=3.6,
        loads=(whole, *others),
        starts=(Start("offline", 0.4, 2.5, 12.5),),
        efficiency=(samples.efficiency(),),
        search=samples.search(load=first, accuracy=samples.accuracy()),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that holds the sample record."""
    path = files.path_of(complete().case, tmp_path)
    files.write(complete(), path)
    return path


def edited(path: Path, keys: Keys, value: Any) -> str:
    """What is said of the sample's file with another value where the keys lead, or without it for `GONE`; empty where it is
    read."""
    whole = data = json.loads(path.read_text())
    for key in keys[:-1]:
        data = data[key]
    if value is GONE:
        del data[keys[-1]]
    else:
        data[keys[-1]] = value
    file = path.with_name("edited.json")
    file.write_text(json.dumps(whole))
    (said,) = files.read_each([file]).unreadable.values() or ("",)
    return said.removeprefix(f"{file}: ")


def keys_of(value: Any, above: Keys = ()) -> Iterator[tuple[Keys, bool]]:
    """The way to every field of a struct in `value`, and whether a file must have it; of a list or a mapping the first
    item stands for all."""
    if isinstance(value, msgspec.Struct):
        for field in structs.fields(value):
            yield (*above, field.name), field.required
            yield from keys_of(getattr(value, field.name), (*above, field.name))
    elif isinstance(value, dict) and value:
        yield from keys_of(next(iter(value.values())), (*above, next(iter(value))))
    elif isinstance(value, tuple) and value:
        yield from keys_of(value[0], (*above, 0))


def place(keys: Keys) -> str:
    """The way to a value as msgspec writes it, but for the keys of mappings."""
    return "`$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys) + "`"


def test_a_record_comes_back_as_it_was_written(path: Path) -> None:
    assert files.read(path) == complete()


def test_a_record_without_its_optional_parts_comes_back(tmp_path: Path) -> None:
    bare = samples.record(conversion=None, accuracy=None, loads=())
    files.write(bare, tmp_path / "bare.json")
    assert files.read(tmp_path / "bare.json") == bare


def test_the_file_lies_where_the_case_says(tmp_path: Path) -> None:
    case = samples.record().case
    assert files.path_of(case, tmp_path) == tmp_path / "a40" / "a40-resnet50-onnx-trt-fp16.json"
    assert schema.case_id(structs.replace(case, accelerator=None)) == "a40-resnet50-onnx-fp16"


def test_all_records_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    samples.store(tmp_path, samples.random_weights(), samples.record())
    (tmp_path / "a40" / ".superseded.json").write_text("not a record")
    assert files.read_all(tmp_path) == [samples.record(), samples.random_weights()]


def test_every_file_of_a_folder_that_is_damaged_is_named_at_once(tmp_path: Path) -> None:
    samples.store(tmp_path, samples.random_weights(), samples.record())
    damaged = [tmp_path / "a40" / "first.json", tmp_path / "cpu" / "second.json"]
    for path in damaged:
        path.parent.mkdir(exist_ok=True)
        path.write_text("{")

    with pytest.raises(files.RecordError) as caught:
        files.read_all(tmp_path)

    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == list(map(str, damaged))


def test_a_copy_of_a_record_is_no_second_row(tmp_path: Path) -> None:
    path = files.path_of(samples.record().case, tmp_path)
    files.write(samples.record(), path)
    copy = path.with_name(f"{path.stem}-old.json")
    copy.write_bytes(path.read_bytes())

    with pytest.raises(files.RecordError, match=f"{copy}: holds the case whose file is {path}"):
        files.read_all(tmp_path)


def test_a_folder_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert files.read_all(tmp_path / "nowhere") == []


def test_every_required_key_that_is_missing_is_named(path: Path) -> None:
    required = [keys for keys, is_required in keys_of(complete()) if is_required]
    assert {("loads", 0, "latency_ms", "avg", "low"), ("accuracy", "disagreements", 0, "count")} <= set(
        required
    )
    for keys in (*required, ("schema",)):
        said = edited(path, keys, GONE)
        assert re.search(f"[`']{keys[-1]}[`']", said), keys
        assert all(str(key) in said for key in keys if key not in ("avg", "p99", "INPUT__0", 0)), keys


def test_a_key_that_is_there_twice_is_refused(path: Path) -> None:
    path.write_text(path.read_text().replace('"cores": 16', '"cores": 16, "c\\u006fres": 16'))
    with pytest.raises(files.RecordError, match="cores"):
        files.read(path)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("latency",), 1),
        (("machine", "latency"), 1),
        (("loads", 0, "throughput_per_s", "latency"), 1),
        (("case", "target"), None),
        (("case", "accelerator"), 1),
        (("case", "gpus"), 0),
        (("machine", "cores"), "16"),
        (("machine", "cores"), 16.5),
        (("machine", "cores"), -1),
        (("machine", "cores"), 2**60),
        (("machine", "versions"), []),
        (("machine", "cpu"), "x" * 30_000),
        (("build", "size_mib"), 1e300),
        (("build", "size_mib"), 10**400),
        (("deployment", "preferred_batch_sizes"), 64),
        (("deployment", "preferred_batch_sizes", 1), "128"),
        (("deployment", "warmup"), 1),
        (("conversion", "samples"), True),
        (("accuracy",), "passed"),
        (("accuracy", "scores", 0, "better"), "larger"),
        (("accuracy", "scores", 0, "limits", 0, "value"), "0.9"),
        (("accuracy", "disagreements", 0, "between"), ["converted"]),
        (("loads",), {}),
        (("loads", 0, "scenario"), "on line"),
        (("loads", 0, "passes", 0, "throughput_per_s"), 0),
        (("loads", 0, "throughput_per_s", "low"), "481.7"),
        (("loads", 0, "throughput_per_s", "confidence"), 1),
    ],
)
def test_a_value_that_no_field_may_have_is_named_with_its_place(keys: Keys, value: Any, path: Path) -> None:
    said = edited(path, keys, value)
    known = keys if keys[-1] != "latency" else keys[:-1]
    assert place(known) in said or (known == () and "latency" in said) or "out of range" in said
    assert said.endswith(". Delete the file and measure the case again.")


def test_a_whole_number_will_do_for_a_fraction_and_a_shape_may_be_open(path: Path) -> None:
    assert edited(path, ("build", "inputs", "INPUT__0"), [-1, 3, 0]) == ""
    assert edited(path, ("build", "inputs", "INPUT__0"), [-2]) != ""
    assert edited(path, ("build", "build_time_s"), 31) == ""
    assert type(files.read(path.with_name("edited.json")).build.build_time_s) is float


@pytest.mark.parametrize("kept", [0, 1, 400, -2])
def test_a_truncated_file_is_named(kept: int, path: Path) -> None:
    path.write_text(path.read_text()[:kept])
    with pytest.raises(
        files.RecordError, match=rf"^{re.escape(str(path))}: not JSON .*measure the case again"
    ):
        files.read(path)


def test_a_file_that_is_not_text_is_named(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(files.RecordError, match=r"not JSON"):
        files.read(path)


@pytest.mark.parametrize("text", ["[]", "null", '"record"'])
def test_json_that_is_no_record_is_refused(text: str, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(files.RecordError, match=rf"^{re.escape(str(path))}: "):
        files.read(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(files.RecordError, match=r"gone\.json: cannot be read: No such file"):
        files.read(tmp_path / "gone.json")


@pytest.mark.parametrize("version", [0, schema.SCHEMA + 1, "1", True, 1.5])
def test_another_schema_is_refused_with_both_versions(version: Any, path: Path) -> None:
    said = edited(path, ("schema",), version)
    assert repr(version) in said
    assert f"reads {schema.SCHEMA}" in said


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused_on_reading(number: float, path: Path) -> None:
    assert "not JSON" in edited(path, ("build", "size_mib"), number)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_refused_on_writing_and_the_old_file_stays(
    number: float, path: Path
) -> None:
    broken = samples.record(loads=(samples.load("offline", 1, number),))
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write(broken, path)
    assert files.read(path) == complete()
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_writing_that_breaks_off_leaves_the_old_file_alone(
    step: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(step, full)
    with pytest.raises(OSError, match="No space left"):
        files.write(samples.random_weights(), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_until_the_last_step_the_file_is_the_old_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = path.read_bytes(), []
    monkeypatch.setattr("os.fsync", lambda _: seen.append(path.read_bytes()))
    files.write(samples.random_weights(), path)
    assert seen == [before]
    assert files.read(path) == samples.random_weights()


def test_whoever_may_read_the_folder_may_read_a_record(path: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode


def test_a_written_file_keeps_its_mode(path: Path) -> None:
    path.chmod(0o640)
    files.write(samples.record(), path)
    assert path.stat().st_mode & 0o777 == 0o640
