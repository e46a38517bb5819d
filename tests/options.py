"""Settings for tests that need no run of pytest."""

import argparse
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from fixtures.run.settings import Settings, add_options


def settings(**given: Any) -> Settings:
    """The settings of these options, as texts or lists of them by their names, and the defaults of the others; the server is
    the embedded one unless it is given."""
    return Settings.of(**{"triton": "embedded", **given})


def parser(of: type[Settings] = Settings) -> argparse.ArgumentParser:
    """The options as a parser of their own."""
    found = argparse.ArgumentParser(exit_on_error=False)
    group = SimpleNamespace(addoption=found.add_argument)
    add_options(SimpleNamespace(getgroup=lambda *_names, **_place: group), of)
    return found


def options(**given: Any) -> argparse.Namespace:
    """These options and the defaults of the others, as pytest's configuration holds their texts."""
    return argparse.Namespace(**{**vars(parser().parse_args([])), **given})


def parsed(words: Sequence[str], of: Any = Settings) -> Any:
    """The settings of a command line."""
    return of.of(**vars(parser(of).parse_args(list(words))))
