"""The ledger of a run on many nodes: what is done is done once, whoever dies, and what fails too often is reported."""

from typing import Any

from fixtures.fleet.groups import Group
from fixtures.fleet.ledger import (
    TRIES,
    Attempt,
    Began,
    Doing,
    Finished,
    GivenUp,
    Lost,
    Stopped,
)
from fixtures.fleet.ledger import Ledger as _Ledger

ITEMS = (
    "benchmarks/test_a.py::test_a[x]",
    "benchmarks/test_b.py::test_b[x]",
    "benchmarks/test_c.py::test_c[x]",
)


def ledger() -> _Ledger:
    """The ledger of a group of three tests."""
    return _Ledger([Group("t4", "bert", ITEMS, 3.0)])


def begun(of: _Ledger, node: str = "node-1") -> Attempt:
    """The attempt of a node that is given work."""
    found = of.begin(0, node)
    assert found is not None
    return found


def finished(item: str, **files: bytes) -> dict[str, Any]:
    """What a node tells of a test that has ended."""
    return {"finished": item, "reports": [{"outcome": "passed"}], "files": files}


def of_kind(news: list[Any], kind: type) -> list[Any]:
    """The news of one kind."""
    return [one for one in news if isinstance(one, kind)]


def test_what_a_node_tells_reaches_the_controller_once() -> None:
    of = ledger()
    attempt = begun(of)
    of.tell(attempt, [{"started": ITEMS[0]}, finished(ITEMS[0], record=b"1")])

    news = of.news()

    assert [type(one) for one in news] == [Began, Doing, Finished]
    assert of_kind(news, Finished)[0].files == {"record": b"1"}
    assert of.news() == []


def test_another_node_runs_only_what_is_left_and_has_what_was_written() -> None:
    of = ledger()
    of.tell(begun(of), [finished(ITEMS[0], record=b"1"), {"started": ITEMS[1]}])

    second = begun(of, "node-2")

    assert second.items == ITEMS[1:]
    assert second.files == {"record": b"1"}
    assert [one.item for one in of_kind(of.news(), Lost)] == [ITEMS[1]]


def test_a_node_that_comes_back_after_another_took_over_is_told_to_end() -> None:
    of = ledger()
    first = begun(of)
    second = begun(of, "node-2")

    assert not of.tell(first, [finished(ITEMS[0])])
    assert not of.end(first, None)
    assert of.tell(second, [finished(ITEMS[0])])
    assert len(of_kind(of.news(), Finished)) == 1


def test_a_test_that_was_told_of_twice_counts_once() -> None:
    of = ledger()
    attempt = begun(of)

    of.tell(attempt, [finished(ITEMS[0]), finished(ITEMS[0])])

    assert len(of_kind(of.news(), Finished)) == 1


def test_a_group_whose_tests_have_all_ended_is_not_tried_again() -> None:
    of = ledger()
    attempt = begun(of)
    of.tell(attempt, [finished(item) for item in ITEMS])

    assert not of.end(attempt, "its run ended with status 1")
    assert of.begin(0, "node-2") is None
    assert not of_kind(of.news(), Lost)


def test_a_test_that_loses_its_node_each_time_fails_with_the_log_and_the_rest_goes_on() -> None:
    of = ledger()
    for number in range(TRIES):
        attempt = begun(of, f"node-{number}")
        of.tell(attempt, [{"started": ITEMS[0]}], ["the last words"])
        assert of.end(attempt, "its run ended with status 9")

    given_up = of_kind(of.news(), GivenUp)

    assert [one.items for one in given_up] == [[ITEMS[0]]]
    assert "status 9" in given_up[0].why
    assert given_up[0].log == "the last words"
    assert begun(of).items == ITEMS[1:]


def test_a_group_that_cannot_start_fails_whole() -> None:
    of = ledger()
    for _ in range(TRIES):
        of.end(begun(of), "no space left on device")

    assert [one.items for one in of_kind(of.news(), GivenUp)] == [list(ITEMS)]
    assert of.begin(0, "node-2") is None


def test_a_group_whose_nodes_are_gone_fails_once() -> None:
    of = ledger()
    of.tell(begun(of), [finished(ITEMS[0])])

    of.give_up(0, "its nodes are gone")
    of.give_up(0, "its nodes are gone")

    assert [one.items for one in of_kind(of.news(), GivenUp)] == [list(ITEMS[1:])]


def test_input_that_cannot_be_used_ends_the_run_on_every_node() -> None:
    of = ledger()
    attempt = begun(of)

    of.tell(attempt, [{"stopped": "what was given cannot be used"}])

    assert [one.why for one in of_kind(of.news(), Stopped)] == ["what was given cannot be used"]
    assert not of.tell(attempt, [])
    assert not of.end(attempt, None)


def test_nodes_that_die_between_tests_cost_no_test_while_the_group_gets_on() -> None:
    of = ledger()
    for item in ITEMS[:2]:
        attempt = begun(of)
        of.tell(attempt, [finished(item)])
        assert of.end(attempt, "its run ended")

    assert begun(of).items == ITEMS[2:]
    assert not of_kind(of.news(), GivenUp)
