"""Replies of a server to refused requests and to concurrent ones."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from fixtures.consistency import served
from fixtures.measure.requests import request_for
from tests.consistency.answering_servers import ROWS, careful, right, served_by


@pytest.mark.parametrize(
    ("code", "words", "said"),
    [
        (grpc.StatusCode.UNAVAILABLE, "not " + "very " * 200 + "now", "not very very"),
        (grpc.StatusCode.INVALID_ARGUMENT, "not " + "very " * 200 + "now", "not very very"),
        (grpc.StatusCode.INTERNAL, "", "INTERNAL"),
    ],
)
def test_refusal_of_a_live_server_counts_with_any_status(
    code: grpc.StatusCode, words: str, said: str
) -> None:
    def refuse(_request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(code, words)

    with served_by(refuse) as model:
        (reply,) = served.send(model.job, [service_pb2.ModelInferRequest(model_name="toy")])

    assert reply.response is None
    assert said in reply.refusal
    assert len(reply.refusal) < 400, "a server may say much"


def test_replies_keep_request_order() -> None:
    with served_by(careful) as model:
        inputs = [model.job.data.inputs([sample]) for sample in (2, 0)]
        malformed = service_pb2.ModelInferRequest(model_name="toy")
        replies = served.send(
            model.job, [request_for(model.job, inputs[0]), malformed, request_for(model.job, inputs[1])]
        )

    assert [reply.refusal for reply in replies] == ["", "not as declared", ""]
    contents = [reply.response.raw_output_contents[0] for reply in replies if reply.response is not None]
    assert contents == [(2 * ROWS[sample]).tobytes() for sample in (2, 0)]


def test_requested_number_of_requests_is_in_flight() -> None:
    now = SimpleNamespace(count=0, most=0)
    lock = threading.Lock()

    def slow(request: Any, context: grpc.ServicerContext) -> Any:
        with lock:
            now.count += 1
            now.most = max(now.most, now.count)
        time.sleep(0.02)
        with lock:
            now.count -= 1
        return right(request, context)

    with served_by(slow) as model:
        answers = served.ask(model, [[0], [1], [2]])
        assert now.most == 1
        served.ask(model, [[0], [1], [2], [0], [1], [2]], 3)
        assert now.most in (2, 3), "a busy machine may not get to the third in time"
    assert [answer.samples.tolist() for answer in answers] == [[0], [1], [2]]
    np.testing.assert_array_equal(answers[2].outputs["OUT"], 2 * ROWS[[2]])
