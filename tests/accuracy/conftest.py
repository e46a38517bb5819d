"""The server of the tests of this folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.serve.server import Server
from tests.accuracy.answering_client import Answer, Client, Connect


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """A server whose client spoils its answers by a function."""
    clients: list[Client] = []
    log = tmp_path / "server.log"
    log.write_text("began\nthe last words\n")

    def connect(
        change: Callable[[Answer], Answer | Exception | None] = lambda answer: answer,
    ) -> tuple[Client, Server]:
        clients.append(Client(change))
        return clients[-1], Server("embedded", "127.0.0.1:1", "2.51.0", log, clients[-1])

    yield connect
    for client in clients:
        client.close()
