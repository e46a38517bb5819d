"""Faults that appear under load on real servers: checks between passes find and name them."""

import time
from collections.abc import Callable

import pytest

from tests import toy
from tests.conftest import LoadRuntime
from tests.helpers import present
from tritonproof.accuracy.answer_comparison import merge_comparisons
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.verifying import ask_server
from tritonproof.record.correctness import AnswerComparison
from tritonproof.record.speed import LoadPoint

SECONDS = 60.0
"""Longest search for a fault; on an idle machine each shows in the first seconds."""
MIN_VERIFIED = 1000
"""Answers to check of a server without a fault."""
ONLINE = LoadPoint("online", 1, 8)

_RUNTIME = """
import os
import numpy as np

def load(artifact, parameters):
    batches, answers, kept = 0, 0, {{}}
    try:
        os.close(os.open(str(artifact) + ".taken", os.O_CREAT | os.O_EXCL))
        is_first = True
    except FileExistsError:
        is_first = False
    def predict(arrays):
        nonlocal batches, answers
        x = arrays[0]
        out = 3 * x + 1
        before, kept[len(x)] = kept.get(len(x), out), out
        batches, answers = batches + (len(x) > 1), answers + len(x)
        {fault}
        return [out]
    return predict
"""
_IN_A_BATCH = "if len(x) > 1 and batches % 1000 == 0: out = out.copy()"
FAULTS = {
    "two answers swapped in one batch of 1,000": f"{_IN_A_BATCH}; out[[0, 1]] = out[[1, 0]]",
    "a row repeated in one batch of 1,000": f"{_IN_A_BATCH}; out[1] = out[0]",
    "NaN in one answer of 5,000": "if answers % 5000 < len(x): out = out.copy(); out[0, 2] = np.nan",
    "an instance with other weights than its sibling": "out = out if is_first else 3.2 * x + 1",
    "the answer to the request before": "out = before if batches % 200 == 199 else out",
    "right alone, wrong with others": "out = out if len(x) == 1 else out - 0.05 * x.mean(axis=0)",
}
QUICK = ("an instance with other weights than its sibling", "right alone, wrong with others")
"""Faults that show in the first requests; the campaign tests the others."""


@pytest.fixture
def job_of(serving: LoadRuntime) -> Callable[[str, LoadPoint], LoadJob]:
    """Load a model with a fault and known right answers; returns the job of a load point."""

    def load(fault: str, point: LoadPoint) -> LoadJob:
        instances = 2 if "is_first" in fault else 1
        served = serving(_RUNTIME.format(fault=fault), 40, point.scenario, instances=instances)
        (rows,) = served.data.arrays.values()
        right = {served.model.outputs[0].name: 3 * rows + 1}
        return LoadJob(served, point, "system", expected_answers=toy.expected_answers(served.data.ids, right))

    return load


def look(job: LoadJob, is_enough: Callable[[AnswerComparison], bool]) -> AnswerComparison:
    """Check a server's answers until there are enough."""
    expected, deadline = present(job.expected_answers), time.monotonic() + SECONDS
    so_far = expected.compare(ask_server(job, 0.3)).result
    while not is_enough(so_far) and time.monotonic() < deadline:
        so_far = merge_comparisons([so_far, expected.compare(ask_server(job, 0.3)).result])
    return so_far


@pytest.mark.parametrize(
    "fault", [name if name in QUICK else pytest.param(name, marks=pytest.mark.campaign) for name in FAULTS]
)
def test_fault_under_load_is_found_and_named(job_of: Callable[[str, LoadPoint], LoadJob], fault: str) -> None:
    answers = look(job_of(FAULTS[fault], ONLINE), lambda so_far: so_far.wrong > 0)
    assert answers.wrong > 0, f"none wrong of {answers.count}"
    first = present(answers.first_wrong)
    assert first.sample.startswith("row-")
    assert first.expected != first.actual


@pytest.mark.parametrize(
    "point",
    [
        ONLINE,
        pytest.param(LoadPoint("offline", 4, 1), marks=pytest.mark.campaign),
        pytest.param(LoadPoint("online", 1, 0, 50.0, "poisson"), marks=pytest.mark.campaign),
    ],
    ids=str,
)
def test_server_without_fault_passes_under_load(
    job_of: Callable[[str, LoadPoint], LoadJob], point: LoadPoint
) -> None:
    answers = look(job_of("pass", point), lambda so_far: so_far.count >= MIN_VERIFIED)
    assert answers.wrong == 0
    assert answers.count >= MIN_VERIFIED
