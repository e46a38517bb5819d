"""The figures of a result by name, for other services. tests/golden holds whole exports."""

from msgspec import structs

from fixtures.spec import LoadPoint
from reports.export import bencher
from reports.record.figures import accuracy_figures, search_figures
from tests import examples

ERROR = examples.score(metric="mel MSE", better="lower", framework=0.012, converted=0.012, served=6e-13)


def test_load_point_has_one_name_in_tests_and_records() -> None:
    point = LoadPoint("online", 1, 0, 120.0, "poisson")
    assert str(point) == "b001-r00120-poisson"
    assert "online b001-r00120-poisson" in "".join(bencher(examples.seen(examples.complete())))


def test_accuracy_figures_have_the_tightest_limit() -> None:
    figures = accuracy_figures(examples.accuracy(examples.score(), ERROR))
    assert (figures["top-1_floor_percent"], figures["top-1_served_percent"]) == (95.9, 96.25)
    assert figures["mel_MSE_served"] == 6e-13
    assert "mel_MSE_ceiling" in figures
    assert figures["converted_served_differ"] == 1


def test_search_exports_winner_and_its_accuracy() -> None:
    search = examples.search(load=examples.load("offline", 8, 1500.0))
    figures = search_figures(search)
    assert (figures["latency_budget_ms"], figures["budget_verdict"]) == (10.0, "passed")
    assert (figures["preferred_batch_sizes"], figures["throughput_per_s"]) == ("64 128", 1500.0)
    assert "top-1_served_percent" not in figures
    assert "top-1_served_percent" in search_figures(structs.replace(search, accuracy=examples.accuracy()))
