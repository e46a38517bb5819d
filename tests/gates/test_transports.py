"""Transport checks on stand-ins with faults that Triton itself never has."""

import dataclasses
from typing import Any

import grpc
import numpy as np
import pytest

from tests.client.memory_server import region_calls
from tests.gates import answering_servers
from tests.gates.answering_servers import IN_MEMORY, ROWS, SINGLES, Memory, careful, served_by, with_memory
from tests.gates.made_up_model import gate_context
from tests.helpers import present
from tritonproof.base.errors import ProofError
from tritonproof.gates.transports import transport_gate


@pytest.mark.parametrize(("factor", "named"), [(2.0, []), (2.5, ["HTTP"])])
def test_only_transport_with_different_answers_is_named(factor: float, named: list[str]) -> None:
    with answering_servers.web_server(factor) as address, served_by(careful, address) as model:
        finding = transport_gate(gate_context(model, SINGLES))
    result = finding.result
    assert (result.tried, finding.mismatch is None) == ("gRPC, HTTP", not named)
    assert [name for name in ("gRPC", "HTTP") if result.fault.startswith(f"over {name} ")] == named
    assert result.fault.endswith(" alone over gRPC before") == bool(named)


def test_transport_that_refuses_or_ends_the_server_is_named() -> None:
    with served_by(careful) as model:
        result = transport_gate(gate_context(model, SINGLES, can_share_memory=True)).result
        nothing = transport_gate(gate_context(model, dataclasses.replace(SINGLES, by_sample={}))).result
    assert "gRPC with shared memory" in result.fault
    assert "no answer could be read" in nothing.fault
    gone = {"ServerLive": lambda _request, call: call.abort(grpc.StatusCode.UNAVAILABLE, "")}
    with served_by(careful, more=gone) as model, pytest.raises(ProofError, match="gRPC with shared memory"):
        transport_gate(gate_context(model, SINGLES, can_share_memory=True))


@pytest.mark.parametrize(("batched", "more"), [(True, {}), (False, {}), (True, {"MORE": ROWS})])
def test_shared_memory_and_message_answers_are_equal(batched: bool, more: dict[str, np.ndarray]) -> None:
    """Each input has its own slice of the region."""
    with with_memory(memory := Memory(), batched=batched) as model:
        data = dataclasses.replace(model.data, arrays={**model.data.arrays, **more})
        with_data = dataclasses.replace(model, data=data)
        result = transport_gate(gate_context(with_data, IN_MEMORY, can_share_memory=True)).result
    assert (result.fault, result.tried, result.requests) == ("", "gRPC, gRPC with shared memory", 6)
    assert (present(result.answer_comparison).count, present(result.answer_comparison).wrong) == (6, 0)
    assert memory.seen.regions == {}, "none is left"


def test_different_answer_in_shared_memory_is_found() -> None:
    memory = Memory()

    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        memory.factor = 3 if memory.seen.regions else 2
        return Memory.answer(memory, request, context)

    with with_memory(memory) as model, served_by(answer, more=region_calls(memory.seen)) as other:
        changed = dataclasses.replace(model, server=other.server)
        result = transport_gate(gate_context(changed, IN_MEMORY, can_share_memory=True)).result
    assert "gRPC with shared memory" in result.fault
    found = present(result.answer_comparison)
    assert (found.wrong, found.count, found.sample) == (3, 6, "c"), "the largest"
