"""Starting and collecting do nothing in vain: no search for garbage that there is not, and for packages once."""

import gc
import importlib.metadata
from collections.abc import Iterable

import pytest

from tests.helpers import WITHOUT, collect


class Looked:
    """Whether Python looks for garbage while each test is made."""

    def __init__(self) -> None:
        self.while_collecting: set[bool] = set()

    def pytest_itemcollected(self) -> None:
        self.while_collecting.add(gc.isenabled())


@pytest.mark.parametrize("arguments", [(), ("-k", "a100 and")], ids=["all", "an error"])
def test_no_garbage_is_looked_for_while_tests_are_made_but_before_and_after(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    gc.freeze()  # as the run of these tests did, if it is one of the suite
    kept, looked = gc.get_freeze_count(), Looked()
    assert gc.isenabled()

    pytest.main(["benchmarks", "--collect-only", "-q", *WITHOUT, *arguments], plugins=[looked])

    assert looked.while_collecting == {False}
    assert gc.isenabled()
    assert gc.get_freeze_count() <= kept, "a run within another leaves its tests to be found"


def test_installed_packages_are_not_searched_anew_for_each_plugin_of_the_suite(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A search reads a file of each package, some hundred of them."""
    searches = 0
    found = importlib.metadata.distributions

    def counted() -> Iterable[importlib.metadata.Distribution]:
        nonlocal searches
        searches += 1
        return found()

    monkeypatch.setattr(importlib.metadata, "distributions", counted)
    collected = collect(capsys)
    assert collected.selected
    assert searches < 5
