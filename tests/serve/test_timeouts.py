"""Busy servers are waited for and idle ones given up."""

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

from fixtures.host.cpu import CpuTime
from fixtures.serve.timeouts import HangsError, while_it_computes
from tests.serve.programs import HANG_S

IDLE_S = 0.05
Clock = Callable[[int | None], Callable[[], CpuTime]]


def clock_of(cores: Iterator[float]) -> Clock:
    """The clock of a server that keeps so many cores busy in each stretch, one after the other."""

    def clock(_pid: int | None) -> Callable[[], CpuTime]:
        return lambda: CpuTime(10.0, 0.0, 10.0 * next(cores), 20.0, 0.0)

    return clock


def test_idle_server_is_given_up() -> None:
    never = threading.Event()
    with pytest.raises(HangsError):
        while_it_computes(lambda: never.wait(HANG_S), 1, IDLE_S, clock_of(itertools.repeat(0.001)))
    never.set()


def test_busy_server_is_waited_for() -> None:
    answered = threading.Event()

    def cores() -> Iterator[float]:
        yield from (1.0, 0.3, 0.02)
        answered.set()
        while True:
            yield 1.0

    assert while_it_computes(lambda: answered.wait(HANG_S), 1, IDLE_S, clock_of(cores()))


def test_server_with_invisible_processes_is_waited_for() -> None:
    assert while_it_computes(lambda: "loaded", None, IDLE_S, clock_of(iter(()))) == "loaded"


def test_error_of_the_call_is_raised() -> None:
    def refuse() -> None:
        raise UnicodeError

    with pytest.raises(UnicodeError):
        while_it_computes(refuse, 1, IDLE_S)
