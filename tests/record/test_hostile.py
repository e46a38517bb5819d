"""Records from strangers: each command refuses them in one line, or shows their text escaped."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from tests import sample_records
from tests.conftest import Reports
from tests.reports.every_output import PRINTING, READING, words_of
from tritonproof.base import disk
from tritonproof.record import Record, correctness, record_files

Keys = tuple[str | int, ...]

LOAD = msgspec.to_builtins(sample_records.complete_but_wrong().points[0])
SWEEP = [LOAD | {"point": LOAD["point"] | {"batch": number}} for number in range(1, 502)]
LATENCIES = {"avg": 1.0} | {f"p{number}": 1.0 for number in range(200)}
HOSTILE: dict[str, tuple[Keys, str]] = {
    # Limits of one value.
    "no finite number": (("points", 0, "throughput_per_s", "high"), "1e999"),
    "NaN": (("build", "size_mib"), "NaN"),
    "a size beyond any": (("build", "size_mib"), "1e300"),
    "a time below zero": (("build", "build_time_s"), "-1"),
    "a share above one": (("points", 0, "comparison", "p_value"), "1.5"),
    "a slow-down to nothing": (("points", 0, "comparison", "allowed_slowdown"), "1"),
    "a batch of zero": (("points", 0, "point", "batch"), "0"),
    "more instances than a double counts": (("deployment", "instances"), str(2**63)),
    "a latency next to zero": (("points", 0, "passes", 0, "latency_ms", "avg"), "5e-324"),
    "an interval of no confidence": (("points", 0, "throughput_per_s", "confidence"), "0"),
    "an axis below -1": (("build", "inputs", "INPUT__0"), "[-2]"),
    "a name of 100,000 letters": (("machine", "cpu"), '"' + "x" * 100_000 + '"'),
    "another folder": (("case", "target"), '".."'),
    "a path": (("case", "model"), '"a/b"'),
    "a precision that acts on a terminal": (("case", "precision"), '"\\u001b[2J"'),
    "a load of an unknown scenario": (("points", 0, "point", "scenario"), '"onlin"'),
    "a name that is no word": (("gates", 0, "gate"), '"a b"'),
    # Structure.
    "an unknown key far down": (("points", 0, "throughput_per_s", "latency"), "1"),
    "a missing key": (("points", 0, "throughput_per_s"), '{"value": 1.0, "low": 1.0}'),
    "another schema": (("schema",), "2"),
    "nothing but brackets": (("machine", "cpu"), "[" * 100_000),
    "one stage of two": (("accuracy", "disagreements", 0, "between"), '["converted"]'),
    "501 load points": (("points",), json.dumps(SWEEP)),
    "201 latencies": (("points", 0, "passes", 0, "latency_ms"), json.dumps(LATENCIES)),
    # Parts that contradict each other.
    "a name longer than any file's": (("case", "model"), '"' + "x" * 250 + '"'),
    "no precision of a conversion": (("case", "precision"), '""'),
    "a load point twice": (("points", 1), json.dumps(LOAD)),
    "a speed next to zero": (("points", 0, "throughput_per_s"), '{"value": 5e-324, "low": 0, "high": 1}'),
    "a warm-up without loadings": (("model_warmup",), '{"batch": 1, "first_ms": [], "later_ms": []}'),
    "a warm-up of half loadings": (("model_warmup",), '{"batch": 1, "first_ms": [1, 2], "later_ms": [1]}'),
    "a growth beyond its interval": (("soak", "growth", 0, "slope"), '{"value": -9000, "low": 1, "high": 2}'),
    "a rate of nobody's arrivals": (("points", 0, "point", "request_rate_per_s"), "10"),
    "arrivals of no rate": (("points", 0, "point", "arrivals"), '"poisson"'),
    "a soak with nothing in flight": (("soak", "point", "concurrency"), "0"),
    "no p99": (("points", 1, "latency_ms"), '{"avg": {"value": 1.0, "low": 1.0, "high": 1.0}}'),
    "a pass without its mean": (("points", 0, "passes", 0, "latency_ms"), '{"p99": 1.0}'),
    "one component alone": (("points", 0, "components_ms"), '{"server_queue": 1.0}'),
    "a budget of no percentile": (("points", 0, "latency_budget", "percentile"), '"p42"'),
    "a percentile that is none": (("search", "percentile"), '"p42"'),
    "a ledger of no sample": (("accuracy", "samples"), "0"),
}
"""The keys to a field of a record, and the JSON to put there, by the fault."""


def stored(results: Path, keys: Keys, content: str, record: Record | None = None) -> Path:
    """Store a record, by default a complete one, with this JSON at these keys."""
    path = record_files.record_path(sample_records.complete_but_wrong().case, results)
    record_files.write(record or sample_records.complete_but_wrong(), path)
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
    with pytest.raises(record_files.RecordError) as raised:
        record_files.read(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    assert len(message) < 1000


@pytest.mark.parametrize(
    "content",
    [b"[]", b"", b'{"case": {"target": "a40", ', b"\xff\xfe\x00", "{}".encode("utf-16")],
    ids=["no object", "nothing", "half a record", "no text", "another encoding"],
)
def test_non_record_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_bytes(content)
    with pytest.raises(record_files.RecordError, match=str(path)):
        record_files.read(path)
    with pytest.raises(record_files.RecordError, match=r"gone\.json"):
        record_files.read(tmp_path / "gone.json")


@pytest.mark.parametrize("what", ["a speed next to zero", "a pipe"])
@pytest.mark.parametrize("command", READING)
def test_each_command_refuses_hostile_record_by_file(
    command: str, what: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    path = stored(tmp_path / "results", *HOSTILE["a speed next to zero"])
    if what == "a pipe":  # a command must not wait for it
        path.unlink()
        os.mkfifo(path)
    message = refused(*words_of(command, tmp_path / "results", tmp_path))
    assert message.startswith(f"error: {path}: ")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("keys", [("machine", "cpu"), ("machine", "gpu"), ("gates", 0, "fault")], ids=str)
def test_control_characters_are_shown_escaped(keys: Keys, tmp_path: Path, reports: Reports) -> None:
    text = "\x1b]0;owned\x07 CPU \u202egnp.exe \x9b31m red\r\n::error::x"
    # Without accuracy the plots of a wrong case have nothing to show, and say why.
    accuracy = None if keys[0] == "gates" else sample_records.accuracy()
    record = sample_records.record(accuracy=accuracy, gates=(sample_records.gate(),))
    stored(tmp_path / "results", keys, json.dumps(text), record)
    for command in (*PRINTING, "html", "plots"):
        status, out, err = reports(*words_of(command, tmp_path / "results", tmp_path))
        assert status == 0, command
        assert all(character.isprintable() or character in "\n\t" for character in out + err), command
    assert "\\x1b" in reports("tables", "--results", tmp_path / "results").out
    assert not {"\x1b", "\u202e"} & {*(tmp_path / "page.html").read_text()}


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\n::error::b", "a\udce9b"])
@pytest.mark.parametrize("path", ["cpu/{}.json", "{}/x.json"])
def test_forged_file_name_is_refused_on_one_line(
    path: str, name: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    results = sample_records.store(tmp_path / "results", sample_records.record())
    for content in (b"{}", record_files.encode(sample_records.record())):
        disk.write_atomically(results / path.format(name), content)
        for command in ("tables.md", "compare", "merge"):
            message = refused(*words_of(command, results, tmp_path))
            assert message.startswith(f"error: {results}/")
            assert message.rstrip("\n").isprintable(), command


def test_server_text_in_records_is_escaped_and_readable(tmp_path: Path) -> None:
    text = "\x1b[31m" + "no \0 memory " * 10_000
    gate = correctness.GateResult("repeated", 3, "twice", text)
    record = structs.replace(sample_records.complete_but_wrong(), gates=(gate,))
    record_files.write(record, tmp_path / "case.json")
    assert record_files.read(tmp_path / "case.json").gates[0].fault.startswith("\\x1b[31mno \\x00 memory ")
