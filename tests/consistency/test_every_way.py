"""A way to the server, or a server, that does wrong what Triton itself never does: stand-ins that answer whatever comes."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.utils import triton_to_np_dtype

from fixtures.consistency import refusals, transports
from fixtures.consistency.repeat_bounds import alone_of
from fixtures.consistency.served import ServedModel
from fixtures.errors import ProofError
from fixtures.serve.connection import grpc_client
from fixtures.serve.server import Server
from tests.consistency.answering_servers import (
    ALONE,
    IDS,
    IN_MEMORY,
    NEAR,
    ROWS,
    Memory,
    careful,
    right,
    served_by,
    web_server,
    with_memory,
)


@pytest.fixture
def gone() -> Iterator[ServedModel]:
    """A model on a server that has ended."""
    with served_by(right) as model:
        address = model.job.server.address  # it ends here
    client = grpc_client(address)
    yield dataclasses.replace(
        model, job=dataclasses.replace(model.job, server=Server("embedded", address, "", None, client))
    )
    client.close()


@pytest.mark.parametrize("factor", [2.0, 2.5])
def test_a_way_that_gives_other_answers_is_named(factor: float) -> None:
    with web_server(factor) as address, served_by(careful, address) as model:
        found = transports.transports(model, ALONE, shared_memory=False)

    assert found.tried == "gRPC, HTTP"
    assert ("HTTP" in found.wrong, "gRPC " in found.wrong.partition(":")[0]) == (factor != 2, False)


def test_a_way_that_refuses_is_named() -> None:
    with served_by(careful) as model:
        found = transports.transports(model, ALONE, shared_memory=True)

    assert "gRPC with shared memory" in found.wrong


def test_a_server_that_is_gone_has_refused_nothing(gone: ServedModel) -> None:
    with pytest.raises(ProofError):
        refusals.malformed(gone, ALONE)
    with pytest.raises(ProofError, check=lambda error: error.where == "toy"):
        transports.transports(gone, ALONE, shared_memory=False)


def test_four_samples_are_sent_in_each_way_and_fewer_where_there_are() -> None:
    with served_by(right) as model:
        data = dataclasses.replace(
            model.job.data, ids=list("abcdefgh"), rows={"IN": np.tile(ROWS, (3, 1))[:8]}
        )
        many = dataclasses.replace(model, job=dataclasses.replace(model.job, data=data))
        rows = {n: {"OUT": 2 * data.rows["IN"][n]} for n in range(8)}
        for chosen, requests in ((rows, 4), ({7: rows[7]}, 1)):
            right_ones = alone_of(data.ids, chosen, NEAR)
            assert transports.transports(many, right_ones, shared_memory=False).requests == requests


# --- shared memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batched", "more"), [(True, {}), (False, {}), (True, {"MORE": ROWS})])
def test_answers_in_shared_memory_are_those_in_messages(batched: bool, more: dict[str, np.ndarray]) -> None:
    """Each of several inputs has a place of its own in the region."""
    memory = Memory()
    with with_memory(memory, batched=batched) as model:
        data = dataclasses.replace(model.job.data, rows={**model.job.data.rows, **more})
        job = dataclasses.replace(model.job, data=data)
        found = transports.transports(dataclasses.replace(model, job=job), IN_MEMORY, shared_memory=True)

    assert (found.wrong, found.tried, found.requests) == ("", "gRPC, gRPC with shared memory", 6)
    assert found.same is not None
    assert (found.same.answers, found.same.passed) == (6, True)
    assert memory.regions == {}, "none is left"


@pytest.mark.parametrize("datatype", ["BOOL", "UINT8", "INT32", "FP16", "BF16", "FP64"])
def test_an_output_of_any_type_is_read_from_the_region(datatype: str) -> None:
    dtype = triton_to_np_dtype(datatype)
    rows = {
        sample: {**outputs, "SAME": outputs["SAME"].astype(dtype)}
        for sample, outputs in IN_MEMORY.rows.items()
    }
    right = alone_of(IDS, rows, NEAR)
    with with_memory(Memory(same_as=datatype)) as model:
        outputs = tuple(
            dataclasses.replace(one, dtype=datatype) if one.name == "SAME" else one
            for one in model.job.model.outputs
        )
        job = dataclasses.replace(model.job, model=dataclasses.replace(model.job.model, outputs=outputs))
        found = transports.transports(dataclasses.replace(model, job=job), right, shared_memory=True)

    assert (found.wrong, found.requests) == ("", 6)


def test_an_output_that_an_answer_lacks_in_shared_memory_is_not_read_from_there() -> None:
    """A zero was its right value, which is what an empty region holds."""
    memory = Memory()

    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        del request.outputs[-1]
        response = Memory.answer(memory, request, context)
        if not memory.regions:
            response.outputs.add(name="SAME", datatype="FP32", shape=[1, 1])
            response.raw_output_contents.append(bytes(4))
        return response

    zero = {"SAME": np.zeros(1, np.float32)}
    none = alone_of(IDS, {sample: {**outputs, **zero} for sample, outputs in IN_MEMORY.rows.items()}, NEAR)
    with with_memory(memory) as model, served_by(answer, more=memory.handlers) as other:
        *outputs, same = model.job.model.outputs
        declared = dataclasses.replace(
            model.job.model, outputs=(*outputs, dataclasses.replace(same, shape=(1,)))
        )
        job = dataclasses.replace(model.job, server=other.job.server, model=declared)
        found = transports.transports(dataclasses.replace(model, job=job), none, shared_memory=True)

    assert "gRPC with shared memory" in found.wrong


def test_an_answer_that_is_another_in_shared_memory_is_found() -> None:
    memory = Memory()

    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        memory.factor = 3 if memory.regions else 2
        return Memory.answer(memory, request, context)

    with with_memory(memory) as model, served_by(answer, more=memory.handlers) as other:
        job = dataclasses.replace(model.job, server=other.job.server)
        found = transports.transports(dataclasses.replace(model, job=job), IN_MEMORY, shared_memory=True)

    assert "gRPC with shared memory" in found.wrong
    assert found.same is not None
    assert (found.same.passed, found.same.answers, found.same.sample) == (False, 6, "a")
