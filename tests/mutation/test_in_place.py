"""Is a fault that is put into a loaded module there for whoever holds a part of it, and only where it says?"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutation.in_place import has_same_decorators, is_in_a_function, put_into

SOURCE = """
import contextlib
import functools
from dataclasses import dataclass

LIMIT = 3
TABLE = {"a": LIMIT}


@dataclass(frozen=True)
class Plan:
    most: int = 5

    @property
    def twice(self):
        return 2 * self.most


def below(value, limit=LIMIT):
    return value < limit


@functools.cache
def kept(value):
    return value + 1


@contextlib.contextmanager
def block():
    yield "in"
"""


@pytest.fixture
def loaded() -> Iterator[ModuleType]:
    """A module of the project, for the length of a test."""
    module = ModuleType("fixtures.made_up")
    module.__file__ = str(Path(__file__))
    sys.modules[module.__name__] = module
    exec(SOURCE, vars(module))
    yield module
    del sys.modules[module.__name__]


@pytest.fixture
def holder(loaded: ModuleType) -> Iterator[ModuleType]:
    """Another module, which has taken all of its names."""
    module = ModuleType("tests.made_up")
    vars(module).update({name: value for name, value in vars(loaded).items() if not name.startswith("__")})
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


@pytest.mark.parametrize(
    ("right", "faulty", "said"),
    [
        ("value < limit", "value > limit", "below(1)"),
        ("LIMIT = 3", "LIMIT = 1", "below(2)"),
        ("LIMIT = 3", "LIMIT = 1", "LIMIT"),
        ("LIMIT = 3", "LIMIT = 1", "TABLE['a']"),
        ("value + 1", "value - 1", "kept(1)"),
        ('yield "in"', 'yield "out"', "block().__enter__()"),
        ("2 * self.most", "3 * self.most", "Plan(2).twice"),
        ("most: int = 5", "most: int = 6", "Plan().most"),
    ],
)
def test_a_fault_is_there_for_who_took_the_names_before(
    loaded: ModuleType, holder: ModuleType, right: str, faulty: str, said: str
) -> None:
    before = eval(said, vars(holder))
    put_into(loaded, SOURCE.replace(right, faulty))

    assert eval(said, vars(holder)) != before
    put_into(loaded, SOURCE)
    assert eval(said, vars(holder)) == before, "the right source again"


def test_what_is_a_class_stays_the_same_one(loaded: ModuleType) -> None:
    plan = loaded.Plan(2)
    put_into(loaded, SOURCE.replace("2 * self", "3 * self"))

    assert isinstance(plan, loaded.Plan)
    assert plan.twice == 6


def test_it_is_known_what_can_be_put_in_place() -> None:
    inside = SOURCE.replace("value < limit", "value > limit")
    constant = SOURCE.replace("LIMIT = 3", "LIMIT = 1")
    decorator = SOURCE.replace("@functools.cache\n", "")

    assert [is_in_a_function(SOURCE, one) for one in (inside, constant, decorator)] == [True, False, False]
    assert [has_same_decorators(SOURCE, one) for one in (inside, constant, decorator)] == [True, True, False]
