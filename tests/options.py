"""The suite's options as a parser of their own, for tests that give a command line and need no run of pytest."""

import argparse
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from fixtures.plugin.command_line.options import pytest_addoption


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise pytest.UsageError(message)


def parser() -> argparse.ArgumentParser:
    """The suite's options. A bad value is pytest's UsageError."""
    found = _Parser()
    group = SimpleNamespace(addoption=found.add_argument)
    pytest_addoption(SimpleNamespace(getgroup=lambda *_names, **_place: group))  # type: ignore[arg-type]
    return found


def options(**given: Any) -> argparse.Namespace:
    """The options of a command line with these, by their names and as texts or lists of them, and the defaults of the others;
    the server is the embedded one unless it is given."""
    return parser().parse_args(words({"triton": "embedded", **given}))


def words(given: Mapping[str, Any]) -> list[str]:
    """Options as a command line has them."""
    return [
        f"--{name.replace('_', '-')}" if text is True else f"--{name.replace('_', '-')}={text}"
        for name, value in given.items()
        for text in (value if isinstance(value, list) else [value])
    ]
