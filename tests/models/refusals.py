"""What a checkpoint that is refused is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.errors import InputError


def refused_by(load: Callable[[Path], Any], path: Path) -> str:
    """The error of a checkpoint that `load` refuses, which names the file and a fix."""
    with pytest.raises(InputError) as raised:
        load(path)
    assert str(path) in str(raised.value)
    assert raised.value.fix
    return str(raised.value)
