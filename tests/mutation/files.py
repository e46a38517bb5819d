"""Which tests hold which file of statistics, gates, verdicts and exit statuses: the files of its own room, none with a server."""

_STATUSES = tuple(
    f"tests/run/test_ci.py::{name}"
    for name in (
        "test_the_worst_failure_decides_the_exit_status",
        "test_a_run_that_did_not_end_keeps_pytests_status",
        "test_the_statuses_are_none_of_pytests_and_a_failure_of_another_test_is_one_of_them",
        "test_what_is_missing_on_the_machine_is_infrastructure_and_not_bad_input",
        "test_a_run_in_which_all_was_skipped_has_proven_nothing",
    )
)
"""Those that start no run of the suite."""

TESTS: dict[str, tuple[str, ...]] = {
    "fixtures/measure/estimates.py": ("tests/measure/test_estimates.py",),
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
        "tests/compare/test_ratio.py",
    ),
    "reports/record/ratio.py": (
        "tests/compare/test_chances.py",
        "tests/compare/test_ratio.py",
        "tests/compare/test_comparison.py",
    ),
    "fixtures/gates/sameness.py": (
        "tests/gates/test_wrong_rows.py",
        "tests/gates/test_sameness.py",
    ),
    "fixtures/gates/recorded.py": ("tests/gates/test_recorded.py",),
    "fixtures/gates/transports.py": ("tests/gates/test_every_way.py",),
    "fixtures/gates/refusals.py": ("tests/gates/test_every_way.py",),
    "fixtures/prove/accuracy.py": ("tests/prove/test_accuracy.py", "tests/prove/test_per_sample.py"),
    "fixtures/prove/parity.py": (
        "tests/prove/test_error_in_costs.py",
        "tests/prove/test_parity.py",
        "tests/prove/test_precision_cost.py",
    ),
    "fixtures/prove/outputs.py": ("tests/prove/test_parity.py", "tests/prove/test_accuracy.py"),
    "reports/record/verdicts.py": (
        "tests/thresholds",
        "tests/tables/test_summary.py",
        "tests/compare/test_ratio.py",
    ),
    "fixtures/plugin/telling/failure_kind.py": (*_STATUSES, "tests/run/test_statuses.py"),
    "reports/run/exit_status.py": (*_STATUSES, "tests/run/test_statuses.py"),
}
"""The tests of each file."""
