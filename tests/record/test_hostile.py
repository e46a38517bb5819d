"""Records from strangers: each command refuses them in one line, or shows their text escaped."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from reports.__main__ import main
from reports.record import disk, files
from reports.record.schema import AnswerGate, OutputDifference, Record, SameAnswers
from tests import examples
from tests.conftest import Reports
from tests.helpers import PRINTING, READING, words_of
from tests.record.test_record import complete

Keys = tuple[str | int, ...]

HOSTILE: dict[str, tuple[Keys, str]] = {
    "no finite number": (("loads", 0, "throughput_per_s", "high"), "1e999"),
    "a number of 400 digits": (("loads", 0, "latency_ms", "p99", "high"), "9" * 400),
    "a number of 5,000 digits": (("machine", "cores"), "9" * 5000),
    "a speed of zero": (("loads", 0, "throughput_per_s", "value"), "0"),
    "a latency below zero": (("loads", 0, "latency_ms", "p99", "value"), "-1"),
    "a latency next to zero": (("loads", 0, "passes", 0, "latency_ms", "avg"), "5e-324"),
    "a batch of zero": (("loads", 0, "batch"), "0"),
    "more instances than a double counts": (("deployment", "instances"), str(2**63)),
    "a peak of zero": (("efficiency", 0, "peak_flops_per_s"), '{"value": 0, "low": 0, "high": 0}'),
    "a rate of nobody's arrivals": (("loads", 0, "request_rate_per_s"), "10"),
    "a budget of zero": (("search", "budget_ms"), "0"),
    "a percentile that is none": (("search", "percentile"), '"p42"'),
    "nothing but brackets": (("machine", "cpu"), "[" * 100_000),
    "a name of 100,000 letters": (("machine", "cpu"), '"' + "x" * 100_000 + '"'),
    "a model whose name is longer than any file's": (("case", "model"), '"' + "x" * 4000 + '"'),
    "a load point twice": (("loads", 1), json.dumps(msgspec.to_builtins(complete().loads[0]))),
    "501 load points": (("loads",), json.dumps([msgspec.to_builtins(complete().loads[0])] * 501)),
    "17 MB": (("machine", "cpu"), '"' + "x" * 17 * 2**20 + '"'),
    "a comparison whose interval is the wrong way round": (
        ("loads", 0, "comparison", "ratio"),
        '{"value": 1.0, "low": 1.2, "high": 0.9}',
    ),
    "a ratio below zero": (("loads", 0, "comparison", "ratio"), '{"value": -1, "low": -2, "high": 0}'),
    "a growth beyond its interval": (("soak", "growth", 0, "slope"), '{"value": -9000, "low": 1, "high": 2}'),
    "a speed that ends below zero": (("soak", "end_over_begin"), '{"value": -1, "low": -2, "high": 1}'),
    "a goodput outside its interval": (("search", "goodput_per_s"), '{"value": 5, "low": 1, "high": 2}'),
    "NaN": (("build", "size_mib"), "NaN"),
    "a size beyond any": (("build", "size_mib"), "1e300"),
    "an unknown key": (("latency",), "1"),
    "an unknown key far down": (("loads", 0, "throughput_per_s", "latency"), "1"),
    "no target": (("case", "target"), "null"),
    "no GPU to serve on": (("case", "gpus"), "0"),
    "a number as a text": (("machine", "cores"), '"16"'),
    "cores below zero": (("machine", "cores"), "-1"),
    "a direction of no metric": (("accuracy", "scores", 0, "better"), '"larger"'),
    "one stage of two": (("accuracy", "disagreements", 0, "between"), '["converted"]'),
    "an axis below -1": (("build", "inputs", "INPUT__0"), "[-2]"),
    "200 latencies": (
        ("loads", 0, "passes", 0, "latency_ms"),
        json.dumps({f"p{number}": 1.0 for number in range(201)}),
    ),
    **{
        f"{value!r} as {key}": (("case", key), json.dumps(value))
        for key in ("target", "model", "format", "accelerator", "precision")
        for value in ("..", ".", "", "/", "a/b", "../../x", "a\\0b", "a\nb", "a b", "\x1b[2J")
        if key != "precision" or value not in ("..", ".")
    },
    **{f"schema {value}": (("schema",), value) for value in ("0", "2", '"1"', "true", "1.5")},
    "a ledger of no sample": (("accuracy", "samples"), "0"),
    "a score below its floor that passed": (("accuracy", "scores", 0, "served"), "-1"),
    "a ledger that passed without its scores": (("accuracy", "scores", 0, "passed"), "false"),
    "a ledger that passed without agreement": (("accuracy", "disagreements", 0, "agreement"), "0.5"),
    "a ledger that passed with an output far off": (
        ("accuracy", "outputs"),
        json.dumps([msgspec.to_builtins(OutputDifference("y", "error", 0.5, 0.1, 0.5, 0.1, "a", 0, 1, "x"))]),
    ),
    "a ledger that passed with other answers each time": (
        ("accuracy", "same_answers"),
        json.dumps(msgspec.to_builtins(SameAnswers(16, 96, 0.5, 0.9, passed=False))),
    ),
    "a winner below its floor that passed": (("search", "accuracy", "scores", 0, "served"), "-1"),
    "an interval of no confidence": (("loads", 0, "throughput_per_s", "confidence"), "0"),
    "an interval of certainty": (("loads", 0, "throughput_per_s", "confidence"), "1"),
    "a load of an unknown scenario": (("loads", 0, "scenario"), '"onlin"'),
    "a start of an unknown scenario": (("starts", 0, "scenario"), '"onlin"'),
    "a soak of no time": (("soak", "duration_s"), "0"),
    "a soak of no speed": (("soak", "requests_per_s"), "-0.0"),
    "a soak of an unknown scenario": (("soak", "scenario"), '"onlin"'),
    "no p99": (("loads", 0, "latency_ms"), '{"avg": {"value": 1.0, "low": 1.0, "high": 1.0}}'),
}
"""The keys to a field of a record, and the JSON to put there, by the fault."""


def stored(results: Path, keys: Keys, content: str, record: Record | None = None) -> Path:
    """Store a record, by default a complete one, with this JSON at these keys."""
    path = files.path_of(complete().case, results)
    files.write(record or complete(), path)
    contents = json.loads(path.read_bytes())
    data: Any = contents
    for key in keys[:-1]:
        data = data[key]
    data[keys[-1]] = "HERE"
    path.write_text(json.dumps(contents).replace('"HERE"', content))
    return path


@pytest.mark.parametrize("what", HOSTILE)
def test_impossible_record_is_refused(what: str, tmp_path: Path) -> None:
    path = stored(tmp_path, *HOSTILE[what])
    with pytest.raises(files.RecordError) as raised:
        files.read(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    assert len(message) < 1000


CONTENTS = {
    "no object": b"[]",
    "a word": b"null",
    "nothing": b"",
    "half a record": b'{"case": {"target": "a40", ',
    "no text": b"\xff\xfe\x00",
    **{kind: "{}".encode(kind) for kind in ("utf-8-sig", "utf-16", "utf-32")},
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_non_record_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_bytes(content)
    with pytest.raises(files.RecordError, match=str(path)):
        files.read(path)
    with pytest.raises(files.RecordError, match=r"gone\.json"):
        files.read(tmp_path / "gone.json")


@pytest.mark.parametrize("what", ["a speed of zero", "a pipe"])
@pytest.mark.parametrize("command", READING)
def test_each_command_refuses_hostile_record_by_file(
    command: str, what: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    path = stored(tmp_path / "results", *HOSTILE["a speed of zero"])
    if what == "a pipe":  # a command must not wait for it
        path.unlink()
        os.mkfifo(path)
    message = refused(*words_of(command, tmp_path / "results", tmp_path))
    assert message.startswith(f"error: {path}: ")
    assert len(message.splitlines()) == 1


def test_control_characters_are_shown_escaped(tmp_path: Path, reports: Reports) -> None:
    text = "\x1b]0;owned\x07 CPU \u202egnp.exe \x9b31m red\r\n::error::x"
    machine = msgspec.to_builtins(examples.record().machine) | {"cpu": text, "gpu": text}
    stored(tmp_path / "results", ("machine",), json.dumps(machine), examples.record())
    for command in (*PRINTING, "html", "plots"):
        status, out, err = reports(*words_of(command, tmp_path / "results", tmp_path))
        assert status == 0, command
        assert all(character.isprintable() or character in "\n\t" for character in out + err)
    assert "\\x1b" in reports("tables", "--results", tmp_path / "results").out


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\n::error::b", "a\tb", "a\udce9b"])
@pytest.mark.parametrize("place", ["cpu/{}.json", "{}/x.json"])
def test_forged_file_name_is_refused_on_one_line(
    place: str, name: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    results = examples.store(tmp_path / "results", examples.record())
    for content in (b"{}", files.encode(examples.record())):
        disk.replace(results / place.format(name), content)
        for command in ("tables.md", "compare", "merge"):
            message = refused(*words_of(command, results, tmp_path))
            assert message.startswith(f"error: {results}/")
            assert message.rstrip("\n").isprintable(), command


def test_forged_name_of_history_is_shown_on_one_line(tmp_path: Path, reports: Reports) -> None:
    disk.replace(tmp_path / "a\n::error::b.jsonl", b"{}\n")
    message, *_ = reports("trend", "--history", tmp_path).err.splitlines()
    assert message.startswith(f"{tmp_path}/a\\n::error::b.jsonl, line 1: ")


@pytest.mark.parametrize("option", ["html --results", "merge a --output", "compare"])
def test_empty_path_is_refused(option: str) -> None:
    with pytest.raises(SystemExit, check=lambda end: end.code == 4):
        main([*option.split(), ""])


def test_home_of_nobody_is_refused(refused: Callable[..., str]) -> None:
    assert refused("merge", "~nobody-of-this-name/x", "--output", "y").startswith("error: ~nobody")


def test_server_text_in_records_is_escaped_and_readable(tmp_path: Path) -> None:
    text = "\x1b[31m" + "no \0 memory " * 10_000
    record = structs.replace(complete(), gates=(AnswerGate("repeated", 3, "twice", text),))
    files.write(record, tmp_path / "case.json")
    assert files.read(tmp_path / "case.json").gates[0].wrong.startswith("\\x1b[31mno \\x00 memory ")
