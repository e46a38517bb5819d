"""How a file is refused, and in how little memory."""

import tracemalloc
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tritonproof.base.errors import InputError

T = TypeVar("T")


def within(mib: int, call: Callable[[], T]) -> T:
    """What a call returns, which takes less than so much memory."""
    tracemalloc.start()
    try:
        result = call()
        assert tracemalloc.get_traced_memory()[1] < mib << 20
    finally:
        tracemalloc.stop()
    return result


def refusal(read: Callable[[], Any]) -> InputError:
    """The error of a file that is refused: short, and with a fix."""
    with pytest.raises(InputError) as raised:
        read()
    assert raised.value.fix
    assert len(raised.value.what) < 500
    return raised.value
