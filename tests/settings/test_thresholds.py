"""--thresholds: settings for single cases, and errors for every mistake."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests import sample_records, toy
from tests.helpers import ROOT, Collect, present
from tritonproof.base.errors import InputError
from tritonproof.record import fields, speed
from tritonproof.reports.speed_text import speed_failures
from tritonproof.settings.thresholds import Thresholds, read_thresholds
from tritonproof.spec import Case

CASE = toy.case()
INT8 = toy.case(precision="int8")
POINT = speed.LoadPoint("online", 1, 16)


def thresholds(folder: Path, text: str, *cases: Case) -> Thresholds:
    (folder / "asked.toml").write_text(text)
    result = read_thresholds("--thresholds", str(folder / "asked.toml"))
    result.check_cases(lambda: cases or (CASE, INT8))
    return result


def result(p99_ms: fields.Estimate | None = None, **changes: Any) -> speed.PointResult:
    """A load point with this p99 latency."""
    one = sample_records.measured("online", 16, 1000.0, **changes)
    return one if p99_ms is None else structs.replace(one, latency_ms={**one.latency_ms, "p99": p99_ms})


def budget_ms(parsed: Thresholds, case: Case, point: speed.LoadPoint) -> float | None:
    """The budget of a point's p99 latency."""
    budget = parsed.latency_budget(case, result(point=point))
    return None if budget is None else budget.budget_ms


def test_later_matching_entry_wins_per_setting(tmp_path: Path) -> None:
    parsed = thresholds(
        tmp_path,
        '[[cases]]\nmatch = "*-int8"\nlimits.top-1 = 0.95\nallowed_slowdown_percent = 5\np99_ms = 7\n'
        '[[cases]]\nmatch = "*-int8"\nlimits.top-1 = 0.8\nallowed_slowdown_percent = 6\np99_ms = 9\n'
        '[[cases]]\nmatch = "*-fp32"\nallowed_slowdown_percent = 8\n',
    )

    assert {name: limit.value for name, limit in parsed.limits(INT8).items()} == {"top-1": 0.8}
    assert not parsed.limits(CASE)
    slowdowns = [parsed.allowed_slowdown(case, 0.03) for case in (INT8, CASE)]
    assert [*slowdowns, Thresholds().allowed_slowdown(CASE, 0.03)] == [0.06, 0.08, 0.03]
    assert [budget_ms(parsed, case, POINT) for case in (INT8, CASE)] == [9, None]


def test_budget_applies_to_matching_load_points(tmp_path: Path) -> None:
    parsed = thresholds(tmp_path, '[[cases]]\nmatch = "*"\np99_ms = { "b0?[12]-*" = 20.5, "b001-*" = 5 }\n')
    points = (POINT, speed.LoadPoint("offline", 32, 1), speed.LoadPoint("online", 8, 1))
    assert [budget_ms(parsed, CASE, point) for point in points] == [5, 20.5, None]


OPEN = fields.Estimate(4.0, 3.9, 4.9, open_above=True)


@pytest.mark.parametrize(
    ("p99_ms", "bound_ms", "verdict"),
    [
        (fields.Estimate(4.0, 3.9, 5.0), None, "passed"),
        (fields.Estimate(4.9, 4.7, 5.1), None, "inconclusive"),
        (fields.Estimate(5.2, 5.0, 5.4), None, "inconclusive"),
        (fields.Estimate(5.4, 5.1, 5.7), None, "failed"),
        (OPEN, None, "inconclusive"),  # the interval is open above, and the p99 is not certified
        (OPEN, 4.9, "passed"),
        (OPEN, 5.2, "inconclusive"),
    ],
)
def test_point_verdict_follows_its_budget(
    tmp_path: Path, p99_ms: fields.Estimate, bound_ms: float | None, verdict: str
) -> None:
    parsed = thresholds(tmp_path, '[[cases]]\nmatch = "*"\np99_ms = 5\nsource = "agreed"\n')
    certified = {"p99": speed.CertifiedPercentile(4.0, bound_ms, 700, 0, 0.99)}
    budget = present(parsed.latency_budget(CASE, result(p99_ms, certified=certified)))
    assert (budget.verdict, budget.source) == (verdict, "agreed")
    assert bool(speed_failures(result(p99_ms, latency_budget=budget))) is (verdict == "failed")


def test_limit_of_unmeasurable_metric_is_refused(tmp_path: Path) -> None:
    parsed = thresholds(tmp_path, '[[cases]]\nmatch = "*-int8"\nlimits.top-1 = 0.8\n')
    with pytest.raises(InputError, check=lambda error: "asked.toml: entry 1: limits.top-1" in error.where):
        parsed.check_measured(INT8, "top-1 needs --dataset toy=PATH")
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
        "unknown = 1\n[[cases]]\nmatch = '*'\np99_ms = 5",
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
                "p99_ms = { 'b001-*' = 5, '*' = 20 }",
            )
        ),
    ],
)
def test_mistake_names_file_and_fix(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, check=lambda error: str(tmp_path / "asked.toml") in error.where):
        thresholds(tmp_path, text)


def test_mistake_names_its_entry(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        thresholds(tmp_path, "[[cases]]\nmatch='*'\np99_ms = 5\n[[cases]]\nmatch='*'\np99_ms = { b001 = -1 }")
    assert raised.value.where.endswith("asked.toml: entry 2: p99_ms[...]")
    with pytest.raises(InputError, check=lambda error: "--labels" in str(error)):
        thresholds(tmp_path, "[[cases]]\nmatch='*'\nlimits.x = 1", toy.case(toy.model(metrics=())))


(DOCUMENTED,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(), re.DOTALL)
OF_RESNET = '[[cases]]\nmatch = "cpu-resnet50-micro-*"\np99_ms = '
OF_OTHERS = OF_RESNET + '{ "b001-*" = 5 }\n[[cases]]\nmatch = "a100-*-fp16"\np99_ms = 2\n'
ONE_TEST = "benchmarks/test_speed.py::test_online[cpu-resnet50-micro-onnx-fp32-b001-c032]"
ACCEPTED, REFUSED = pytest.ExitCode.OK, pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("text", "selected", "status"),
    [
        pytest.param(DOCUMENTED, "benchmarks -k onnx", ACCEPTED, id="as documented"),
        pytest.param(DOCUMENTED, ONE_TEST, ACCEPTED, id="as documented, for one test"),
        pytest.param(OF_OTHERS, "benchmarks -k nnunet-micro", ACCEPTED, id="of other cases and hardware"),
        pytest.param(OF_RESNET.replace("50", "51") + "5", "benchmarks -k nnunet", REFUSED, id="no case"),
        pytest.param(OF_RESNET + '{ "b002-*" = 5 }', "benchmarks -k nnunet", REFUSED, id="no load point"),
    ],
)
def test_file_is_checked_against_all_cases_before_any_runs(
    text: str, selected: str, status: pytest.ExitCode, tmp_path: Path, collect: Collect
) -> None:
    file = tmp_path / "asked.toml"
    file.write_text(text)
    collected = collect("--target", "cpu", "--thresholds", str(file), *selected.split(maxsplit=2), paths=())
    assert collected.status == status, collected.text
    assert (str(file) in collected.text) == (status == REFUSED)
