"""The suite's pytest plugins: what measures, a question in each file of fixtures/plugin, and what a run says of it."""

pytest_plugins = (
    "fixtures.plugin.command_line.options",
    "fixtures.plugin.selecting.stage_markers",
    "fixtures.plugin.selecting.gpus_in_use",
    "fixtures.plugin.selecting.selection",
    "fixtures.plugin.selecting.order",
    "fixtures.plugin.telling.output",
    "fixtures.plugin.telling.failure_kind",
    "fixtures.plugin.comparing",
    "fixtures.plugin.building",
    "fixtures.plugin.serving",
    "fixtures.plugin.recording.recorder",
    "fixtures.plugin.proving",
    "fixtures.plugin.measuring",
    "fixtures.plugin.telling.benchmark_entries",
    "fixtures.plugin.measuring_efficiency",
    "fixtures.plugin.searching",
    "reports.run.outcomes",
    "reports.run.terminal_summary",
    "reports.run.exit_status",
    "reports.run.job_summary",
)
