"""The suite's pytest plugins: what measures, a question in each file of fixtures/plugin, and what a run says of it."""

from importlib import import_module

import pytest

_NAMES = (
    "fixtures.plugin.command_line.options",
    "fixtures.plugin.command_line.outputs",
    "fixtures.plugin.selecting.collecting",
    "fixtures.plugin.selecting.expressions",
    "fixtures.plugin.selecting.stage_markers",
    "fixtures.plugin.selecting.gpus_in_use",
    "fixtures.plugin.selecting.shards",
    "fixtures.plugin.selecting.selection",
    "fixtures.plugin.selecting.left_out",
    "fixtures.plugin.selecting.threshold_points",
    "fixtures.plugin.selecting.order",
    "fixtures.plugin.telling.output",
    "fixtures.plugin.telling.ending",
    "fixtures.plugin.telling.failure_kind",
    "fixtures.plugin.removing_leftovers",
    "fixtures.plugin.building",
    "fixtures.plugin.building_ahead",
    "fixtures.plugin.serving",
    "fixtures.plugin.as_found",
    "fixtures.plugin.comparing",
    "fixtures.plugin.recording.recorder",
    "fixtures.plugin.recording.stage_seconds",
    "fixtures.plugin.restarting",
    "fixtures.plugin.proving",
    "fixtures.plugin.neighbours",
    "fixtures.plugin.loading_in_process",
    "fixtures.plugin.preparing",
    "fixtures.plugin.measuring",
    "fixtures.plugin.gating",
    "fixtures.plugin.telling.benchmark_entries",
    "fixtures.plugin.serving_reference",
    "fixtures.plugin.measuring_efficiency",
    "fixtures.plugin.searching",
    "fixtures.plugin.soaking",
    "fixtures.plugin.rehearsing",
    "fixtures.plugin.fleet.running",
    "reports.run.plugin",
    "reports.run.history",
)
_PLUGINS = {name: import_module(name) for name in _NAMES}


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the plugins. Of those that `pytest_plugins` names, pytest looks for each in the metadata of every package that
    is installed, and rewrites its assertions: a fifth of a second in every run."""
    for name, plugin in _PLUGINS.items():
        if not pluginmanager.has_plugin(name):
            pluginmanager.register(plugin, name)
