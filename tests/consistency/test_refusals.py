"""Malformed requests: a server must refuse them and keep working."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from fixtures.consistency import declared
from fixtures.consistency.served import Alone, Reply
from fixtures.measure.requests import request_for
from reports.record.schema import AnswerGate
from tests.consistency.stand_in import ROWS, alone, served_model

FAULTS = (
    "an input of another type",
    "an input of another shape",
    "no inputs",
    "an unknown input",
    "an unknown output",
    "an input cut in half",
)


def fault_in(request: Any, datatype: str = "FP32") -> str:
    """The fault of a request to a model of one input of four elements; empty if it has none."""
    names = [tensor.name for tensor in request.inputs]
    faults = {
        "an input of another type": any(tensor.datatype != datatype for tensor in request.inputs),
        "an input of another shape": any(list(tensor.shape[1:]) != [4] for tensor in request.inputs),
        "no inputs": not names,
        "an unknown input": names not in ([], ["IN"]),
        "an unknown output": [tensor.name for tensor in request.outputs] != ["OUT"],
        "an input cut in half": any(len(tensor) % 16 for tensor in request.raw_input_contents),
    }
    return next((name for name in FAULTS if faults[name]), "")


def answer_to(request: Any) -> Any:
    """Twice the input."""
    values = np.frombuffer(b"".join(request.raw_input_contents[:1]), np.float32)
    response = service_pb2.ModelInferResponse(model_name="toy")
    response.outputs.add(name="OUT", datatype="FP32", shape=[values.size // 4, 4])
    response.raw_output_contents.append((2 * values).tobytes())
    return response


Server = Callable[[Any], str]
"""Returns why it refuses a request; empty if it answers."""


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """`serve(refuses)`: start a server that refuses so, and answers the request of the number `harmed`, if
    any, by `reply`; returns the requests that it receives."""

    def start(refuses: Server, harmed: int = -1, reply: Reply | None = None) -> list[Any]:
        received: list[Any] = []

        def send(_job: Any, requests: Iterable[Any]) -> list[Reply]:
            received[:] = requests
            replies = [
                Reply(None, why) if (why := refuses(request)) else Reply(answer_to(request))
                for request in received
            ]
            if reply is not None:
                replies[harmed] = reply
            return replies

        monkeypatch.setattr(declared, "send", send)
        return received

    return start


def takes(*sizes: int) -> Server:
    return lambda request: "" if request.inputs[0].shape[0] in sizes else "too many"


def test_batches_of_every_size_and_one_more_are_sent(serve: Any) -> None:
    received = serve(takes(1, 2, 3, 4))
    result = declared.largest_batch(served_model(count=3))

    assert (result.wrong, result.requests) == ("", 5)
    contents = {request.inputs[0].shape[0]: request.raw_input_contents[0] for request in received}
    assert contents.keys() == {1, 2, 3, 4, 5}
    assert contents[4] == ROWS[[0, 1, 2, 0]].tobytes()
    assert contents[5] == ROWS[[0, 1, 2, 0, 1]].tobytes()
    assert received[-1].inputs[0].shape[0] == 5


@pytest.mark.parametrize(
    ("largest", "sizes", "wrong"),
    [
        (4, (1, 2, 3, 4), None),
        (4, (1, 2, 3), 4),
        (4, (1, 3, 4), 2),
        (4, (1, 2, 3, 4, 5), 5),
        (1, (1,), None),
        (1, (1, 2), 2),
        (6, (1, 2, 3, 4, 5, 6), None),
        (6, (1, 2, 3, 4, 5, 6, 7), 7),
    ],
)
def test_undeclared_batch_sizes_fail(
    serve: Any, largest: int, sizes: tuple[int, ...], wrong: int | None
) -> None:
    serve(takes(*sizes))
    text = declared.largest_batch(served_model(largest=largest)).wrong

    assert (f"a batch of {wrong}" in text) is (wrong is not None)
    assert bool(text) is (wrong is not None)


def test_model_without_batching_has_no_largest_batch(serve: Any) -> None:
    received = serve(takes())
    result = declared.largest_batch(served_model(batched=False))

    assert (result.wrong, result.requests, received) == ("", 0, [])


def malformed(first: Alone | None = None) -> AnswerGate:
    return declared.malformed(served_model(), first or alone())


def test_each_malformed_request_precedes_a_valid_one(serve: Any) -> None:
    received = serve(fault_in)
    result = malformed()

    assert (result.wrong, result.requests) == ("", 12)
    assert [fault_in(item) for item in received[::2]] == list(FAULTS)
    assert all(fault in result.tried for fault in FAULTS)
    assert {item.raw_input_contents[0] for item in received[1::2]} == {ROWS[0].tobytes()}
    (item,) = received[2].inputs  # another shape, with the bytes for it
    assert list(item.shape) != [1, 4]
    assert 4 * np.prod(item.shape) == len(received[2].raw_input_contents[0])


@pytest.mark.parametrize("fault", FAULTS)
def test_answered_malformed_request_is_found(serve: Any, fault: str) -> None:
    serve(lambda request: "" if fault_in(request) == fault else fault_in(request))

    assert fault in malformed().wrong


@pytest.mark.parametrize("refuses", [True, False], ids=["refuses", "answers otherwise"])
@pytest.mark.parametrize("number", range(6))
def test_harm_by_malformed_request_is_found(serve: Any, number: int, refuses: bool) -> None:
    other = request_for((job := served_model().job), job.data.inputs([1]))
    serve(fault_in, 2 * number + 1, Reply(None, "broken") if refuses else Reply(answer_to(other)))

    wrong = malformed(first=alone(1)).wrong

    assert FAULTS[number] in wrong
    assert ("broken" in wrong) is refuses
