"""The suite's pytest plugins: what measures, a question in each file of fixtures/plugin, and what a run says of it."""

pytest_plugins = (
    "fixtures.plugin.options",
    "fixtures.plugin.stages",
    "fixtures.plugin.selection",
    "fixtures.plugin.order",
    "fixtures.plugin.output",
    "fixtures.plugin.failure_kind",
    "fixtures.plugin.comparing",
    "fixtures.plugin.building",
    "fixtures.plugin.serving",
    "fixtures.plugin.recorder",
    "fixtures.plugin.proving",
    "fixtures.plugin.measuring",
    "fixtures.plugin.benchmark_entries",
    "fixtures.plugin.measuring_efficiency",
    "fixtures.plugin.searching",
    "reports.run.outcomes",
    "reports.run.terminal_summary",
    "reports.run.exit_status",
    "reports.run.job_summary",
)
