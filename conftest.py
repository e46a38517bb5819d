"""The suite's pytest plugins; each file of fixtures/plugin answers one question."""

pytest_plugins = (
    "fixtures.plugin.options",
    "fixtures.plugin.stages",
    "fixtures.plugin.selection",
    "fixtures.plugin.order",
    "fixtures.plugin.output",
    "fixtures.plugin.exit",
    "fixtures.plugin.ci",
    "fixtures.plugin.comparing",
    "fixtures.plugin.building",
    "fixtures.plugin.serving",
    "fixtures.plugin.recorder",
    "fixtures.plugin.proving",
    "fixtures.plugin.measuring",
    "fixtures.plugin.benchmark_entries",
    "fixtures.plugin.measuring_efficiency",
    "fixtures.plugin.searching",
)
