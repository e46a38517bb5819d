"""`reports compare --fail-on worse` ends with the exit statuses of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from reports.__main__ import main
from reports.record.schema import Record
from tests import examples as sample
from tests.compare.test_records import point, store_samples, with_machine

WORSE = ("--fail-on", "worse")
RIGHT, WRONG = [1.0] * 500, [0.0] * 50 + [1.0] * 450


def at(speed: float, **changes: Any) -> Record:
    """The record of a case with one load point of this speed."""
    return structs.replace(sample.record(), loads=(point(speed=speed),), **changes)


def status_of(tmp_path: Path, before: Record, after: Record, *options: str) -> int:
    sample.store(tmp_path / "before", before)
    sample.store(tmp_path / "after", after)
    return main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), *options])


@pytest.mark.parametrize(
    ("before", "after", "options", "status"),
    [
        (at(1000), at(900), (), 0),
        (at(1000), at(900), WORSE, 10),
        (at(1000), at(1000), WORSE, 0),
        (at(1000), at(900), (*WORSE, "--allow-slowdown", "20%"), 0),
        (at(1000), at(900), (*WORSE, "--allow-slowdown", "0.5"), 10),
        # 104 is just above a tenth of the speed, which 90 % allow; 96 is below.
        (at(1000), at(104), (*WORSE, "--allow-slowdown", "90"), 0),
        (at(1000), at(96), (*WORSE, "--allow-slowdown", "90"), 10),
        (at(1000), at(1000, accuracy=sample.failed_accuracy()), WORSE, 12),
        (at(1000, accuracy=sample.failed_accuracy()), at(1000), WORSE, 4),
        (at(1000), with_machine(at(1000), cores=64), WORSE, 4),
        (at(1000), structs.replace(at(1000), loads=(point(16),)), WORSE, 4),
        (at(1000), with_machine(at(1000), gpu_driver="999.1"), WORSE, 0),
        (at(1000), with_machine(at(900), gpu_uuids=("GPU-2",)), WORSE, 10),
    ],
)
def test_exit_status_reports_worse_results(
    tmp_path: Path, before: Record, after: Record, options: Sequence[str], status: int
) -> None:
    assert status_of(tmp_path, before, after, *options) == status


@pytest.mark.parametrize(
    ("after", "scores", "status"),
    [
        (at(900), WRONG, 12),
        (structs.replace(at(1000), loads=()), RIGHT, 0),
    ],
    ids=["worse and slower", "samples alone"],
)
def test_worse_accuracy_precedes_other_statuses(
    tmp_path: Path, after: Record, scores: list[float], status: int
) -> None:
    store_samples(tmp_path / "before", at(1000), RIGHT)
    store_samples(tmp_path / "after", after, scores)

    assert status_of(tmp_path, at(1000), after, *WORSE) == status


@pytest.mark.parametrize("text", ["-1", "100", "150", "three", "nan"])
def test_invalid_slowdown_percentage_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as raised:
        status_of(tmp_path, at(1000), at(900), f"--allow-slowdown={text}")
    assert raised.value.code == 4


@pytest.mark.parametrize("order", [1, -1])
def test_worst_of_several_runs_sets_exit_status(tmp_path: Path, order: int) -> None:
    for name, speed in {"before": 1000, "slower": 900, "same": 1000}.items():
        sample.store(tmp_path / name, at(speed))

    others = [str(tmp_path / name) for name in ("slower", "same")[::order]]
    assert main(["compare", str(tmp_path / "before"), *others, *WORSE]) == 10
