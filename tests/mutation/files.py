"""Which tests hold which file of statistics, gates, verdicts and exit statuses: the files of its own room, none with a server."""

_QUICK_RATIOS = tuple(
    f"tests/compare/test_ratio.py::{name}"
    for name in (
        "test_scipy_finds_the_same_bounds",
        "test_passes_without_any_spread_have_a_ratio_too",
        "test_five_pairs_are_too_few",
        "test_points_that_are_measured_together_share_what_the_first_do_not_need",
        "test_holm_shows_the_same_as_by_hand",
        "test_scipy_finds_the_same_chances",
        "test_looks_are_few",
        "test_a_verdict_needs_the_whole_interval_on_one_side",
        "test_the_seconds_that_would_settle_it_are_those_that_narrow_the_interval_enough",
        "test_seconds_to_settle_at_the_limit_are_capped_and_none_once_settled",
    )
)
_QUICK_ESTIMATES = tuple(
    f"tests/measure/test_estimates.py::{name}"
    for name in (
        "test_latencies_that_still_fall_are_not_warm",
        "test_the_slow_ones_at_the_beginning_are_the_warm_up_and_no_more",
        "test_a_handful_of_requests_proves_nothing",
        "test_percentiles_are_those_of_all_latencies_together",
        "test_the_interval_widens_when_passes_differ",
        "test_the_interval_is_scaled_with_the_value",
        "test_the_interval_does_not_reach_below_zero",
        "test_the_interval_of_a_p99_is_open_above_where_few_requests_are_independent",
        "test_one_pass_has_no_interval",
        "test_the_goodput_counts_what_was_answered_in_time",
    )
)
"""Those that simulate no thousands of measurements."""

TESTS: dict[str, tuple[str, ...]] = {
    "fixtures/measure/estimates.py": ("tests/measure/test_intervals.py", *_QUICK_ESTIMATES),
    "fixtures/measure/early_stopping.py": (
        "tests/measure/test_early_stopping.py",
        "tests/measure/test_certifying.py",
    ),
    "fixtures/measure/stopping.py": (
        "tests/measure/test_stopping.py",
        "tests/measure/test_sweep.py",
        "tests/measure/test_certifying.py",
    ),
    "fixtures/measure/windows.py": ("tests/measure/test_windows.py", "tests/measure/test_stopping.py"),
    "fixtures/measure/validity.py": ("tests/measure/test_validity.py", "tests/measure/test_gpu_use.py"),
    "fixtures/compare/comparison.py": (
        "tests/compare/test_few_passes.py",
        "tests/compare/test_comparison.py",
        *_QUICK_RATIOS,
    ),
    "reports/record/ratio.py": (
        "tests/compare/test_chances.py",
        *_QUICK_RATIOS,
        "tests/compare/test_comparison.py",
    ),
    "fixtures/gates/sameness.py": (
        "tests/gates/test_wrong_rows.py",
        "tests/gates/test_sameness.py",
    ),
    "fixtures/gates/recorded.py": ("tests/gates/test_recorded.py",),
    "fixtures/gates/transports.py": ("tests/gates/test_every_way.py",),
    "fixtures/gates/refusals.py": ("tests/gates/test_refusals.py",),
    "fixtures/gates/declared.py": ("tests/gates/test_declared.py",),
    "fixtures/gates/same.py": ("tests/gates/test_same.py",),
    "fixtures/gates/replies.py": ("tests/gates/test_replies.py", "tests/gates/test_every_way.py"),
    "fixtures/gates/served.py": ("tests/gates/test_same.py", "tests/gates/test_replies.py"),
    "fixtures/prove/accuracy.py": ("tests/prove/test_accuracy.py", "tests/prove/test_ledger_limits.py"),
    "fixtures/prove/parity.py": (
        "tests/prove/test_error_in_costs.py",
        "tests/prove/test_parity.py",
        "tests/prove/test_parity_outputs.py",
        "tests/prove/test_precision_cost.py::test_decisions_are_held_to_as_many_as_the_precision_changes",
    ),
    "fixtures/prove/outputs.py": (
        "tests/prove/test_parity.py",
        "tests/prove/test_parity_outputs.py",
        "tests/prove/test_accuracy.py",
    ),
    "reports/record/verdicts.py": (
        "tests/record/test_verdicts.py",
        "tests/compare/test_comparison.py",
        "tests/tables/test_summary.py",
    ),
    "fixtures/run/failure_kind.py": ("tests/run/test_statuses.py",),
    "reports/run/outcomes.py": ("tests/run/test_statuses.py",),
    "reports/compare/changes.py": (
        "tests/compare/test_failing_status.py",
        "tests/compare/test_folders.py::test_a_terminal_gets_whole_names_without_markdown",
    ),
    "reports/trend/command.py": ("tests/trend/test_trend_command.py", "tests/export/test_soaks.py"),
    "reports/compare/paired_scores.py": ("tests/compare/test_paired_scores.py",),
    "fixtures/thresholds.py": ("tests/thresholds",),
    "fixtures/soak/growth.py": ("tests/soak/test_limits_of_growth.py", "tests/soak/test_growth.py"),
    "fixtures/soak/record_entry.py": ("tests/soak/test_under_load.py",),
    "reports/record/schema/_soaks.py": (
        "tests/record/test_soak_verdicts.py",
        "tests/soak/test_limits_of_growth.py",
    ),
}
"""The tests of each file."""
