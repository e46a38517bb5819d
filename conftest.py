"""The suite's pytest plugins: what measures, a question in each file of fixtures/run, and what a run says of it."""

from importlib import import_module

import pytest

_NAMES = (
    "fixtures.run.options",
    "fixtures.run.outputs",
    "fixtures.run.collecting",
    "fixtures.run.expressions",
    "fixtures.run.stage_markers",
    "fixtures.run.gpus_in_use",
    "fixtures.run.shards",
    "fixtures.run.selection",
    "fixtures.run.left_out",
    "fixtures.run.threshold_points",
    "fixtures.run.order",
    "fixtures.run.output",
    "fixtures.run.ending",
    "fixtures.run.failure_kind",
    "fixtures.run.leftovers",
    "fixtures.run.fixtures",
    "fixtures.run.recorded_tests",
    "fixtures.run.converting",
    "fixtures.run.recorder",
    "fixtures.run.stage_seconds",
    "fixtures.run.benchmark_entries",
    "fixtures.run.fleet",
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
