"""A test that fails without a result is recorded as failed, which hides later speeds."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import recorded
from tests.helpers import WITHOUT, write_benchmarks
from tritonproof.host.run_origin import own_run
from tritonproof.record import record_files
from tritonproof.reports.publishable import Publishable, publishable
from tritonproof.reports.text.correctness import unmeasured_text

BENCHMARKS = """\
import dataclasses, os
from types import SimpleNamespace
import pytest
from msgspec import structs
from tritonproof.base.errors import AccuracyError, NotAvailableError
from tritonproof.host.run_origin import origin
from fixtures.recorder import Recorder
from fixtures.runs import run_identity
from fixtures.steps import step_of
from tritonproof.cases import cases_of
from tritonproof.host.targets import TARGETS
from tritonproof.record.schema import Start
from tests import recorded

RECORD = recorded.record(conversion=None, accuracy=None, points=(), gates=())
START = Start("offline", 1.0, 1.0, 1.0)
FAILURES = {
    "nan": AccuracyError("NaN for 3 of 26 samples", where="output OUTPUT__0"),
    "bug": ZeroDivisionError("division by zero"),
    "elsewhere": NotAvailableError("needs an A100"),
}

def fail_in(step):
    where, _, how = os.environ.get("FAILS", "").partition(" ")
    if where == step:
        raise FAILURES[how]

@pytest.fixture
def run(settings):
    case = next(case for target in TARGETS for case in cases_of(target) if case.key == RECORD.case)
    loader = SimpleNamespace(serving_entry=RECORD.serving, starts={"offline": START})
    return SimpleNamespace(requested=case, settings=settings, loader=loader, machine=RECORD.machine)

@pytest.fixture
def recorder(request, settings, run):
    test = step_of(request.node) or "", request.node.originalname
    come_from = origin("cpu", run_identity(request.config))
    fail_in("build")
    return Recorder(RECORD, run, "", come_from, request.node.user_properties, *test)

@pytest.fixture(scope="session")
def steps():
    fail_in("fixture")

@pytest.mark.step("conversion")
def test_conversion(recorder):
    recorder.record(conversion=recorded.record().conversion)

@pytest.mark.step("accuracy")
def test_accuracy(steps, recorder):
    fail_in("test")
    recorder.record(accuracy=recorded.accuracy())
    fail_in("end")

@pytest.mark.step("gates")
def test_same_answer_again(recorder):
    fail_in("answers")
    recorder.record(gates=(recorded.gate(),))

@pytest.mark.step("offline")
def test_offline(recorder):
    points = [recorded.measured("offline", batch, 200.0) for batch in (1, 2, 8)]
    fail_in("load")
    other_run = structs.replace(recorder.origin, run="another")
    dataclasses.replace(recorder, origin=other_run).record_points("offline", points[:1])
    recorder.record_points("offline", points[1:], are_all=True)
    fail_in("sweep")
    recorder.record_points("offline", points[1:])
    recorder.record_points("offline", points[2:], are_all=True)
"""

Run = Callable[..., Publishable]
"""`run("-k", "offline", fails="test nan")` runs such benchmarks and returns the publishable record."""


def run_pytest_here(*arguments: str) -> int:
    """Run a test's own benchmarks in this process, which has imported the suite already: a separate process
    takes 1.5 s. Meanwhile their modules `benchmarks` and `conftest` replace the suite's."""

    def named_alike() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in ("benchmarks", "conftest")]

    saved = {name: sys.modules.pop(name) for name in named_alike()}
    try:
        return int(pytest.main([*arguments, *WITHOUT]))
    finally:
        for name in named_alike():
            del sys.modules[name]
        sys.modules.update(saved)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    words = write_benchmarks(tmp_path, BENCHMARKS)
    monkeypatch.chdir(tmp_path)

    def once(*arguments: str, fails: str = "") -> Publishable:
        monkeypatch.setenv("FAILS", fails)
        own_run.cache_clear()  # a process has one run otherwise
        run_pytest_here(*words, *arguments)
        path = record_files.record_path(recorded.record().case, tmp_path / "results")
        return publishable(record_files.read(path))

    return once


@pytest.mark.parametrize("fails", ["fixture nan", "test nan", "test bug", "answers nan"])
def test_failure_hides_speed_until_its_test_has_a_result(run: Run, fails: str) -> None:
    first = run()
    assert [one.point.batch for one in first.points] == [1, 8], "another run's stays, of this one what counts"
    assert first.accuracy is not None

    failed = run(fails=fails)
    assert not failed.points
    assert (failed.accuracy is None) == (not fails.startswith("answers")), "an earlier score is void"
    assert fails == "test bug" or "NaN for 3 of 26 samples (output OUTPUT__0)" in failed.why_no_speed
    later = run("-k", "offline")
    assert later.failures
    assert not later.points

    assert run("-k", "not offline").points


@pytest.mark.parametrize("fails", ["load bug", "sweep bug"])
def test_failed_measurement_is_told_and_hides_nothing(run: Run, fails: str) -> None:
    failed = run(fails=fails)

    said = "Not all was measured: offline failed: ZeroDivisionError: division by zero."
    assert unmeasured_text(failed) == said
    assert not failed.why_no_speed
    assert not unmeasured_text(run())


def test_case_that_cannot_be_built_is_recorded(run: Run) -> None:
    unbuilt = run(fails="build bug")

    assert "accuracy, conversion, gates failed: ZeroDivisionError" in unbuilt.why_no_speed
    assert [failure.test for failure in unbuilt.failures if not failure.hides_speed] == ["test_offline"]
    assert not run().failures, "a build has no part in what failed without one"
    assert run(fails="build bug").hidden, "what an earlier run has measured is kept"


@pytest.mark.parametrize("fails", ["end nan", "test elsewhere"])
def test_recorded_or_foreign_failure_is_not_kept(run: Run, fails: str) -> None:
    run()

    record = run(fails=fails)

    assert not record.failures
    assert record.accuracy is not None


def test_measured_point_replaces_earlier_failures_of_its_scenario(run: Run, tmp_path: Path) -> None:
    """Those of another run at other points, which may not be measured again; of another step none."""
    steps = ("offline", "soak")
    failures = tuple(recorded.step_failure(f"test_{step}", step=step, hides_speed=False) for step in steps)
    recorded.store(tmp_path / "results", recorded.record(failures=failures))

    assert run().failures == failures[1:]


def test_run_without_a_baseline_drops_the_one_of_an_earlier_run(run: Run, tmp_path: Path) -> None:
    recorded.store(tmp_path / "results", recorded.record(gates=(recorded.gate("baseline", "3 differ"),)))

    assert run().points
