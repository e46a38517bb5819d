"""Runs of cases that nothing converts, on a machine that no other run uses."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import toy
from tests.helpers import settings
from tests.run.stand_in_case import MODEL, Prepare, prepare
from tritonproof.host import locks
from tritonproof.run.case_run import CaseRun
from tritonproof.run.model_run import ModelRun, SuiteRun
from tritonproof.run.progress import Progress
from tritonproof.settings.thresholds import Thresholds
from tritonproof.spec import Model

RunOf = Callable[..., CaseRun]
AS_IT_IS = prepare()


@pytest.fixture
def lines() -> list[str]:
    """What the test's runs write: their steps, and notes."""
    return []


@pytest.fixture
def run_of(lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunOf]:
    """`run_of(prepare(deployment=...), soak="10m")`: a run of the toy model's case, prepared in this way, with
    these options, until the test ends."""
    (machine := tmp_path / "machine").mkdir()
    monkeypatch.setattr(locks, "MACHINE_LOCK", machine)
    with contextlib.ExitStack() as stack:

        def start(
            how: Prepare = AS_IT_IS,
            model: Model = MODEL,
            suite_run: SuiteRun | None = None,
            thresholds: Thresholds | None = None,
            **options: Any,
        ) -> CaseRun:
            case, given = toy.case(model), settings(**{"results": str(tmp_path / "results"), **options})
            given = given if thresholds is None else dataclasses.replace(given, thresholds=thresholds)
            progress = Progress(lines.append)
            model_run = stack.enter_context(ModelRun(model, case.target, given, progress=progress))
            return stack.enter_context(CaseRun(case, model_run, suite_run, prepare=how))

        yield start
