"""Plots: what each shows of which records, what it never shows, and the files that it becomes."""

import re
from xml.etree import ElementTree

import pytest
from msgspec import structs

from reports import plots
from reports.plots import shapes
from reports.plots.drawing.sheet import plain, spread, thinned
from reports.record.schema import Load, Mark, Record, case_id
from reports.text.publishable import publishable
from tests import samples
from tests.samples import estimate

SPEEDS = ("batch-sweep", "concurrency-sweep", "throughput-latency", "latency-components")
SVG = "{http://www.w3.org/2000/svg}"


def efficient(**changes: object) -> Record:
    """A swept case with its efficiency."""
    one = samples.efficiency("offline", 128, flops_per_inference=8e9, peak_flops_per_s=estimate(1e14))
    return samples.swept(efficiency=(one,), **changes)


def compared() -> Record:
    """A swept case whose first point was compared with another build."""
    first, *rest = samples.swept().loads
    return samples.swept(loads=(structs.replace(first, comparison=samples.comparison()), *rest))


def searched(**changes: object) -> Record:
    """A swept case with a search that found a point within its budget."""
    fields = {"budget_ms": 25.0, "percentile": "p95", "accuracy": samples.accuracy()}
    found = samples.load("online", 48, 2750.0)
    return samples.swept(search=samples.search(load=found, **(fields | changes)))


def content_of(name: str, *records: Record, budget_ms: float | None = None) -> object:
    """What a plot shows, without its frame."""
    return plots.chart(name, [publishable(one) for one in records], budget_ms).content


def rows_of(name: str, *records: Record) -> dict[str, shapes.ValueRow]:
    """The rows of a plot of rows, by name."""
    content = content_of(name, *records)
    assert isinstance(content, shapes.Rows)
    return {row.name: row for panel in content.panels for row in panel.rows}


def texts_of(svg: str) -> list[str]:
    """Every text in a picture, in the order drawn."""
    return [(element.text or "").strip() for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_swept_case_has_every_plot_of_one_case() -> None:
    assert plots.available([publishable(samples.swept())]) == [*SPEEDS, "accuracy-ledger"]
    assert plots.available([publishable(efficient())])[-1] == "efficiency"
    assert plots.available([publishable(compared())])[-1] == "comparison"


def test_several_cases_have_the_plots_that_set_them_side_by_side() -> None:
    other = samples.random_weights()
    assert plots.available([publishable(efficient()), publishable(other)]) == [
        "accuracy-ledger",
        "best-throughput",
        "efficiency",
    ]


def test_a_case_that_is_not_right_shows_where_it_lost_its_accuracy() -> None:
    row = rows_of("accuracy-ledger", samples.record(accuracy=samples.failed_accuracy()))["onnx-trt-fp16"]
    assert row.limit == pytest.approx(94.0)
    assert row.values["served"].value == pytest.approx(93.1)
    assert row.text.endswith(": fails")


@pytest.mark.parametrize(
    ("name", "loads", "reason"),
    [
        ("batch-sweep", (samples.load("online", 8, 5.0),), "No offline load point has been measured."),
        ("concurrency-sweep", (samples.load("online", 8, 5.0),), "Only one online load point"),
        ("throughput-latency", (samples.load("online", 8, 5.0),), "Only one online load point"),
        ("latency-components", (), "No load point has been measured."),
        ("best-throughput", (), "No case has a throughput to show."),
        ("efficiency", (), "No efficiency has been measured"),
        ("comparison", (samples.load("online", 8, 5.0),), "No load point has been compared"),
    ],
)
def test_what_has_nothing_to_show_says_why(name: str, loads: tuple[Load, ...], reason: str) -> None:
    one = samples.record(loads=loads)
    assert name not in plots.available([publishable(one)])
    with pytest.raises(shapes.NothingToShowError, match=f"^{re.escape(reason)}"):
        plots.chart(name, [publishable(one)])


def test_a_sweep_draws_its_points_by_size_with_their_intervals() -> None:
    sweep = content_of("batch-sweep", samples.swept())
    assert isinstance(sweep, shapes.Sweep)
    (series,) = sweep.series
    assert [point.x for point in series.points] == [1, 2, 4, 8, 16, 32, 64, 128]
    measured = {
        load.batch: load.throughput_per_s for load in samples.swept().loads if load.scenario == "offline"
    }
    assert [point.throughput_per_s for point in series.points] == [*measured.values()]


def test_points_of_another_client_batch_are_another_line() -> None:
    more = tuple(samples.load("online", size, 900.0 + size, batch=4) for size in (8, 16))
    sweep = content_of("concurrency-sweep", samples.swept(loads=(*samples.swept().loads, *more)))
    assert isinstance(sweep, shapes.Sweep)
    assert [(one.name, len(one.points)) for one in sweep.series] == [
        ("client batch 1", 6),
        ("client batch 4", 2),
    ]


def test_points_at_a_rate_are_another_line_and_no_concurrency() -> None:
    rates = tuple(
        samples.load("online", 0, rate, request_rate_per_s=rate, arrivals="poisson")
        for rate in (500.0, 900.0)
    )
    swept = samples.swept(loads=(*samples.swept().loads, *rates))
    curve, sweep = content_of("throughput-latency", swept), content_of("concurrency-sweep", swept)
    assert isinstance(curve, shapes.Curve)
    assert isinstance(sweep, shapes.Sweep)
    assert [(one.name, len(one.points)) for one in curve.series] == [("concurrency", 6), ("poisson rate", 2)]
    assert [len(one.points) for one in sweep.series] == [6]


def test_the_budget_is_that_of_the_search_unless_one_is_given() -> None:
    def budget(record: Record, given: float | None = None) -> shapes.Budget | None:
        curve = content_of("throughput-latency", record, budget_ms=given)
        assert isinstance(curve, shapes.Curve)
        return curve.budget

    assert budget(samples.swept()) is None
    assert budget(samples.swept(), 10.0) == shapes.Budget("p99", 10.0)
    assert budget(searched()) == shapes.Budget("p95", 25.0)
    assert budget(searched(), 10.0) == shapes.Budget("p95", 10.0)


def test_the_budget_has_a_line_with_its_name() -> None:
    for name in ("batch-sweep", "concurrency-sweep", "throughput-latency"):
        assert "budget: p95 25 ms" in texts_of(plots.svg(name, [publishable(searched())]))
        assert not any("budget" in text for text in texts_of(plots.svg(name, [publishable(samples.swept())])))
    assert "stroke-dasharray" in plots.svg("throughput-latency", [publishable(searched())])
    assert "stroke-dasharray" not in plots.svg("throughput-latency", [publishable(samples.swept())])


def test_latencies_that_are_far_apart_are_on_an_axis_that_says_so() -> None:
    assert "Latency (ms)" in texts_of(plots.svg("batch-sweep", [publishable(samples.swept())], "light", 60.0))
    assert "Latency (ms, log scale)" in texts_of(
        plots.svg("batch-sweep", [publishable(samples.swept())], "light", 1000.0)
    )


@pytest.mark.parametrize(
    ("changes", "is_shown"),
    [
        ({}, True),
        ({"verdict": "not shown"}, True),
        ({"verdict": "beyond"}, False),
        ({"accuracy": samples.failed_accuracy()}, False),
        ({"accuracy": None}, False),
    ],
)
def test_what_a_search_found_is_shown_where_it_is_proven(changes: dict[str, object], is_shown: bool) -> None:
    curve = content_of("throughput-latency", searched(**changes))
    assert isinstance(curve, shapes.Curve)
    assert (curve.winner is not None) == is_shown


def test_a_marked_point_is_hollow_and_a_note_says_why() -> None:
    chart = plots.chart("batch-sweep", [publishable(samples.swept())])
    assert "Hollow, batch 8: other programs took part of the CPU." in chart.notes
    assert isinstance(chart.content, shapes.Sweep)
    assert [point.name for point in chart.content.series[0].points if point.marked] == ["batch 8"]


def test_a_wide_interval_is_seen_and_needs_no_mark() -> None:
    wide = samples.load("offline", 1, 9.0, marks=(Mark("wide-interval", "wide"),))
    chart = plots.chart(
        "batch-sweep", [publishable(samples.record(loads=(wide, samples.load("offline", 2, 15.0))))]
    )
    assert not any(note.startswith("Hollow") for note in chart.notes)


def test_components_add_up_to_the_bar() -> None:
    stack = content_of("latency-components", samples.swept())
    assert isinstance(stack, shapes.Stack)
    offline, online = stack.panels
    assert (offline.title, online.title) == ("Offline", "Online")
    for panel, scenario in ((offline, "offline"), (online, "online")):
        means = [one.latency_ms["avg"].value for one in samples.swept().loads if one.scenario == scenario]
        assert [sum(bar.components_ms.values()) for bar in panel.bars] == pytest.approx(means)


def test_one_case_shows_every_metric_and_several_their_first() -> None:
    error = samples.score(
        metric="mel MSE", better="lower", framework=0.012, converted=0.012, served=0.0121, limits=()
    )
    two = samples.record(accuracy=samples.accuracy(samples.score(), error))
    one, many = content_of("accuracy-ledger", two), content_of("accuracy-ledger", two, samples.swept())
    assert isinstance(one, shapes.Rows)
    assert isinstance(many, shapes.Rows)
    assert [panel.axis for panel in one.panels] == [
        "top-1, % (higher is better)",
        "mel MSE (lower is better)",
    ]
    assert [panel.axis for panel in many.panels] == ["top-1, % (higher is better)"]
    assert one.panels[1].rows[0].values["served"].value == 0.0121


def test_the_ledger_names_cases_without_a_score() -> None:
    chart = plots.chart(
        "accuracy-ledger", [publishable(samples.record()), publishable(samples.random_weights())]
    )
    assert "Without a score: cpu-nnunet-ts-trace-fp32." in chart.notes


def test_the_best_point_of_a_case_is_that_of_the_highest_throughput() -> None:
    rows = rows_of("best-throughput", samples.swept(), samples.random_weights())
    assert rows["onnx-trt-fp16"].text == "3924.1 ± 2.0 %, offline, batch 128"
    assert rows["ts-trace-fp32"].text == "0.712 ± 2.0 %, offline, batch 1"


def test_a_comparison_stands_beside_what_is_allowed() -> None:
    (row,) = rows_of("comparison", compared()).values()
    assert row.limit == pytest.approx(0.97)
    assert row.values["ratio"].value == 0.9
    assert "slower than the 3 % allowed" in row.text


@pytest.mark.parametrize("name", [*plots.PLOTS])
def test_every_plot_is_one_small_element_that_says_what_it_shows(name: str) -> None:
    record = structs.replace(compared(), efficiency=efficient().efficiency)
    text = plots.svg(name, [publishable(record)], "dark")
    root = ElementTree.fromstring(text)
    assert text.startswith("<svg ")
    assert root.tag == f"{SVG}svg"
    title, description = root[0], root[1]
    assert (title.tag, description.tag) == (f"{SVG}title", f"{SVG}desc")
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    for expected in (case_id(record.case), "NVIDIA A40 (driver 550.54.15)", "Triton 2.51.0", "torch 2.13.0"):
        assert expected in (description.text or "")
        assert expected in f"{title.text} {' '.join(texts_of(text))}"
    assert len(text) < 64_000
    assert not re.search(r"\d\.\d{3}", re.sub(r">[^<]*<", "><", text).replace("aria-", ""))


def test_the_description_says_where_a_sweep_begins_and_ends() -> None:
    text = plots.svg("batch-sweep", [publishable(samples.swept())])
    assert "batch 1: 420.0 infer/s, p99 4.524 ms; batch 128: 3,924.1 infer/s" in text


def test_drawing_leaves_the_settings_of_matplotlib_as_they_were() -> None:
    import matplotlib as mpl

    mpl.rcParams["axes.linewidth"] = 7
    before = dict(mpl.rcParams)
    try:
        thick = plots.svg("batch-sweep", [publishable(samples.swept())])
        assert dict(mpl.rcParams) == before
    finally:
        mpl.rcdefaults()
    assert thick == plots.svg("batch-sweep", [publishable(samples.swept())])


def test_the_digest_is_that_of_what_is_drawn() -> None:
    chart = plots.chart("batch-sweep", [publishable(samples.swept())])
    found = plots.digest_of(plots.svg("batch-sweep", [publishable(samples.swept())]))
    assert found == plots.digest(chart, "light")
    assert found != plots.digest(chart, "dark")
    first, *rest = samples.swept().loads
    other = samples.swept(loads=(structs.replace(first, throughput_per_s=estimate(421)), *rest))
    assert plots.digest(plots.chart("batch-sweep", [publishable(other)]), "light") != found


@pytest.mark.parametrize("text", ["", "<svg/>", "<svg data-digest='1'/>"])
def test_another_picture_has_no_digest(text: str) -> None:
    assert plots.digest_of(text) is None


def test_a_picture_that_breaks_off_has_no_digest() -> None:
    text = plots.svg("batch-sweep", [publishable(samples.swept())])
    assert plots.digest_of(text) is not None
    assert plots.digest_of(text[: len(text) // 2]) is None


def test_pictures_of_one_page_share_no_ids() -> None:
    texts = [
        plots.svg(name, [publishable(samples.swept())], theme)
        for name in SPEEDS[2:]
        for theme in plots.THEMES
    ]
    ids = [element.get("id") for text in texts for element in ElementTree.fromstring(text).iter()]
    named = [one for one in ids if one]
    assert len(named) == len({*named})


def test_a_png_is_a_png() -> None:
    assert plots.png("accuracy-ledger", [publishable(samples.swept())]).startswith(b"\x89PNG\r\n")


def test_what_is_near_is_moved_apart_and_what_is_far_stays() -> None:
    assert spread([0.1, 0.9], 0.2) == [0.1, 0.9]
    low, high = spread([0.5, 0.45], 0.2)[::-1]
    assert (low, high) == (pytest.approx(0.375), pytest.approx(0.575))


def test_ticks_are_exact() -> None:
    assert [plain(value) for value in (0.0, 96.025, 0.012026, 2e-07, 1500.0)] == [
        "0",
        "96.025",
        "0.012026",
        "2e-07",
        "1,500",
    ]


def test_sizes_that_would_touch_lose_their_tick() -> None:
    assert thinned([4, 1, 2, 3], lambda one, other: other - one, 2) == [1, 3]
