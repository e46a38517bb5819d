"""Converts tensors of all of Triton's types to raw bytes and back; and sends conversations of messages."""

import queue
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tritonproof.base.errors import ProofError
from tritonproof.serve.connection import REQUEST_S, HangsError, grpc_client
from tritonproof.spec import Arrays, Model, Tensor, fits

if TYPE_CHECKING:
    from tritonproof.serve.server import Server


def inputs_of(model: Model, arrays: Arrays) -> list[Any]:
    """A batch as tritonclient.grpc.InferInput objects, in the order of the model's inputs."""
    from tritonclient.grpc import InferInput

    inputs = []
    for tensor in model.inputs:
        if tensor.optional and tensor.name not in arrays:
            continue
        values = arrays[tensor.name] if model.batched else arrays[tensor.name][0]
        infer_input = InferInput(tensor.name, list(values.shape), tensor.dtype)
        infer_input.set_data_from_numpy(np.ascontiguousarray(values))
        inputs.append(infer_input)
    return inputs


def request_of(name: str, inputs: Iterable[Tensor], arrays: Arrays, outputs: Iterable[Tensor]) -> Any:
    """A tritonclient.grpc.service_pb2.ModelInferRequest with those of the inputs that `arrays` have."""
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name=name)
    for tensor in inputs:
        if tensor.name in arrays:
            values = arrays[tensor.name]
            request.inputs.add(name=tensor.name, datatype=tensor.dtype, shape=values.shape)
            request.raw_input_contents.append(raw_content(values, tensor.dtype))
    for tensor in outputs:
        request.outputs.add(name=tensor.name)
    return request


def raw_content(values: np.ndarray, datatype: str) -> bytes:
    """A tensor's bytes in a request: texts after their lengths, BF16 as the upper half of FP32."""
    from tritonclient.utils import serialize_byte_tensor

    if datatype == "BYTES":
        return bytes(serialize_byte_tensor(np.asarray(values, object)).item()) if values.size else b""
    if datatype == "BF16":
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return np.ascontiguousarray(values).tobytes()


def values_of(content: bytes, datatype: str, shape: Iterable[int]) -> np.ndarray | None:
    """The tensor in raw bytes; None if their number does not fit its type and shape."""
    from tritonclient.utils import deserialize_bytes_tensor, triton_to_np_dtype

    try:
        if datatype == "BYTES":
            values = deserialize_bytes_tensor(content)
        elif datatype == "BF16":
            values = (np.frombuffer(content, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(content, triton_to_np_dtype(datatype))
        return np.asarray(values).reshape(list(shape))
    except (ValueError, struct.error):
        return None


def read_output(result: Any, name: str) -> np.ndarray | None:
    """An output of a result of tritonclient's, if it has it. Raises ProofError if its bytes do not fit it."""
    try:
        values = result.as_numpy(name)
    # The types that tritonclient, NumPy and struct raise at malformed bytes are not documented.
    except Exception as error:
        raise ProofError(f"the answer's output {name} cannot be read: {error}") from error
    return None if values is None else np.asarray(values)


def undeclared(tensor: Tensor, values: np.ndarray | None) -> str | None:
    """How an output, [rows, ...], differs from its declaration, in which -1 is any length; else None."""
    from tritonclient.utils import np_to_triton_dtype, triton_to_np_dtype

    if values is None:
        return f"it lacks {tensor.name}"
    if values.dtype != np.dtype(triton_to_np_dtype(tensor.dtype)):
        return f"{tensor.name} is {np_to_triton_dtype(values.dtype)}, and declared {tensor.dtype}"
    if values.ndim == 0:
        return f"{tensor.name} is one number, and declared as {list(tensor.shape)} for each row"
    shape = values.shape[1:]
    if not fits(shape, tensor.shape):
        return f"{tensor.name} is of shape {list(shape)}, and declared {list(tensor.shape)}"
    return None


def response_outputs(response: Any) -> dict[str, np.ndarray]:
    """The tensors of a ModelInferResponse by name, except those of the wrong length."""
    arrays = {}
    for tensor, content in zip(response.outputs, response.raw_output_contents, strict=False):
        values = values_of(content, tensor.datatype, tensor.shape)
        if values is not None:
            arrays[tensor.name] = values
    return arrays


Answers = list[dict[str, np.ndarray]]
"""The answers to a request, in order of arrival: outputs by name, as on the wire."""


@dataclass(frozen=True)
class Message:
    rows: Arrays
    """The inputs, [1, ...] each."""
    sequence: int = 1
    """The number of its sequence, for a model with sequences."""
    is_first: bool = True
    is_last: bool = True


def sequence_of(steps: Sequence[Arrays], number: int) -> list[Message]:
    last = len(steps) - 1
    return [Message(rows, number, place == 0, place == last) for place, rows in enumerate(steps)]


def converse(server: "Server", model: Model, messages: Sequence[Message]) -> list[Answers]:
    """All answers to each request, sent once the last is answered. Raises ProofError without all of them."""
    client = grpc_client(server.address, server.access)
    received: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
    try:
        client.start_stream(lambda result, error: received.put((result, error)))
        answers = []
        for message in messages:
            sequence = {
                "sequence_id": message.sequence,
                "sequence_start": message.is_first,
                "sequence_end": message.is_last,
            }
            client.async_stream_infer(
                model.name,
                inputs_of(model, message.rows),
                enable_empty_final_response=True,
                **(sequence if model.exchange == "sequence" else {}),
            )
            answers.append(list(_answers(server, model.name, received)))
        return answers
    finally:
        client.stop_stream(cancel_requests=True)
        client.close()


def _answers(
    server: "Server", name: str, received: "queue.SimpleQueue[tuple[Any, Exception | None]]"
) -> Iterator[dict[str, np.ndarray]]:
    """The answers to a request, up to the one marked as the last."""
    while True:
        try:
            result, error = server.wait_for(lambda: received.get(timeout=REQUEST_S))
            problem = "" if error is None else f"a request failed: {error}"
        except queue.Empty:
            problem = f"a request was not answered to its end within {REQUEST_S:.0f} s"
        except HangsError as hangs:
            problem = f"a request was not answered to its end: {hangs.what}"
        if problem:
            raise ProofError(f"{problem}{server.log_tail()}", where=name)
        response = result.get_response()
        if response.outputs:
            read = {output.name: read_output(result, output.name) for output in response.outputs}
            yield {output: values for output, values in read.items() if values is not None}
        if response.parameters["triton_final_response"].bool_param:
            return
