"""Whole runs that only convert, or convert before the tests."""

import json
from pathlib import Path

import pytest

from tests.user_models import networks
from tests.whole_runs.suite import GIVEN, suite

INT8 = GIVEN.replace("fp32", "int8")
"""The case in INT8, calibrated with samples."""
PAIR = ("-k", "onnx and conversion and (fp32 or int8)")
LARGE_MACHINE = """
from fixtures.host import machine
from fixtures.plugin import converting

machine.cores, converting._WORKER_BYTES = lambda: 2, 1
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for plugins of the runs that a test starts."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def both(given: tuple[str, ...], tmp_path: Path) -> tuple[str, ...]:
    """The options of a run of both cases."""
    return (*given, "--samples", str(networks.rows(tmp_path / "samples", 64)))


def test_cases_are_converted_before_tests_and_reused(
    both: tuple[str, ...], plugins: Path, tmp_path: Path
) -> None:
    (plugins / "large.py").write_text(LARGE_MACHINE)
    models, results = tmp_path / "models", tmp_path / "results"

    done = suite(*both, "-v", *PAIR, "-p", "large", repos=models, results=results)

    assert done.status == 0, done.text
    for case in (GIVEN, INT8):
        assert f"{case}: built in" in done.text
        written = json.loads((models / "cpu" / case / "build.json").read_text())
        assert done.record(case).build.build_time_s == written["build_time_s"]
    assert {path.name for path in models.iterdir()} == {"cpu"}

    alone = suite(*both, "-v", "-k", "onnx and (fp32 or int8)", "--convert-only", repos=models)

    assert alone.status == 0, alone.text
    for case in (GIVEN, INT8):
        assert f"{case}: unchanged, reused" in alone.text
    assert "2 passed" in alone.text
    assert "start Triton" not in alone.text
    assert "records:" not in alone.text
