"""A client of a server is made whole or not at all."""

import os
import signal
from typing import Any

import pytest
import tritonclient.grpc

from fixtures.serve.connection import grpc_client
from tests.helpers import wait_until


def test_a_ctrl_c_leaves_no_client_that_is_half_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is half made prints a Python trace into the end of the run when it is forgotten."""
    made: list[str] = []

    class Client:
        def __init__(self, address: str, **_options: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            made.append(address)

    monkeypatch.setattr(tritonclient.grpc, "InferenceServerClient", Client)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            grpc_client("127.0.0.1:1")
    finally:
        signal.signal(signal.SIGINT, before)

    wait_until(lambda: made)
    assert made == ["127.0.0.1:1"]
