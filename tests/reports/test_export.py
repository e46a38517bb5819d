"""The figures of a result by name, for other services. tests/golden holds whole exports."""

from tests import sample_records
from tritonproof.record.fields import Estimate, Ratio
from tritonproof.reports.export import figures_by_name

ERROR = sample_records.score(metric="mel MSE", better="lower", framework=0.012, converted=0.012, served=6e-13)


def test_figures_are_named_by_the_fields_that_lead_to_them() -> None:
    ledger = sample_records.accuracy(sample_records.score(), ERROR)
    search = sample_records.search(result=sample_records.complete().points[0], accuracy=ledger)
    wanted = {
        "search_latency_budget_ms": 10.0,
        "search_deployment_preferred_batch_sizes": "64 128",
        "search_result_passes": 3,
        "search_result_marks": "damaged-passes",
        "search_result_throughput_per_s": 1573.6,
        "search_result_gpu_power_w": 240.0,
        "search_result_comparison_p99_ratio_high": 1.3,
        "search_result_called_models_tokens_queue_ms": 0.5,
        "search_accuracy_scores_top-1_limits_1_value": 0.959,
        "search_accuracy_scores_mel_MSE_served": 6e-13,
        "search_accuracy_disagreements_0_count": 1,
    }
    figures = figures_by_name("search", search)
    assert {name: figures.get(name) for name in wanted} == wanted
    of_soak = figures_by_name("soak", sample_records.complete().soak)
    assert of_soak["soak_growth_threads_loading_last"] == 9.0
    assert not {"search_lead", "search_goodput_per_s", "search_diff"} & set(figures), "what is not known"


def test_bounds_are_left_out_where_they_may_not_be_shown() -> None:
    bounds, open_above = (2.0, 1.0, 3.0), Estimate(2.0, 1.0, 3.0, open_above=True)
    latencies = {"avg": Estimate(*bounds), "p99": open_above}
    result = sample_records.measured("offline", 8, 9.0, repeated_speed=Ratio(*bounds), latency_ms=latencies)
    figures = figures_by_name("", result)
    assert not [name for name in figures if name.startswith("repeated_speed")]
    assert [figures[f"latency_ms_avg{end}"] for end in ("", "_low", "_high")] == [2.0, 1.0, 3.0]
    assert "latency_ms_p99_low" in figures
    assert "latency_ms_p99_high" not in figures
