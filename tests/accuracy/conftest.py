"""A server whose client computes the toy network itself, and may spoil its answers."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests import toy
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays

COUNT = 40


class Answer:
    """What tritonclient hands to a callback."""

    def __init__(self, request_id: str, outputs: Arrays) -> None:
        self.id, self._outputs = request_id, outputs

    def get_response(self) -> "Answer":
        return self

    def as_numpy(self, name: str) -> np.ndarray | None:
        return self._outputs.get(name)


Change = Callable[[Answer], Answer | Exception | None]
"""Takes each answer, and returns it, spoilt or not, an exception, or None for no answer at all."""


class Client:
    """Answers requests in random order from a thread of its own."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._waiting: list[tuple[Callable[..., None], Answer]] = []
        self._lock = threading.Lock()
        self._is_open = True
        self.sizes: list[int] = []
        self.most_rows_in_flight = 0
        self.order: list[int] = []
        threading.Thread(target=self._answer, daemon=True).start()

    def async_infer(
        self, _name: str, inputs: list[Any], callback: Callable[..., None], **options: Any
    ) -> None:
        data = np.frombuffer(inputs[0]._get_content(), np.float32).reshape(inputs[0].shape())
        answer = Answer(options["request_id"], toy.network({toy.INPUT: data}))
        with self._lock:
            self.sizes.append(len(data))
            self._waiting.append((callback, answer))
            rows = sum(len(pending.as_numpy(toy.OUTPUT)) for _, pending in self._waiting)  # type: ignore[arg-type, misc]
            self.most_rows_in_flight = max(self.most_rows_in_flight, rows)

    def close(self) -> None:
        self._is_open = False

    def _answer(self) -> None:
        generator = random.Random(0)
        while self._is_open:
            time.sleep(0.001)
            with self._lock:
                if not self._waiting:
                    continue
                callback, answer = self._waiting.pop(generator.randrange(len(self._waiting)))
            self.order.append(int(answer.id))
            changed = self._change(answer)
            if isinstance(changed, Exception):
                callback(None, changed)
            elif changed is not None:
                callback(changed, None)


Connect = Callable[..., tuple[Client, Server]]


@pytest.fixture
def connect() -> Iterator[Connect]:
    clients: list[Client] = []

    def connect(change: Change = lambda answer: answer) -> tuple[Client, Server]:
        clients.append(Client(change))
        return clients[-1], Server("embedded", "127.0.0.1:1", "2.51.0", None, clients[-1])

    yield connect
    for client in clients:
        client.close()
