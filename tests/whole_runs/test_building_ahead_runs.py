"""Whole runs that convert models alone, or ahead of the tests that need them."""

import json
from pathlib import Path

import pytest

from reports.run.outcomes import STATUS
from tests.given import networks
from tests.whole_runs.suite import GIVEN, suite

NEXT = GIVEN.replace("fp32", "int8")
"""The case after it, which is calibrated with samples."""
PAIR = ("-k", "onnx and conversion and (fp32 or int8)")
LARGE_MACHINE = """\
from fixtures.host import machine

machine.cores, machine.memory_gib = lambda: 2, lambda: 16
"""
PATIENT = """
import time
from pathlib import Path

import pytest

from fixtures.host import locks


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    \"\"\"The second case begins when it is built, however long that takes on a busy machine.\"\"\"
    built = Path(item.config.option.model_repos) / "cpu" / "{case}" / "build.json"
    deadline = time.monotonic() + 600
    with locks.hold_machine(exclusive=False):
        while "{case}" in item.name and not built.exists():
            assert time.monotonic() < deadline, "nothing was built ahead"
            time.sleep(0.05)
"""
UNCONVERTIBLE = """
from fixtures.errors import ProofError
from fixtures.formats import onnx


def export(*_):
    raise ProofError("it cannot be exported")


onnx.export = export
"""
BROKEN = """
import sys

from fixtures.run import building_ahead

building_ahead.command_for = lambda *_: [sys.executable, "-c", "raise SystemExit('it breaks')"]
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for plugins of a run that a test starts; what that run starts does not know of it."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def both(given: tuple[str, ...], tmp_path: Path) -> tuple[str, ...]:
    """The options of a run of both cases."""
    return (*given, "--samples", str(networks.rows(tmp_path / "samples", 64)))


def test_the_next_case_is_built_ahead_and_later_runs_find_it(
    both: tuple[str, ...], plugins: Path, tmp_path: Path
) -> None:
    (plugins / "patient.py").write_text(LARGE_MACHINE + PATIENT.format(case=NEXT))
    models, results = tmp_path / "models", tmp_path / "results"

    done = suite(*both, "-v", *PAIR, "-p", "patient", repos=models, results=results)

    assert done.status == 0, done.text
    assert f"{GIVEN}: built in" in done.text
    assert f"{NEXT}: built ahead in" in done.text
    written = json.loads((models / "cpu" / NEXT / "build.json").read_text())
    assert done.record(NEXT).build.build_time_s == written["build_time_s"] > 0
    assert {path.name for path in models.iterdir()} == {"cpu"}

    alone = suite(*both, "-v", "-k", "onnx and (fp32 or int8)", "--convert-only", repos=models)

    assert alone.status == 0, alone.text
    for case in (GIVEN, NEXT):
        assert f"{case}: unchanged, reused" in alone.text
    assert "2 passed" in alone.text
    assert "start Triton" not in alone.text
    assert "records:" not in alone.text


@pytest.mark.campaign
def test_building_ahead_that_fails_changes_nothing(
    both: tuple[str, ...], plugins: Path, tmp_path: Path
) -> None:
    (plugins / "broken.py").write_text(LARGE_MACHINE + BROKEN)

    done = suite(*both, "-v", *PAIR, "-p", "broken", repos=tmp_path / "models", results=tmp_path / "results")

    assert done.status == 0, done.text
    for case in (GIVEN, NEXT):
        assert f"{case}: built in" in done.text
        assert done.record(case).conversion is not None
    assert "it breaks" not in done.text


@pytest.mark.campaign
def test_a_model_that_cannot_be_converted_is_a_failure_of_converting_alone(
    given: tuple[str, ...], plugins: Path, tmp_path: Path
) -> None:
    (plugins / "unconvertible.py").write_text(UNCONVERTIBLE)
    options = ("-p", "unconvertible", "-k", GIVEN, "--convert-only")

    done = suite(*given, *options, repos=tmp_path / "models", results=tmp_path)

    assert done.status == STATUS["infrastructure"], done.text
    assert f"test_build[{GIVEN}]" in done.text
