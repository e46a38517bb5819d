"""Plots: the contents of each, what stays hidden, and the written files."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import sample_records
from tritonproof.record import Record, setup
from tritonproof.record.speed import MARKS, LoadPoint, Mark
from tritonproof.reports import plots
from tritonproof.reports.publishable import publishable

CURVE = "throughput-latency"
OTHER = setup.CaseKey("cpu", "bert", "onnx", None, "fp32")
AT_P99_9 = sample_records.measured("online", 48, 2750.0, latency_ms={"p99.9": sample_records.estimate(9.0)})


def searched(**changes: object) -> Record:
    """A swept case with a search that found a point within its budget."""
    fields = {"latency_budget_ms": 25.0, "percentile": "p95", "accuracy": sample_records.accuracy()}
    fields["result"] = sample_records.measured("online", 48, 2750.0)
    return sample_records.swept(search=sample_records.search(**(fields | changes)))


def chart_of(name: str, *records: Record) -> plots.Chart:
    return plots.PLOTS[name].make([publishable(record) for record in records])


def curve_of(*records: Record) -> plots.Curve:
    panels = chart_of(CURVE, *records).panels
    assert isinstance(panels, plots.Curve)
    return panels


def rows_of(name: str, *records: Record) -> dict[str, plots.PanelRow]:
    """The rows of a plot of rows, by name."""
    panels = chart_of(name, *records).panels
    assert not isinstance(panels, plots.Curve)
    return {row.name: row for panel in panels for row in panel.rows}


def test_wrong_case_shows_accuracy_but_no_speed() -> None:
    wrong = sample_records.swept(accuracy=sample_records.failed_accuracy())
    row = rows_of("accuracy-ledger", wrong)["onnx-trt-fp16"]
    assert row.limit == pytest.approx(94.0)
    assert row.values["served"].value == pytest.approx(93.1)
    assert row.text.endswith(": fails")
    assert [*plots.available([publishable(wrong)])[0]] == ["accuracy-ledger"]
    assert not rows_of("best-throughput", wrong, sample_records.random_weights())["onnx-trt-fp16"].values


def test_curve_joins_points_by_load() -> None:
    (points,) = curve_of(sample_records.swept()).lines.values()
    online = [result for result in sample_records.swept().points if result.point.scenario == "online"]
    assert [*points] == sorted(online, key=lambda result: result.point.concurrency)


def test_rates_and_client_batches_are_separate_lines() -> None:
    rates = tuple(sample_records.at_rate(rate, rate) for rate in (500.0, 900.0))
    fours = [LoadPoint("online", 4, concurrency) for concurrency in (8, 16)]
    batches = tuple(sample_records.measured("online", 0, 900.0, point=four) for four in fours)
    lines = curve_of(sample_records.swept(points=(*sample_records.swept().points, *rates, *batches))).lines
    counts = {name: len(points) for name, points in lines.items()}
    assert counts == {"concurrency": 6, "poisson rate": 2, "concurrency, client batch 4": 2}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (sample_records.swept(), ("p99", None)),
        (searched(), ("p95", 25.0)),
        (searched(percentile="p99.9", result=AT_P99_9), ("p99", None)),  # of which the curve knows nothing
    ],
)
def test_budget_is_that_of_search(record: Record, expected: tuple[str, float | None]) -> None:
    curve = curve_of(record)
    assert (curve.latency, curve.budget_ms) == expected


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "within the budget: online, concurrency 48"),
        ({"result": sample_records.measured("offline", 8, 900.0)}, "within the budget: offline, batch 8"),
        ({"verdict": "inconclusive"}, "not shown to be within or beyond the budget: online, concurrency 48"),
        ({"verdict": "failed"}, ""),
        ({"accuracy": sample_records.failed_accuracy()}, ""),
        ({"accuracy": None}, ""),
    ],
)
def test_search_winner_is_shown_only_if_proven(changes: dict[str, object], shown: str) -> None:
    labels = [*curve_of(searched(**changes)).winner]
    assert labels == ([f"found by the search, {shown}"] if shown else [])


def test_throughput_with_random_weights_is_named_and_axis_needs_a_bar() -> None:
    random, empty = sample_records.random_weights(), sample_records.random_weights(case=OTHER, points=())
    chart = chart_of("best-throughput", sample_records.swept(), random, empty)
    assert chart.notes[-1].endswith("alone, with random weights: cpu-nnunet-ts-trace-fp32.")
    assert [axes.xaxis.get_visible() for axes in plots._figure(chart).axes] == [True, True, False]


def test_gist_has_scores_that_look_alike_once() -> None:
    ledgers = [sample_records.accuracy(sample_records.score(served=served)) for served in (0.97, 0.9700001)]
    alike = [sample_records.record(case=OTHER, accuracy=ledger) for ledger in ledgers]
    assert chart_of("accuracy-ledger", *alike).gist == "bert: 97.0"


def test_marked_point_is_hollow_except_for_wide_interval() -> None:
    first = sample_records.measured("online", 1, 9.0, marks=(Mark("wide-interval", "wide"),))
    second = sample_records.measured("online", 2, 15.0, marks=(Mark("cpu-shared", "busy"),))
    chart = chart_of(CURVE, sample_records.record(points=(first, second)))
    assert [note for note in chart.notes if note.startswith("Hollow")] == [f"Hollow: {MARKS['cpu-shared']}."]
    assert plots.draw(chart, "light").count(b"fill: #ffffff; stroke") == 1


def test_digest_of_a_picture_differs_between_themes() -> None:
    chart = chart_of(CURVE, sample_records.swept())
    digest = plots.digest_of(plots.draw(chart, "light").decode())
    assert digest == chart.digest("light") != chart.digest("dark")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with a proven case and a failed one."""
    case = setup.CaseKey("a40", "resnet50", "onnx", None, "fp32")
    wrong = sample_records.record(case=case, accuracy=sample_records.failed_accuracy())
    return sample_records.store(tmp_path / "results", sample_records.swept(), wrong)


@pytest.fixture
def command(results: Path, tmp_path: Path, printed: Callable[..., str]) -> Callable[..., list[str]]:
    """Run `python -m tritonproof report plots` into a folder `pictures`; returns the lines it prints."""
    output = tmp_path / "pictures"
    return lambda *options: printed("plots", "--results", results, "--output", output, *options).splitlines()


def test_command_writes_and_lists_available_plots(command: Callable[..., list[str]], tmp_path: Path) -> None:
    paths = command("--theme", "light")
    case = "a40-resnet50-onnx-trt-fp16"
    expected = [
        "a40-resnet50-onnx-fp32-accuracy-ledger",
        f"{case}-accuracy-ledger",
        f"{case}-throughput-latency",
        "accuracy-ledger",
        "best-throughput",
    ]
    assert paths == [str(tmp_path / "pictures" / f"{name}-light.svg") for name in expected]
    assert all(Path(path).is_file() for path in paths)


def test_command_draws_both_themes_and_png(command: Callable[..., list[str]]) -> None:
    assert len(command("-k", "onnx-fp32")) == 2
    (path,) = command("-k", "onnx-fp32", "--format", "png", "--theme", "dark")
    assert Path(path).read_bytes().startswith(b"\x89PNG")


def test_missing_package_is_named_and_tables_work_without(results: Path) -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from tritonproof.reports.__main__ import main\n"
        f"assert main(['tables', '--results', {str(results)!r}]) == 0\n"
        f"sys.exit(main(['plots', '--results', {str(results)!r}, '--output', {str(results / 'made')!r}]))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert process.returncode == 4, process.stderr
    assert "this needs matplotlib: " in process.stderr
    assert " -m pip install matplotlib" in process.stderr
