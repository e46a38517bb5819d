"""The suite's pytest plugins. A hook that has to run around another plugin's says so by `tryfirst`; of two
such hooks the plugin that is registered later runs first, so `outcomes` stays last."""

from importlib import import_module

import pytest

_NAMES = (
    "fixtures.collection",
    "fixtures.converting",
    "fixtures.runs",
    "fixtures.recorder",
    "fixtures.live_progress",
    "fixtures.terminal",
    "fixtures.interrupts",
    "fixtures.fleet",
    "fixtures.outcomes",
)
_PLUGINS = {name: import_module(name) for name in _NAMES}


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the plugins. For each name in `pytest_plugins`, pytest would search the metadata of every
    installed package and rewrite assertions: a fifth of a second in every run."""
    for name, plugin in _PLUGINS.items():
        if not pluginmanager.has_plugin(name):
            pluginmanager.register(plugin, name)
