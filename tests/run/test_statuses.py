"""What the exit status and the sentence about it are made of, without a run."""

import dataclasses
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.errors import (
    AccuracyError,
    InputError,
    NotAvailableError,
    ProofError,
    SetupError,
    SpeedError,
)
from fixtures.run.recorder import note_kind
from reports.run.outcomes import Failure, Outcomes, status_of, status_sentence, worst_first


def failing(*kinds: str) -> Outcomes:
    return Outcomes([Failure(kind, f"test_{kind}", "", None, None) for kind in kinds], passed=1)


@pytest.mark.parametrize(
    ("own", "outcomes", "status"),
    [
        (1, failing("speed"), 10),
        (1, failing("infrastructure"), 11),
        (1, failing("accuracy"), 12),
        (1, failing("speed", "infrastructure"), 11),
        (1, failing("accuracy", "infrastructure", "speed"), 12),
        (1, failing("input", "accuracy"), 12),
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
        (pytest.ExitCode.OK, Outcomes(skipped=Counter({"needs an A100": 1})), 5),
        (pytest.ExitCode.TESTS_FAILED, failing("speed"), 10),
        (pytest.ExitCode.INTERRUPTED, failing("input"), 4),
        (3, Outcomes(skipped=Counter({"needs an A100": 1})), 3),
        (0, Outcomes(passed=1, missing=["junit.xml"]), 11),
        (0, Outcomes(skipped=Counter({"needs an A100": 1}), missing=["junit.xml"]), 11),
        (1, dataclasses.replace(failing("speed"), missing=["junit.xml"]), 11),
        (1, dataclasses.replace(failing("accuracy"), missing=["junit.xml"]), 12),
        (1, dataclasses.replace(failing("speed"), others_failed=True, missing=["junit.xml"]), 1),
        (2, Outcomes(passed=1, missing=["junit.xml"]), 2),
        (0, Outcomes(passed=1, unreadable=["a.json"]), 6),
        (1, dataclasses.replace(failing("speed"), unreadable=["a.json"]), 10),
        (0, Outcomes(passed=1, unreadable=["a.json"], missing=["junit.xml"]), 11),
    ],
)
def test_a_status_that_pytest_gives_as_a_number_counts_as_its_name_does(
    own: int, outcomes: Outcomes, status: int
) -> None:
    assert status_of(own, outcomes) == status


def test_the_sentence_counts_the_failures_of_each_kind_worst_first() -> None:
    outcomes = failing("speed", "speed", "infrastructure", "accuracy")
    outcomes.status = 12

    assert (
        status_sentence(outcomes)
        == "exit status 12, accuracy: 1 failed for accuracy, 1 failed for infrastructure, 2 failed for speed"
    )


def test_bad_input_hides_no_wrong_model() -> None:
    outcomes = failing("input", "accuracy")
    outcomes.status = status_of(1, outcomes)

    assert status_sentence(outcomes).startswith(
        "exit status 12, accuracy: 1 failed for accuracy, 1 failed for input"
    )
    assert [one.kind for one in worst_first(failing("speed", "input", "accuracy").failures)] == [
        "accuracy",
        "speed",
        "input",
    ]


@pytest.mark.parametrize("status", [0, 1])
def test_a_status_of_pytests_own_needs_no_sentence(status: int) -> None:
    outcomes = failing("speed")
    outcomes.others_failed, outcomes.status = True, status

    assert status_sentence(outcomes) == ""


def test_a_usage_error_before_any_test_is_left_to_pytests_own_words() -> None:
    assert status_sentence(Outcomes(status=int(pytest.ExitCode.USAGE_ERROR))) == ""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AccuracyError(""), "accuracy"),
        (SpeedError(""), "speed"),
        (InputError(""), "input"),
        (SetupError(""), "infrastructure"),
        (ProofError(""), "infrastructure"),
        (MemoryError(), "infrastructure"),
        (NotAvailableError(""), None),
        (pytest.skip.Exception(""), None),
        (None, None),
    ],
)
@pytest.mark.parametrize("folder", ["benchmarks", "tests"])
def test_the_kind_of_a_failure_is_noted_on_a_benchmark_and_on_no_other_test(
    error: BaseException | None, kind: str | None, folder: str
) -> None:
    item: Any = SimpleNamespace(path=Path("/somewhere") / folder / "test_speed.py", user_properties=[])
    note_kind(item, error)
    assert item.user_properties == ([("failure", kind)] if kind and folder == "benchmarks" else [])


@pytest.mark.parametrize("status", [0, 2])
def test_a_run_that_proved_something_is_not_said_to_have_proven_nothing(status: int) -> None:
    outcomes = Outcomes(skipped=Counter({"needs an A100": 2}), passed=1, status=status)

    assert "nothing was proven" not in status_sentence(outcomes)


def test_a_run_that_was_ended_says_that_it_has_proven_no_more_than_is_shown() -> None:
    interrupted = Outcomes(passed=3, status=int(pytest.ExitCode.INTERRUPTED))

    assert status_sentence(interrupted).startswith("exit status 2: ended before its end")
    internal = Outcomes(passed=3, status=int(pytest.ExitCode.INTERNAL_ERROR))
    assert status_sentence(internal) == ""


def test_where_nothing_was_selected_nothing_is_said_of_skipped_tests() -> None:
    none = int(pytest.ExitCode.NO_TESTS_COLLECTED)

    assert status_sentence(Outcomes(status=none)) == ""
    skipped = Outcomes(skipped=Counter({"needs an A100": 2, "needs a T4": 1}), status=none)
    assert status_sentence(skipped) == "exit status 5: nothing was proven, all of 3 tests were skipped"
