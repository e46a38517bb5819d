"""The upgrade verdict from the records and failures of each model."""

from typing import Any

import pytest
from msgspec import structs

from tests import sample_records
from tests.sample_records import SIDE, beside
from tritonproof.record import Record, speed
from tritonproof.reports.tables.baseline import baseline_verdict, compared_models, upgrade_sentence

OWN = sample_records.origin(run=2)
FIVE_PERCENT = {"verdict": "failed", "ratio": sample_records.estimate(0.95, 0.01), "p_value": 1e-6}
SAME = sample_records.estimate(1.0)
FAST: dict[str, Any] = {"verdict": "passed", "ratio": SAME, "p_value": 1.0, "p99_ratio": SAME}
OPEN: dict[str, Any] = FAST | {"verdict": "inconclusive"}
LONGER_P99: dict[str, Any] = FAST | {"p99_ratio": sample_records.estimate(1.4, 0.1), "p99_is_longer": True}


def costing(warnings: tuple[str, ...] = (), there: speed.ServedSide = SIDE, **here: Any) -> Record:
    """A model as fast as the other, with these costs."""
    other = speed.BaselineComparison("/srv/models", structs.replace(SIDE, **here), there, warnings, OWN)
    return structs.replace(beside("", FAST), baseline=other)


def using(mib: float, there_mib: float) -> Record:
    """A model as fast as the other, with this memory here and there."""
    used, used_there = ({"memory of the server": each * 2.0**20} for each in (mib, there_mib))
    return costing(used=used, there=structs.replace(SIDE, used=used_there))


def of_two_runs(earlier: str, *compared: dict[str, Any]) -> Record:
    """A model like the other, with the results of this field from an earlier run."""
    stored, later = (
        sample_records.measured_at(sample_records.origin(run=run), beside("", *(compared or [FAST])))
        for run in (1, 2)
    )
    return structs.replace(later, **{earlier: getattr(stored, earlier)})


WRONG_IN_BATCHES = (sample_records.gate("batches", "2 differ"),)
VERDICTS = {
    "alike": (beside("", FAST, FAST), "passed"),
    "5 % slower": (beside("", FAST, FIVE_PERCENT), "failed"),
    "other answers": (beside("3 answers differ", FAST), "failed"),
    "speed not settled": (beside("", FAST, OPEN), "inconclusive"),
    "no speed compared": (beside(""), "inconclusive"),
    "answers under load not compared": (beside("", FAST, answers_under_load=None), "inconclusive"),
    "no answers compared": (structs.replace(beside("", FAST), gates=()), "inconclusive"),
    "speed compared in an earlier run": (of_two_runs("points"), "inconclusive"),
    "answers compared in an earlier run": (of_two_runs("gates"), "inconclusive"),
    "slower in an earlier run": (of_two_runs("points", FAST, FIVE_PERCENT), "inconclusive"),
    "no costs on servers of others": (costing(loadings_s=(), used={}), "inconclusive"),
    "wrong in batches": (structs.replace(beside("", FAST), gates=WRONG_IN_BATCHES), "failed"),
    "longer p99": (beside("", FAST, LONGER_P99), "failed"),
    "each of five loads a quarter slower": (costing(loadings_s=(5.1, 5.2, 5.1, 5.2, 5.3)), "failed"),
    "a load as fast as there": (costing(loadings_s=(5.1, 5.2, 5.1, 4.9, 5.3)), "passed"),
    "one slow load": (costing(loadings_s=(9.0,)), "passed"),
    "65 MiB more": (using(66, 1), "failed"),
    "less than an arena more": (using(64, 1), "passed"),
    "more than a quarter more": (using(1260, 1000), "failed"),
    "less than a quarter more": (using(1240, 1000), "passed"),
    "memory not seen there": (costing(used={"GPU memory": 2.0**30}), "passed"),
    "a new warning": (costing(("low on something",)), "inconclusive"),
}


@pytest.mark.parametrize(("record", "verdict"), VERDICTS.values(), ids=VERDICTS.keys())
def test_safe_model_has_same_answers_and_speed(record: Record, verdict: str) -> None:
    (model,) = compared_models(sample_records.seen(record))
    assert baseline_verdict(model)[0] == verdict


def test_model_that_could_not_be_asked_is_not_called_wrong() -> None:
    ended = sample_records.step_failure("test_declared", step="declared", message="Triton has ended")
    (model,) = compared_models(sample_records.seen(structs.replace(beside("", FAST), failures=(ended,))))
    assert baseline_verdict(model) == ("failed", "declared failed: Triton has ended")


@pytest.mark.parametrize(
    ("records", "failed", "lacking", "was_ended", "begins"),
    [
        ([beside("", FAST)], [], [], False, "Safe to upgrade"),
        ([beside("", FAST), beside("", FIVE_PERCENT)], [], [], True, "Not safe"),
        ([beside("", FAST)], ["test_x[cpu-gone-asis]"], [], False, "Not safe"),
        ([beside("", OPEN)], [], [], False, "Not shown to be"),
        ([beside("", FAST)], [], ["cpu-left-asis"], False, "Not shown to be safe to upgrade: cpu-left-asis"),
        ([of_two_runs("baseline")], [], [], False, "Nothing says"),
        ([], [], [], True, "Not shown to be safe to upgrade: the run was ended."),
        ([], [], [], False, "Nothing says whether it is safe to upgrade: answers were not compared."),
    ],
)
def test_run_has_one_verdict(
    records: list[Record], failed: list[str], lacking: list[str], was_ended: bool, begins: str
) -> None:
    seen = sample_records.seen(*records)
    assert upgrade_sentence(seen, OWN.run, failed, lacking, 0, was_ended).startswith(begins)
