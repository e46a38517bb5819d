"""`reports compare --fail-on worse`: records of an earlier run as a gate, by the exit statuses of a run."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from reports.record.schema import Estimate, Growth, Record
from tests import samples as sample
from tests.compare.test_records import point, store_samples, with_machine
from tests.soak.made_up import CLEAN, LEAK, record, soak

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


@pytest.mark.parametrize("text", ["-1", "100", "150", "three", "nan"])
def test_a_slow_down_that_is_no_percentage_is_refused(
    text: str, status: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        status(at(1000), at(900), f"--allow-slowdown={text}")
    assert ended.value.code == 4
    assert "no percentage" in capsys.readouterr().err


LARGER = dataclasses.replace(LEAK, slope=Estimate(2048.0, 2040.0, 2060.0, 0.99))
HARDLY_LARGER = dataclasses.replace(LEAK, slope=Estimate(1100.0, 1090.0, 1110.0, 0.99))
UNKNOWN = dataclasses.replace(LEAK, slope=Estimate(500.0, -100.0, 1100.0, 0.99), verdict="not shown")
NO_LEAK = dataclasses.replace(LEAK, slope=Estimate(2.0, -1.0, 5.0, 0.99), verdict="passed")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([NO_LEAK], [LEAK], 11),
        ([UNKNOWN], [LEAK], 11),
        ([LEAK], [LARGER], 11),
        ([CLEAN], [CLEAN, LEAK], 11),
        ([LEAK], [LEAK], 0),
        ([LEAK], [HARDLY_LARGER], 0),
        ([LARGER], [LEAK], 0),
        ([LEAK], [NO_LEAK], 0),
        ([NO_LEAK], [UNKNOWN], 0),
    ],
)
def test_a_leak_that_is_new_or_larger_fails_and_one_that_was_there_does_not(
    before: list[Growth], after: list[Growth], expected: int, status: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records of soaks alone, which have nothing else to compare."""
    alone: dict[str, Any] = {"loads": (), "accuracy": None}

    assert status(record(soak(*before), **alone), record(soak(*after), **alone)) == expected
    assert ("→ **" in capsys.readouterr().out) == bool(expected), "what fails is in bold"


def test_a_leak_hides_a_slow_down_and_is_hidden_by_a_wrong_model(tmp_path: Path, status: Any) -> None:
    sound, leaking = soak(NO_LEAK), soak(LEAK)
    slow = at(900, soak=leaking)
    assert status(at(1000, soak=sound), slow) == 11

    store_samples(tmp_path / "before", at(1000), [1.0] * 500)
    store_samples(tmp_path / "after", at(900), [0.0] * 50 + [1.0] * 450)
    assert status(at(1000, soak=sound), slow) == 12


def test_a_leak_where_there_was_no_soak_is_no_change(status: Any) -> None:
    assert status(at(1000), at(1000, soak=soak(LEAK))) == 0


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_runs_the_worst_decides_wherever_it_is_named(tmp_path: Path, order: int) -> None:
    speeds = {"before": 1000, "slower": 900, "same": 1000}
    for name, speed in speeds.items():
        sample.store(tmp_path / name, at(speed))

    others = [str(tmp_path / name) for name in ("slower", "same")[::order]]
    assert main(["compare", str(tmp_path / "before"), *others, *GATE]) == 10


def test_a_case_that_passes_no_longer_fails_whatever_can_be_compared(status: Any) -> None:
    wrong = at(1000, accuracy=sample.failed_accuracy())

    assert status(at(1000), wrong) == 12
    assert status(wrong, at(1000)) == 4, "it had no speed before, and nothing is compared"


def test_two_gpus_of_one_kind_are_compared(status: Any) -> None:
    assert status(at(1000), with_machine(at(900), gpu_uuids=("GPU-2",))) == 10


def test_unless_it_is_said_any_slow_down_that_is_shown_fails(status: Any) -> None:
    assert status(at(1000), at(900), "--fail-on", "worse") == 10
    assert status(at(1000), at(1000), "--fail-on", "worse") == 0


@pytest.mark.parametrize("percent", ["0", "0.5", "99"])
def test_any_percentage_below_a_hundred_may_be_allowed(status: Any, percent: str) -> None:
    assert status(at(1000), at(1000), "--fail-on", "worse", "--allow-slowdown", percent) == 0


def test_what_is_allowed_is_a_share_of_the_earlier_speed(status: Any) -> None:
    """A build of a tenth of the speed, and a little more, is as fast as 90 % less."""
    allowed = ("--fail-on", "worse", "--allow-slowdown", "90")
    assert [status(at(1000), at(speed), *allowed) for speed in (104, 96)] == [0, 10]


def test_samples_alone_are_enough_to_compare(tmp_path: Path, status: Any) -> None:
    before, after = at(1000), dataclasses.replace(at(1000), loads=())
    for name, one in (("before", before), ("after", after)):
        store_samples(tmp_path / name, one, [1.0] * 500)

    assert status(before, after) == 0


def test_what_is_no_terminal_gets_markdown(status: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status(at(1000), at(900))

    assert "\n| " in capsys.readouterr().out


def test_one_folder_alone_is_refused_with_what_is_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.store(tmp_path, at(1000))

    assert main(["compare", str(tmp_path)]) == 4
    assert "needs two folders or files of records" in capsys.readouterr().err
