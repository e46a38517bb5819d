"""The benchmarks for answers and for load points, against a simulated server: each test checks what its name
says, records its result before it fails, and determines the exit status."""

import runpy
import textwrap
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from fixtures.failures import STATUS
from tests import recorded, toy
from tests.gates.answering_servers import Memory, with_memory
from tests.gates.made_up_model import LIMITS, gate_context
from tests.helpers import ROOT, WITHOUT, Collect
from tritonproof.base.errors import AccuracyError, SpeedError
from tritonproof.gates import GATES
from tritonproof.gates.context import GateContext, ask_one_by_one
from tritonproof.record.schema import GATE_DEMANDS, GateResult, PointResult, VerifiedAnswers

CASE = "cpu-resnet50-micro-onnx-fp32"
TEST = """
    import dataclasses
    from types import SimpleNamespace
    import pytest
    from benchmarks.test_answers import *
    from benchmarks import test_speed
    from benchmarks.test_speed import test_online
    from tests import recorded
    from tritonproof.reports.publishable import publishable
    from tests.plugin.test_gating import RUNS

    SEEN = RUNS[-1]

    @pytest.fixture(scope="session")
    def run(run):
        load = lambda scenario: SEEN.loaded.append(scenario) or SEEN.context.loaded
        vars(run.loader).update(ensure_loaded=load, check_may_reload=list)
        context = dataclasses.replace(SEEN.context, answers_folder=run.expectations.answers_folder)
        vars(run.expectations).update(gate_context=context)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(test_speed, "measure_point", lambda *_: SEEN.result)
            yield run

    @pytest.fixture
    def recorder(request):
        def keep(gates):
            SEEN.gates[request.node.originalname] = (SEEN.loaded[-1], *gates)
        record_points = lambda scenario, results: publishable(recorded.record())
        return SimpleNamespace(record=keep, record_points=record_points, show=print, report_point=print)

    """
GATE_OF = {
    "test_same_answer_again": "repeated",
    "test_same_answer_in_flight": "in-flight",
    "test_same_answer_in_batches": "batches",
    "test_same_answer_over_every_way": "transports",
    "test_declared_output": "declared",
    "test_largest_batch": "largest-batch",
    "test_recorded_answers": "recorded",
    "test_same_answer_after_a_reload": "reload",
}


@dataclass(eq=False)
class Seen:
    """Inputs of a run's tests, and observations of them."""

    context: GateContext
    result: PointResult | None = None
    loaded: list[str] = field(default_factory=list)
    """The scenarios of the model's loads, in order."""
    gates: dict[str, tuple[str, GateResult]] = field(default_factory=dict)
    """The scenario and result that each test recorded."""
    errors: dict[str, str] = field(default_factory=dict)
    """The error of each failed test."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.errors[report.nodeid.partition("::")[2].partition("[")[0]] = str(report.longrepr)


RUNS: list[Seen] = []
"""The observations of each run; its test file takes the last."""


@pytest.fixture
def seen() -> Iterator[Seen]:
    with with_memory(Memory()) as model:
        RUNS.append(Seen(gate_context(model, ask_one_by_one(model, LIMITS))))
        yield RUNS[-1]
        RUNS.clear()  # a client that outlives gRPC prints an error


def run(seen: Seen, folder: Path, *arguments: str) -> int:
    """Run the tests of one case; returns the exit status."""
    file = folder / "benchmarks" / "test_all.py"
    file.parent.mkdir()
    file.write_text(textwrap.dedent(TEST))
    options = ["--rootdir", str(folder.parent), "-c", str(ROOT / "pyproject.toml"), "--results", str(folder)]
    words = [str(file), *options, "-q", "-p", "conftest", *WITHOUT, "--target", "cpu", *arguments]
    return pytest.main(words, plugins=[seen])


def test_each_test_records_its_gate_before_failing(seen: Seen, tmp_path: Path) -> None:
    recording = ("--record-answers", "--answers", str(tmp_path))
    status = run(seen, tmp_path, "-k", f"{CASE} and not online", *recording)

    assert {test: result.gate for test, (_, result) in seen.gates.items()} == GATE_OF
    assert {*GATE_OF.values(), "baseline"} == set(GATE_DEMANDS)
    assert [*GATES, "baseline"] == [*GATE_DEMANDS], "in the order of reports"
    wrong = {test: result.fault for test, (_, result) in seen.gates.items() if result.fault}
    assert "test_largest_batch" in wrong, "this server refuses no batch"
    assert wrong.keys() == seen.errors.keys()
    assert all(sentence in seen.errors[test] for test, sentence in wrong.items())
    assert status == STATUS["accuracy"]


def test_model_is_loaded_twice_for_the_last_gate(seen: Seen, tmp_path: Path) -> None:
    """The test's name is also part of the folder's, so it must not contain a word of the `-k`."""
    assert run(seen, tmp_path, "-k", f"{CASE} and (again or reload)") == 0
    assert seen.loaded == ["online", "offline"]
    assert seen.gates["test_same_answer_after_a_reload"][0] == "offline"


@pytest.mark.parametrize(
    ("there", "arguments", "is_refused"),
    [
        ((), (), True),
        (("none-of-these",), (), True),
        (("resnet50-micro",), (), False),
        ((), ("--record-answers",), False),
    ],
    ids=["none", "another model's", "one model's of several", "they are recorded"],
)
def test_answers_folder_without_these_models_is_a_usage_error(
    collect: Collect, tmp_path: Path, there: tuple[str, ...], arguments: tuple[str, ...], is_refused: bool
) -> None:
    for model in there:
        (tmp_path / f"{model}.answers").touch()

    words = ("-k", "micro and onnx and fp32 and recorded")
    collected = collect(*words, "--answers", str(tmp_path), *arguments)

    assert collected.status == (pytest.ExitCode.USAGE_ERROR if is_refused else 0), collected.text
    assert (f"where: --answers {tmp_path}" in collected.text) == is_refused
    assert is_refused or len(collected.names) > 1


SLOWER = {"comparison": recorded.comparison(passes=16, p_value=0.0001)}
WRONG = {"answers": VerifiedAnswers(100, 1, 10, 1.0)}


@pytest.mark.parametrize(
    ("changes", "status"),
    [(SLOWER, STATUS["speed"]), (WRONG, STATUS["accuracy"]), (SLOWER | WRONG, STATUS["accuracy"])],
    ids=["slower", "wrong answers", "both"],
)
def test_wrong_answers_fail_a_load_point_at_any_speed(
    seen: Seen, tmp_path: Path, changes: dict[str, Any], status: int
) -> None:
    seen.result = recorded.measured("online", 4, 1000.0, **changes)
    assert run(seen, tmp_path, "-k", f"{CASE} and online", "--concurrencies", "4") == status
    assert seen.errors.keys() == {"test_online"}


@pytest.mark.parametrize(("changes", "error"), [({}, SpeedError), (WRONG, AccuracyError)])
def test_wrong_answers_fail_a_search_without_a_winner(
    changes: dict[str, Any], error: type[Exception]
) -> None:
    found = recorded.search(verdict="failed", result=recorded.measured("offline", 8, 1573.6, **changes))
    test = runpy.run_path(str(ROOT / "benchmarks" / "test_search.py"))["test_search"]
    test.__globals__["search"] = lambda _run: nullcontext(found)
    searched, recorder = Mock(case=toy.case(toy.model(framework=None))), Mock()
    searched.prepared.evaluation_samples = None
    recorder.record.return_value.why_no_winner = ""
    with pytest.raises(error):
        test(searched, recorder)
    recorder.record.assert_called_once()
