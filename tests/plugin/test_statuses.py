"""The exit status and its explanation, without a run."""

import dataclasses
from collections import Counter

import pytest

from reports.run import Failure, Outcomes, status_of, status_sentence, worst_first


def failing(*kinds: str) -> Outcomes:
    return Outcomes([Failure(kind, f"test_{kind}", "", None, None) for kind in kinds], passed=1)


@pytest.mark.parametrize(
    ("own", "outcomes", "status"),
    [
        (1, failing("speed"), 10),
        (1, failing("infrastructure"), 11),
        (1, failing("accuracy"), 12),
        (1, failing("accuracy", "infrastructure", "speed"), 12),
        (1, failing("input", "speed"), 10),
        (2, failing("input", "accuracy"), 12),
        (1, failing("input"), 4),
        (2, failing("input"), 4),
        (0, Outcomes(skipped=Counter({"needs an A100": 1})), 5),
        (3, failing("input", "accuracy"), 3),
        (1, Outcomes(passed=2), 1),
        (0, failing("speed"), 0),
        (1, dataclasses.replace(failing("speed"), others_failed=True), 1),
        (0, Outcomes(passed=1, skipped=Counter({"needs an A100": 1})), 0),
        (0, Outcomes(), 0),
        (pytest.ExitCode.TESTS_FAILED, failing("speed"), 10),
        (0, Outcomes(passed=1, missing=["summary.md"]), 11),
        (1, dataclasses.replace(failing("speed"), missing=["summary.md"]), 11),
        (1, dataclasses.replace(failing("accuracy"), missing=["summary.md"]), 12),
        (1, dataclasses.replace(failing("speed"), others_failed=True, missing=["summary.md"]), 1),
        (2, Outcomes(passed=1, missing=["summary.md"]), 2),
        (0, Outcomes(passed=1, unreadable=["a.json"]), 6),
        (1, dataclasses.replace(failing("speed"), unreadable=["a.json"]), 10),
        (0, Outcomes(passed=1, unreadable=["a.json"], missing=["summary.md"]), 11),
    ],
)
def test_numeric_status_equals_its_enum(own: int, outcomes: Outcomes, status: int) -> None:
    assert status_of(own, outcomes) == status


def test_worst_failures_come_first() -> None:
    failures = worst_first(failing("speed", "input", "infrastructure", "accuracy").failures)
    assert [failure.kind for failure in failures] == ["accuracy", "infrastructure", "speed", "input"]


@pytest.mark.parametrize(
    ("outcomes", "is_said"),
    [
        (dataclasses.replace(failing("speed"), others_failed=True, status=1), False),
        (Outcomes(status=int(pytest.ExitCode.USAGE_ERROR)), False),
        (Outcomes(passed=3, status=int(pytest.ExitCode.INTERNAL_ERROR)), False),
        (Outcomes(status=int(pytest.ExitCode.NO_TESTS_COLLECTED)), False),
        (Outcomes(skipped=Counter({"needs an A100": 2}), passed=1, status=0), False),
        (Outcomes(passed=3, status=int(pytest.ExitCode.INTERRUPTED)), True),
        (Outcomes(skipped=Counter({"needs an A100": 2, "needs a T4": 1}), status=5), True),
    ],
)
def test_status_sentence_is_omitted_if_pytest_says_enough(outcomes: Outcomes, is_said: bool) -> None:
    assert bool(status_sentence(outcomes)) is is_said
