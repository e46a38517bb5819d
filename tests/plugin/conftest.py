"""What the tests of command lines share."""

import functools

import pytest

from tests import collecting
from tests.collecting import Collect


@pytest.fixture
def collect(capsys: pytest.CaptureFixture[str]) -> Collect:
    """Collect the benchmarks with some options, as a command line would."""
    return functools.partial(collecting.collect, capsys)
