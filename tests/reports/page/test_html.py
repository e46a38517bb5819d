"""The HTML page as text: it says which configuration to deploy, loads nothing, and escapes foreign text."""

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from tests import sample_records
from tests.conftest import Reports
from tests.helpers import present
from tests.reports.page.pages import page_of, unmeasured, words
from tests.sample_records import AS_FAST, FAST, HIDDEN, ONNX, SLOW
from tritonproof.record import Record, record_files, sample_files, setup
from tritonproof.record.sample_files import Sample, SamplePart, SampleScores
from tritonproof.record.speed import Mark
from tritonproof.reports.page import fastest
from tritonproof.run import record_updates

EVIL = "<script>alert('x')</script>"


def test_page_may_load_nothing_and_run_only_its_own_script(tmp_path: Path) -> None:
    whole = page_of(tmp_path, sample_records.swept())
    policy = html.unescape(whole.partition("Content-Security-Policy")[2].partition(">")[0])
    script = re.search(r"<script>(.*?)</script>", whole, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(present(script)[1].encode()).digest()).decode()
    assert "default-src 'none'; img-src data:;" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert whole.count("<script") == 1


def test_text_from_files_is_escaped(tmp_path: Path) -> None:
    result = sample_records.measured("offline", 1, 100.0, marks=(Mark("cpu-shared", EVIL), Mark(EVIL, EVIL)))
    plain = sample_records.record()
    accuracy = sample_records.accuracy(sample_records.score(metric=EVIL), samples=2)
    machine = structs.replace(plain.machine, cpu=EVIL, gpu=EVIL, system=EVIL, versions={EVIL: EVIL})
    build = structs.replace(plain.build, weights_source=EVIL, format=EVIL, library=EVIL)
    record = sample_records.record(machine=machine, build=build, accuracy=accuracy, points=(result,))
    sample = Sample(EVIL, EVIL, (SamplePart("text", EVIL, EVIL), SamplePart("image", EVIL, f'"{EVIL}')))
    sample_scores = SampleScores(record.case, record.build.digest, (EVIL, "b"), {}, (sample,))
    sample_files.write(sample_scores, sample_files.samples_path(record.case, tmp_path))
    config = record_files.record_path(record.case, tmp_path).with_suffix(record_files.CONFIG_SUFFIX)
    record_updates.write_beside(config, EVIL.encode())

    whole = page_of(tmp_path, record)

    assert whole.count("<script") == 1
    assert words(whole).count("alert(") > 10, "what is escaped is still there to read"


def test_command_writes_selected_cases(tmp_path: Path, reports: Reports) -> None:
    other = unmeasured(case=setup.CaseKey("cpu", "bert-dist4l", "onnx", None, "fp32"))
    results, output = sample_records.store(tmp_path, unmeasured(), other) / "cpu", tmp_path / "report.html"
    (results / f"{other.name}.config.pbtxt").touch()
    result = reports("html", "--results", results, "-k", "bert", "--output", output)
    assert (result.status, result.out) == (0, "")
    assert result.err == f"{output}: wrote {output.stat().st_size / 2**20:.3f} MiB\n"
    assert "No config.pbtxt lies" not in output.read_text()
    assert re.findall(r'<section[^>]* id="([^"]*)"', output.read_text()) == ["cpu-bert-dist4l-onnx-fp32"]


FAILED = structs.replace(FAST, accuracy=sample_records.failed_accuracy())
UNMEASURED = structs.replace(ONNX, points=(), efficiency=())
ONNX_ALONE, FAST_ALONE = (structs.replace(record, efficiency=()) for record in (ONNX, FAST))

DEPLOYED: dict[str, tuple[Sequence[Record], Sequence[Record]]] = {
    "the fastest": ([ONNX, FAST, SLOW], [FAST]),
    "a wrong one": ([ONNX, FAILED, SLOW], [ONNX]),
    "another that is faster, with a hidden ratio": ([ONNX, HIDDEN], []),
    "not told apart": ([ONNX, FAST, AS_FAST], [FAST, AS_FAST]),
    "the only right one": ([ONNX_ALONE, FAILED], [ONNX]),
    "not measured in turns": ([ONNX_ALONE, FAST_ALONE], []),
    "none measured": ([UNMEASURED, FAILED], []),
}


@pytest.mark.parametrize(("records", "chosen"), DEPLOYED.values(), ids=DEPLOYED.keys())
def test_right_and_fast_configurations_may_be_deployed(
    records: Sequence[Record], chosen: Sequence[Record]
) -> None:
    names = [record.name for record in fastest(sample_records.seen(*records))]
    assert names == [record.name for record in chosen]
