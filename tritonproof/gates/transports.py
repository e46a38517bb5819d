"""Does a request get the same answer over gRPC and over HTTP, with and without shared memory?"""

import contextlib
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tritonproof.accuracy.answer_comparison import AnswerFinding, merge_findings
from tritonproof.client.requests import Answer, ServedModel, single_answer
from tritonproof.client.shared_memory import shared_region, tensor_in, tensor_slices
from tritonproof.gates.context import GateContext, wrong_text
from tritonproof.record.correctness import AnswerComparison, GateResult
from tritonproof.serve.connection import REQUEST_S, client_error_type
from tritonproof.serve.messages import datatype_and_shape, raw_content, read_output
from tritonproof.serve.server import Server


@dataclass(frozen=True)
class Transport:
    """A transport to a server: a client of tritonclient's, and its module, tritonclient.grpc or .http."""

    name: str
    client: Any
    tensors: Any
    in_memory: bool = False


def transport_gate(context: GateContext) -> AnswerFinding[GateResult]:
    """Send four samples over each possible transport, also through shared memory if the context allows it,
    and compare the answers with those given alone over gRPC. Raises ProofError if the server is gone."""
    served, singles = context.served, context.single_answers
    samples = sorted(singles.by_sample)[:4]
    findings: list[AnswerFinding[AnswerComparison]] = []
    problems = list(filter(None, [context.why_nothing_compared]))
    with _available(served.server, context.can_share_memory) as available:
        for transport in available:
            try:
                answers = [_ask(served, transport, sample) for sample in samples]
            except (client_error_type(), OSError) as error:
                refusal = served.refusal(str(error), f"a request over {transport.name}")
                problems.append(f"over {transport.name} a request was refused: {refusal}")
                continue
            findings.append(singles.within_noise.compare(answers))
            if problem := wrong_text(findings[-1].result):
                problems.append(f"over {transport.name} {problem} over gRPC before")
    whole = merge_findings(findings)
    tried = ", ".join(transport.name for transport in available)
    fault, requests = next(iter(problems), ""), len(samples) * len(available)
    result = GateResult("transport", requests, tried, fault, whole.result if findings else None)
    return AnswerFinding(result, whole.mismatch)


@contextlib.contextmanager
def _available(server: Server, can_share_memory: bool) -> Iterator[Sequence[Transport]]:
    import tritonclient.grpc

    available = [Transport("gRPC", server.client, tritonclient.grpc)]
    with contextlib.ExitStack() as stack:
        if server.http_address is not None:
            import tritonclient.http

            client = tritonclient.http.InferenceServerClient(server.http_address, network_timeout=REQUEST_S)
            stack.callback(client.close)
            available.append(Transport("HTTP", client, tritonclient.http))
        if can_share_memory:
            how = "with shared memory"
            available += [replace(plain, name=f"{plain.name} {how}", in_memory=True) for plain in available]
        yield available


def _ask(served: ServedModel, transport: Transport, sample: int) -> Answer:
    """The answer to a sample. In shared memory, one region has the inputs and outputs of known size."""
    model, arrays = served.model, served.data.inputs([sample])
    if not model.batched:
        arrays = {name: values[0] for name, values in arrays.items()}
    sent = [tensor for tensor in model.inputs if tensor.name in arrays]
    contents = {tensor.name: raw_content(arrays[tensor.name], tensor.dtype) for tensor in sent}
    # Room for the widest types, FP64 and INT64: the gate `declared` finds an output of another type.
    lengths = {tensor.name: 8 * math.prod(tensor.shape) for tensor in model.outputs if tensor.has_fixed_size}
    input_slices, start = tensor_slices({name: len(content) for name, content in contents.items()})
    output_slices, size = tensor_slices(lengths, start)
    memory: Any = contextlib.nullcontext(("", None))
    if transport.in_memory:
        memory = shared_region(served.server, size, served.name, transport.client)
    with memory as (region, view):
        inputs, requested = [], []
        for declared in sent:
            values = np.ascontiguousarray(arrays[declared.name])
            inputs.append(transport.tensors.InferInput(declared.name, list(values.shape), declared.dtype))
            if view is None:
                inputs[-1].set_data_from_numpy(values)
                continue
            slice_ = input_slices[declared.name]
            view[slice_] = contents[declared.name]
            inputs[-1].set_shared_memory(region, slice_.stop - slice_.start, slice_.start)
        for declared in model.outputs:
            requested.append(transport.tensors.InferRequestedOutput(declared.name))
            if view is not None and declared.name in output_slices:
                slice_ = output_slices[declared.name]
                requested[-1].set_shared_memory(region, slice_.stop - slice_.start, slice_.start)
        infer = functools.partial(transport.client.infer, served.name, inputs, outputs=requested)
        if transport.client is served.server.client:
            result = served.server.wait_for(functools.partial(infer, client_timeout=REQUEST_S))
        else:
            result = infer()  # over HTTP: that client has a time limit, and no other thread may use it
        received = {}
        for declared in model.outputs:
            output = result.get_output(declared.name)
            if view is not None and output is not None and declared.name in output_slices:
                answered = tensor_in(view[output_slices[declared.name]], *datatype_and_shape(output))
            else:
                answered = read_output(result, declared.name)
            if answered is not None:  # the comparison finds an answer that lacks an output
                received[declared.name] = answered
    return Answer(np.array([sample]), received) if model.batched else single_answer(sample, received)
