"""`reports compare --fail-on worse`: records of an earlier run as a gate, by the exit statuses of a run."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from reports.record.schema import Record
from tests import samples as sample
from tests.compare.test_records import point, store_samples, with_machine

GATE = ("--fail-on", "worse", "--allow-slowdown", "3")


def at(speed: float, **changes: Any) -> Record:
    """The record of a case with one load point of this speed."""
    return dataclasses.replace(sample.record(), loads=(point(speed=speed),), **changes)


@pytest.fixture
def status(tmp_path: Path) -> Any:
    """The exit status of comparing two records."""

    def of(before: Record, after: Record, *options: str) -> int:
        sample.store(tmp_path / "before", before)
        sample.store(tmp_path / "after", after)
        return main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), *(options or GATE)])

    return of


def test_a_slow_down_fails_only_where_it_is_larger_than_allowed_and_asked_for(status: Any) -> None:
    assert status(at(1000), at(900)) == 10
    assert status(at(1000), at(1000)) == 0
    assert status(at(1000), at(900), "--fail-on", "worse", "--allow-slowdown", "20%") == 0
    assert status(at(1000), at(900), "--format", "markdown") == 0


def test_what_is_allowed_is_not_called_slower_in_the_text_either(
    status: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(at(1000), at(900), "--allow-slowdown", "20") == 0
    assert "**slower**" not in capsys.readouterr().out


def test_a_worse_accuracy_fails_whatever_the_speed(tmp_path: Path, status: Any) -> None:
    right, wrong = [1.0] * 500, [0.0] * 50 + [1.0] * 450
    store_samples(tmp_path / "before", at(1000), right)
    store_samples(tmp_path / "after", at(900), wrong)

    assert status(at(1000), at(900)) == 12


def test_what_allows_no_verdict_is_refused(status: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(at(1000), with_machine(at(1000), cores=64)) == 4
    assert "different machines" in capsys.readouterr().err
    assert status(at(1000), dataclasses.replace(at(1000), loads=(point(16),))) == 4
    assert "no load point and no sample in common" in capsys.readouterr().err


def test_another_driver_is_what_one_looks_for_the_effect_of(status: Any) -> None:
    assert status(at(1000), with_machine(at(1000), gpu_driver="999.1")) == 0


@pytest.mark.parametrize("text", ["-1", "100", "three", "nan"])
def test_a_slow_down_that_is_no_percentage_is_refused(
    text: str, status: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        status(at(1000), at(900), f"--allow-slowdown={text}")
    assert ended.value.code == 4
    assert "no percentage" in capsys.readouterr().err
