"""Runs of cases that nothing converts, on a machine that no other run uses."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import settings
from tests.run.stand_in_case import Prepare, prepare, running
from tritonproof.client import requests
from tritonproof.host import locks
from tritonproof.record.speed import LoadPoint
from tritonproof.run.case_run import CaseRun
from tritonproof.settings.thresholds import Thresholds

RunOf = Callable[..., CaseRun]
AS_IT_IS = prepare()


@pytest.fixture
def lines() -> list[str]:
    """What the test's runs write: their activities, and notes."""
    return []


@pytest.fixture
def run_of(lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunOf]:
    """`run_of(prepare(deployment=...), soak="10m")`: a run of the toy's case until the test ends."""
    (machine := tmp_path / "machine").mkdir()
    monkeypatch.setattr(locks, "MACHINE_LOCK", machine)

    def ask(served: requests.ServedModel, batches: Any, *_: object, **_how: object) -> list[requests.Answer]:
        answers = (served.server.infer("", served.model, served.data.inputs(rows)) for rows in batches)
        return [requests.Answer(*pair) for pair in zip(batches, answers, strict=True)]

    monkeypatch.setattr(requests.ServedModel, "ask", ask)
    with contextlib.ExitStack() as stack:

        def start(
            how: Prepare = AS_IT_IS,
            points: Mapping[str, Sequence[LoadPoint]] | None = None,
            thresholds: Thresholds | None = None,
            **options: Any,
        ) -> CaseRun:
            chosen = settings(**{"results": str(tmp_path / "results"), **options})
            chosen = dataclasses.replace(chosen, thresholds=thresholds or chosen.thresholds)
            return stack.enter_context(running(chosen, how, lines.append, points))

        yield start
