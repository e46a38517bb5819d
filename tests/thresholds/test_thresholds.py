"""--thresholds: settings for single cases, and errors for every mistake."""

import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.errors import InputError
from fixtures.spec import Case, LoadPoint
from fixtures.thresholds import Thresholds, read
from reports.record.schema import CertifiedPercentile, Estimate, Load
from reports.record.verdicts import speed_failures
from tests import examples, toy
from tests.helpers import Collect

ROOT = Path(__file__).parents[2]
CASE = toy.case()
INT8 = toy.case(precision="int8")
POINT, OTHER = LoadPoint("online", 1, 16), LoadPoint("offline", 32, 1)


def thresholds(folder: Path, text: str, *cases: Case) -> Thresholds:
    """The thresholds of a file with this text."""
    (folder / "asked.toml").write_text(text)
    result = read("--thresholds", str(folder / "asked.toml"))
    result.check_cases(lambda: cases or (CASE, INT8))
    return result


def test_later_matching_entry_wins_per_setting(tmp_path: Path) -> None:
    parsed = thresholds(
        tmp_path,
        '[[cases]]\nmatch = "*-int8"\nlimits.top-1 = 0.95\nallowed_slowdown_percent = 5\np99_ms = 7\n'
        '[[cases]]\nmatch = "*-int8"\nlimits.top-1 = 0.8\nallowed_slowdown_percent = 6\np99_ms = 9\n'
        '[[cases]]\nmatch = "*-fp32"\nallowed_slowdown_percent = 8\n',
    )

    assert {name: limit.value for name, limit in parsed.limits(INT8).items()} == {"top-1": 0.8}
    assert not parsed.limits(CASE)
    assert parsed.allowed_slowdown(INT8, 0.03) == pytest.approx(0.06)
    assert parsed.allowed_slowdown(CASE, 0.03) == pytest.approx(0.08)
    assert Thresholds().allowed_slowdown(CASE, 0.03) == 0.03
    budget = parsed.budget(INT8, POINT, load())
    assert budget is not None
    assert budget.budget_ms == 9
    assert parsed.budget(CASE, POINT, load()) is None


def test_budget_applies_to_matching_load_points(tmp_path: Path) -> None:
    parsed = thresholds(tmp_path, '[[cases]]\nmatch = "*"\np99_ms = { "b001-*" = 5, "b032-c001" = 20.5 }\n')
    budgets = [parsed.budget(CASE, point, load()) for point in (POINT, OTHER, LoadPoint("online", 2, 1))]
    assert [budget and budget.budget_ms for budget in budgets] == [5, 20.5, None]


def load(p99_ms: Estimate | None = None, **changes: Any) -> Load:
    """A load point with this p99 latency."""
    latency_ms = examples.load("online", 16, 1000.0).latency_ms
    return examples.load(
        "online", 16, 1000.0, latency_ms={**latency_ms, "p99": p99_ms or latency_ms["p99"]}, **changes
    )


OPEN = Estimate(4.0, 3.9, 4.9, open_above=True)


@pytest.mark.parametrize(
    ("p99_ms", "bound_ms", "verdict"),
    [
        (Estimate(4.0, 3.9, 5.0), None, "passed"),
        (Estimate(4.9, 4.7, 5.1), None, "not shown"),
        (Estimate(5.1, 4.9, 5.3), None, "not shown"),
        (Estimate(5.2, 5.0, 5.4), None, "not shown"),
        (Estimate(5.4, 5.1, 5.7), None, "failed"),
        (OPEN, None, "not shown"),  # the interval is open above, and the p99 is not certified
        (OPEN, 4.9, "passed"),
        (OPEN, 5.2, "not shown"),
    ],
)
def test_point_verdict_follows_its_budget(
    tmp_path: Path, p99_ms: Estimate, bound_ms: float | None, verdict: str
) -> None:
    parsed = thresholds(tmp_path, '[[cases]]\nmatch = "*"\np99_ms = 5\nsource = "agreed"\n')
    certified = {"p99": CertifiedPercentile(4.0, bound_ms, 700, 0, 0.99)}

    budget = parsed.budget(CASE, POINT, load(p99_ms, certified=certified))

    assert budget is not None
    assert (budget.verdict, budget.source) == (verdict, "agreed")
    assert bool(speed_failures(load(p99_ms, budget=budget))) is (verdict == "failed")


def test_limit_of_unmeasurable_metric_is_refused(tmp_path: Path) -> None:
    parsed = thresholds(tmp_path, '[[cases]]\nmatch = "*-int8"\nlimits.top-1 = 0.8\n')

    with pytest.raises(InputError) as raised:
        parsed.check_measured(INT8, "top-1 needs --dataset toy=PATH")
    assert "asked.toml: entry 1: limits.top-1" in raised.value.where
    assert "--dataset toy=PATH" in raised.value.what

    parsed.check_measured(INT8, None)
    parsed.check_measured(CASE, "top-1 needs --dataset toy=PATH")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cases = 1",
        "[cases]\nmatch = '*'\np99_ms = 5",
        "[[cases]]\nmatch = 'x",
        "[[case]]\nmatch = '*'",
        "[[cases]]\nlimits = { top-1 = 0.9 }",
        "[[cases]]\nmatch = 'gpu-*'\np99_ms = 5",
        "[[cases]]\nmatch = ' cpu-*'\np99_ms = 5",
        *(
            f"[[cases]]\nmatch = '*'\n{line}"
            for line in (
                *("", "floor = 1", "source = 'agreed'", "source = 1", "limits = {}", "limits = 0.9"),
                *("limits = { top1 = 0.9 }", "limits = { top-1 = '90 %' }"),
                *("limits = { top-1 = nan }", "allowed_slowdown_percent = 100"),
                *("allowed_slowdown_percent = 150", "allowed_slowdown_percent = true"),
                *("p99_ms = {}", "p99_ms = 0", "p99_ms = { b001 = '5ms' }"),
            )
        ),
    ],
)
def test_mistake_names_file_and_fix(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as raised:
        thresholds(tmp_path, text)
    assert str(tmp_path / "asked.toml") in raised.value.where
    assert raised.value.fix


def test_mistake_names_its_entry(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        thresholds(tmp_path, "[[cases]]\nmatch='*'\np99_ms = 5\n[[cases]]\nmatch='*'\np99_ms = { b001 = -1 }")
    assert raised.value.where.endswith("asked.toml: entry 2: p99_ms[...]")


def test_documented_example_is_accepted(tmp_path: Path, collect: Collect) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(), re.DOTALL)
    (tmp_path / "asked.toml").write_text(example)

    collected = collect("--target", "cpu", "--thresholds", str(tmp_path / "asked.toml"))

    assert collected.status == 0, collected.text


@pytest.mark.parametrize(
    "text",
    [
        '[[cases]]\nmatch = "cpu-resnet51-*"\np99_ms = 5\n',
        '[[cases]]\nmatch = "cpu-resnet50-micro-*"\np99_ms = { "b002-*" = 5 }\n',
        '[[cases]]\nmatch = "cpu-resnet50-micro-*"\np99_ms = { " b001-*" = 5 }\n',
    ],
)
def test_wrong_file_ends_run_before_its_first_test(text: str, tmp_path: Path, collect: Collect) -> None:
    file = tmp_path / "asked.toml"
    file.write_text(text)
    collected = collect("--target", "cpu", "-k", "nnunet-micro", "--thresholds", str(file))
    assert collected.status == pytest.ExitCode.USAGE_ERROR
    assert str(file) in collected.text


def test_file_for_other_hardware_and_cases_is_accepted(tmp_path: Path, collect: Collect) -> None:
    file = tmp_path / "asked.toml"
    file.write_text(
        '[[cases]]\nmatch = "a100-*-fp16"\np99_ms = 2\n'
        '[[cases]]\nmatch = "cpu-resnet50-micro-*"\np99_ms = { "b001-*" = 5 }\n'
    )

    collected = collect("--target", "cpu", "-k", "nnunet-micro and onnx", "--thresholds", str(file))

    assert collected.status == 0, collected.text
