"""The files of the reports: records, what lies beside them, a README's markers; and what the load generator writes."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
from msgspec import structs

from fixtures.build import integrity
from fixtures.gates import recorded
from fixtures.gates.recorded import RecordedAnswers
from fixtures.measure import perf_analyzer_files
from fixtures.measure.perf_analyzer_files import BadRunError
from fixtures.prove.sameness import Closeness
from reports.__main__ import main
from reports.record import files, per_sample
from reports.record.files import RecordError
from reports.record.per_sample import Part, Sample, SampleScores
from reports.text.publishable import publishable
from tests import rendered as tables
from tests import samples as sample
from tests.fuzz import damage
from tests.fuzz.parsers import Parser
from tests.record.test_record import complete

_RECORD = structs.replace(complete(), accuracy=sample.accuracy())
_SUMMARY = "<!-- tritonproof:summary -->\n<!-- /tritonproof:summary -->"
_README = f"""\
# A page
{_SUMMARY}

```text
<!-- tritonproof:machine -->
```
<!-- tritonproof:case a40-resnet50-onnx-trt-fp16 -->
old
<!-- /tritonproof:case a40-resnet50-onnx-trt-fp16 -->
"""
_FACTS = {
    "digest": "0" * 64,
    "weights": "random",
    "build_time_s": 1.5,
    "size_mib": 2.25,
    "content": {"case": "x"},
}


class RefusedError(Exception):
    """A command has ended with an error, which this says."""


def _write_record(folder: Path) -> None:
    files.write(_RECORD, folder / "case.json")


def _read_record(path: Path) -> object:
    """What is not refused can be shown."""
    record = files.read(path)
    one = publishable(record)
    return tables.summary_table([one]), tables.case_section(one), tables.machine_sentence([one])


def _write_scores(folder: Path) -> None:
    worst = Sample("b", "wrong", (Part("text", "said", "seven"), Part("image", "seen", "iVBORw0KGgo=")))
    scores = {"top-1": dict.fromkeys(per_sample.STAGES, (1.0, 0.0))}
    per_sample.write(
        SampleScores(_RECORD.case, "0f3c", ("a", "b"), scores, (worst,)), folder / "case.samples.json"
    )


def _write_page(folder: Path) -> None:
    (folder / "README.md").write_text(_README)
    files.write(_RECORD, files.path_of(_RECORD.case, folder / "results"))


def _read_markers(path: Path) -> object:
    """By the command, at whose border the words of a page are made fit for a terminal. It changes the page."""
    text = path.read_bytes()
    # A page without any marker is told what markers are, in several lines; this one has some.
    path.write_bytes(f"{_SUMMARY}\n".encode() + text)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = main(["readme", str(path), "--results", str(path.parent / "results")])
    if status:
        raise RefusedError(said.getvalue().removeprefix("error: ").rstrip("\n"))
    return status


def _write_build(folder: Path) -> None:
    (folder / "1").mkdir(exist_ok=True)
    (folder / "1" / "model.onnx").write_bytes(b"weights")
    integrity.write_facts(folder, _FACTS)


def _read_build(path: Path) -> object:
    integrity.was_changed(path.parent)
    found = integrity.facts_if_whole(path.parent)
    assert found in (None, _FACTS), "a build with other facts counts as whole"
    return found


def _write_answers(folder: Path) -> None:
    rows = {"a": {"y": np.arange(3, dtype=np.float32)}, "b": {"y": np.ones(3, np.float32)}}
    found = RecordedAnswers(
        "toy", "cpu-toy", "2.51.0", "0" * 32, Closeness(0.1, 0.1, 1.0), dict.fromkeys(rows, "0" * 16), rows
    )
    (folder / "toy.npz").write_bytes(recorded.encoded(found))


def _write_profile(folder: Path) -> None:
    requests = [{"timestamp": 10**18 + n, "response_timestamps": [10**18 + n + 50]} for n in range(0, 90, 30)]
    experiment = {"requests": requests, "window_boundaries": [10**18, 10**18 + 100]}
    (folder / "profile.json").write_text(json.dumps({"experiments": [experiment]}))


def _read_profile(path: Path) -> object:
    found = perf_analyzer_files.read_profile(path, 2)
    assert len(found.starts) == len(found.ends) > 0
    return found


def _write_table(folder: Path) -> None:
    columns = "Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv"
    (folder / "table.csv").write_text(f"Concurrency,{columns}\n4,100,200,300,400,8000,600,400\n")


def _read_table(path: Path) -> object:
    found = perf_analyzer_files.read_table(path)
    assert all(0 <= value < float("inf") for value in found.values()), found
    return found


PARSERS = (
    Parser("record", "case.json", _write_record, damage.json_of, _read_record, (RecordError,)),
    Parser("scores", "case.samples.json", _write_scores, damage.json_of, per_sample.read, (RecordError,)),
    Parser("markers", "README.md", _write_page, damage.text_of, _read_markers, (RefusedError,)),
    Parser("build", "build.json", _write_build, damage.json_of, _read_build, ()),
    Parser("answers", "toy.npz", _write_answers, damage.archive_of, recorded.read),
    Parser(
        "profile",
        "profile.json",
        _write_profile,
        damage.json_of,
        _read_profile,
        (BadRunError,),
        names="profile",
        found=(b"[" * 100_000,),
    ),
    Parser(
        "table",
        "table.csv",
        _write_table,
        damage.text_of,
        _read_table,
        (BadRunError,),
        names="table",
        found=(b"Client Send\n" + b"[" * 100_000, b"Client Send\n\x1b[31m", b"a" * 200_000),
    ),
)
