"""A case runs without pytest, computes each value once, and shares the machine while it loads."""

import contextlib
import dataclasses
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests import toy
from tests.gates.made_up_model import CASE_LIMITS
from tests.helpers import ROOT, present, preset, settings
from tests.run.conftest import RunOf
from tests.run.stand_in_case import MODEL, Prepare, StandInServer, prepare
from tritonproof.accuracy.answer_comparison import ExpectedAnswers
from tritonproof.base.errors import AccuracyError
from tritonproof.build import baseline_builds, runtime_files
from tritonproof.build.builds import CaseBuild
from tritonproof.cases import cases_of
from tritonproof.host import locks
from tritonproof.host.targets import CPU
from tritonproof.record.setup import Serving
from tritonproof.record.speed import LoadPoint
from tritonproof.run import prepared_case
from tritonproof.run.converted_case import ConvertedCase
from tritonproof.run.model_run import ModelRun, SuiteRun
from tritonproof.run.once import forget, is_made, once
from tritonproof.run.preparing import run_of_case
from tritonproof.settings.options import options_of
from tritonproof.settings.settings import Settings

Example = tuple[Path, dict[str, Any], list[str]]
"""CONTRIBUTING's example: the folder of its builds, its names, and the lines that it prints."""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (lines,) = re.findall(r"```python\n(from tritonproof\.cases.*?)```", text, re.S)
    builds, results = tmp_path_factory.mktemp("builds"), tmp_path_factory.mktemp("results")
    arguments = f'model_repos="{builds}", results="{results}", triton="embedded", '
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        lines += "    server, kept = run.server, (run, run.loader)\n"
        exec(lines.replace("Settings.of(", f"Settings.of({arguments}"), names)
    return builds, names, printed.getvalue().splitlines()


def test_contributing_example_converts_serves_and_measures(example: Example) -> None:
    builds, names, (built, scores, speed) = example
    assert built.startswith(f"{builds}/cpu/")
    assert "cpu-resnet50-micro-onnx-fp32 2.51.0 " in built
    assert "metric='top-1'" in scores
    assert speed.startswith("Estimate(value=")
    assert names["server"].process.poll() is not None, "it ends with the block"
    with pytest.raises(RuntimeError, match="has ended"):
        assert names["run"].server
    assert not any(map(is_made, names["kept"], ("converted_answers", "infer_in_process"))), "all is freed"


def test_baseline_of_earlier_builds_keeps_its_config(example: Example) -> None:
    builds, names, _ = example
    case, earlier = names["case"], baseline_builds.parse_against(str(builds))
    suite_run = SuiteRun(dataclasses.replace(names["suite_run"].settings, against=earlier))
    with ModelRun(case.model, case.target, suite_run) as model_run, run_of_case(case, model_run) as run:
        baseline = present(run.baseline)
        config = (baseline.build.folder / "config.pbtxt").resolve()
        assert config == builds / "cpu" / str(case) / "config.pbtxt"
        assert isinstance(baseline.prepared, ConvertedCase)
        assert baseline.prepared.keeps_config


class Found:
    """Counts the computations of its values."""

    asked = 0

    @once
    def value(self) -> int:
        self.asked += 1
        return self.asked

    @once
    def broken(self) -> int:
        self.asked += 1
        raise ValueError(self.asked)


def test_value_and_error_are_computed_once() -> None:
    counter = Found()
    assert not is_made(counter, "value")
    assert counter.value == counter.value == 1
    assert is_made(counter, "value")
    for _ in range(2):
        with pytest.raises(ValueError, match="2"):
            assert counter.broken
    assert Found().value == 1, "each object has its own"
    forget(counter, "value")
    assert counter.value == 3, "it is made again"
    forget(counter, "broken")
    with pytest.raises(ValueError, match="4"):
        assert counter.broken
    assert isinstance(Found.value, once), "as of any property"


@pytest.mark.parametrize(("how", "count"), [(prepare(), 1), (prepare(described=None), None)])
def test_gates_send_all_samples_unless_the_accuracy_step_does(
    how: Prepare, count: int | None, run_of: RunOf
) -> None:
    run = run_of(how)
    preset(run, answer_limits=CASE_LIMITS)
    evaluation_samples = run.gate_context.evaluation_samples
    assert (None if evaluation_samples is None else len(evaluation_samples)) == count


def test_answers_alone_are_not_expected_under_load_unless_as_declared(run_of: RunOf) -> None:
    integers = dataclasses.replace(MODEL, outputs=(dataclasses.replace(MODEL.outputs[0], dtype="INT32"),))
    with pytest.raises(AccuracyError, match="is FP32, and declared INT32"):
        assert run_of(prepare(case=toy.case(integers))).expected_answers


def test_option_of_each_pass_is_handed_to_the_job_and_recorded(run_of: RunOf) -> None:
    run = run_of(prepare(described=None))
    run.settings = given = Mock()
    job = run.job(LoadPoint("online", 1, 1), ExpectedAnswers({}, CASE_LIMITS.kernels))
    recorded = {*Serving.__struct_fields__} - {"triton"}  # of which the version is recorded
    for part, fields in ((job, vars(job).keys()), (run.loader.serving_by("python"), recorded)):
        options = options_of(Settings).keys() & fields
        assert [getattr(part, name) for name in options] == [getattr(given, name) for name in options] != []


@pytest.mark.parametrize("are_synthetic", [False, True])
def test_error_mentions_synthetic_inputs(are_synthetic: bool, run_of: RunOf) -> None:
    run = run_of(prepare(samples=dataclasses.replace(toy.samples(1), are_synthetic=are_synthetic)))
    assert ("--samples toy=DIR" in str(run.accuracy_error("wrong"))) == are_synthetic


def test_only_loading_shares_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[str, bool] = {}
    (machine := tmp_path / "machine").mkdir()  # one that no other run knows
    monkeypatch.setattr(locks, "MACHINE_LOCK", machine)

    def is_held() -> bool:
        return os.getpid() in locks.holders(machine.stat())

    def noting(name: str, value: Any = None) -> Callable[..., Any]:
        def call(*_arguments: Any, **_options: Any) -> Any:
            held[name] = is_held()
            return value or StandInServer()

        return call

    monkeypatch.setattr("tritonproof.accuracy.stages.framework_model_on", noting("reference"))
    monkeypatch.setattr(runtime_files, "open_in_process", noting("in process"))
    monkeypatch.setattr(prepared_case, "serve", noting("server", contextlib.nullcontext(StandInServer())))
    case = next(cases_of(CPU))
    loading: dict[str, Any] = {"load_weights": noting("load"), "samples": noting("samples", toy.samples())}
    case = dataclasses.replace(case, model=dataclasses.replace(case.model, **loading))
    given = settings(results=str(tmp_path))
    with ModelRun(case.model, CPU, SuiteRun(given)) as model_run, run_of_case(case, model_run) as run:
        preset(run.prepared, build=CaseBuild(case, tmp_path / "model"))
        run.check_running()
        assert "server" not in held, "whoever asks whether it runs starts none"
        shared = model_run.framework_model_on_cpu, model_run.samples, model_run.framework_model_on_target
        assert all((*shared, run.loader.infer_in_process, run.server))

        assert held == dict.fromkeys(["load", "samples", "reference", "in process", "server"], True)
        assert not is_held(), "nobody could measure beside what only runs"
