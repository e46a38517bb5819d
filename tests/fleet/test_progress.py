"""Each test is done once even if nodes die, and repeated failures are given up."""

import pytest

from fixtures.fleet.cluster import Node
from fixtures.fleet.groups import Group
from fixtures.fleet.progress import TRIES, Mailbox, Message, Progress

TESTS = ("a.py::test_a[x]", "b.py::test_b[x]", "c.py::test_c[x]")
NODES = [Node(name, "host", 8, 1, ("T4",)) for name in ("one", "two")]


@pytest.fixture
def progress() -> Progress:
    """A group of three tests on a node."""
    state = Progress(Group("t4", "bert", TESTS, 3.0))
    state.begin(NODES[0])
    return state


def test_another_node_gets_only_remaining_tests(progress: Progress) -> None:
    progress.finish(TESTS[0])
    progress.running = TESTS[1]

    assert progress.lose() == []
    assert progress.left == list(TESTS[1:])
    assert progress.choose(NODES, busy=()) == NODES[1]


def test_test_that_loses_its_node_repeatedly_is_given_up(progress: Progress) -> None:
    given_up = []
    for _ in range(TRIES):
        progress.begin(NODES[0])
        progress.running = TESTS[0]
        given_up += progress.lose()

    assert given_up == [TESTS[0]]
    assert progress.left == list(TESTS[1:])


def test_group_that_cannot_start_is_given_up(progress: Progress) -> None:
    assert progress.lose() == []
    assert progress.lose() == list(TESTS)
    assert progress.left == []


def test_node_deaths_between_tests_cost_no_test(progress: Progress) -> None:
    for test in TESTS[:2]:
        progress.begin(NODES[0])
        progress.finish(test)
        assert progress.lose() == []

    assert progress.left == [TESTS[2]]


# --- the mailbox --------------------------------------------------------------------------------------------


def test_replaced_node_is_told_to_end_and_every_node_when_run_ends() -> None:
    old, new = (Message(0, attempt, [], [], {}) for attempt in (1, 2))
    mailbox = Mailbox()
    mailbox.expect(0, 1)
    mailbox.expect(0, 2)

    assert not mailbox.post(old)
    assert mailbox.post(new)
    assert mailbox.collect() == [new]
    mailbox.close()
    assert not mailbox.post(new)
