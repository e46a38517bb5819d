"""The suite's pytest plugins; each file of fixtures/plugin answers one question."""

pytest_plugins = (
    "fixtures.plugin.options",
    "fixtures.plugin.selection",
    "fixtures.plugin.output",
    "fixtures.plugin.exit",
    "fixtures.plugin.ci",
    "fixtures.plugin.duel",
    "fixtures.plugin.lifetimes",
    "fixtures.plugin.recorder",
    "fixtures.plugin.evaluation",
    "fixtures.plugin.points",
    "fixtures.plugin.entries",
    "fixtures.plugin.efficiency",
    "fixtures.plugin.search",
)
