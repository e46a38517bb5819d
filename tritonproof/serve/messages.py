"""Writes tensors of all of Triton's types into requests as raw bytes, and reads those of answers."""

from typing import Any

import numpy as np

from tritonproof.base.errors import ProofError
from tritonproof.safe_io.arrays import values_of
from tritonproof.spec import Arrays, Model


def inputs_of(model: Model, arrays: Arrays) -> list[Any]:
    """A batch as tritonclient.grpc.InferInput objects, in the order of the model's inputs."""
    from tritonclient.grpc import InferInput

    inputs = []
    for tensor in model.inputs:
        if tensor.name in arrays:
            values = arrays[tensor.name] if model.batched else arrays[tensor.name][0]
            infer_input = InferInput(tensor.name, list(values.shape), tensor.dtype)
            infer_input.set_data_from_numpy(np.ascontiguousarray(values))
            inputs.append(infer_input)
    return inputs


def infer_message(name: str, model: Model, arrays: Arrays, request_id: str = "") -> bytes:
    """A serialized ModelInferRequest with a batch of those inputs that `arrays` have, [batch, ...] each."""
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name=name, id=request_id)
    for tensor in model.inputs:
        if tensor.name in arrays:
            values = arrays[tensor.name] if model.batched else arrays[tensor.name][0]
            request.inputs.add(name=tensor.name, datatype=tensor.dtype, shape=values.shape)
            request.raw_input_contents.append(raw_content(values, tensor.dtype))
    for tensor in model.outputs:
        request.outputs.add(name=tensor.name)
    return bytes(request.SerializeToString())


def raw_content(values: np.ndarray, datatype: str) -> bytes:
    """A tensor's bytes in a request: each text after its length, BF16 as the upper half of FP32."""
    from tritonclient.utils import serialize_byte_tensor

    if datatype == "BYTES":
        return bytes(serialize_byte_tensor(np.asarray(values, object)).item()) if values.size else b""
    if datatype == "BF16":
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return np.ascontiguousarray(values).tobytes()


def content_size_bytes(tensors: Arrays) -> int:
    """The bytes of all values of these tensors; for texts with the lengths that are sent with them."""
    arrays = map(np.asarray, tensors.values())
    return sum(
        array.nbytes if array.dtype != object else sum(4 + len(text) for text in array.flat)
        for array in arrays
    )


def read_output(result: Any, name: str) -> np.ndarray | None:
    """An output of a tritonclient's result, if there. Raises ProofError if its bytes do not fit its shape."""
    try:
        values = result.as_numpy(name)
    # The types that tritonclient, NumPy and struct raise at malformed bytes are not documented.
    except Exception as error:
        raise ProofError(f"the answer's output {name} cannot be read: {error}") from error
    if values is not None and not np.size(values):  # tritonclient may give FP64 in place of the output's type
        output = result.get_output(name)  # a dictionary over HTTP
        datatype = output["datatype"] if isinstance(output, dict) else output.datatype
        return values_of(b"", datatype, np.shape(values))
    return None if values is None else np.asarray(values)


def response_outputs(response: Any, *, batched: bool = True) -> dict[str, np.ndarray]:
    """The tensors of a ModelInferResponse by name, [batch, ...] each, without tensors of a wrong length. If
    the model is not `batched`, its tensors become a batch of one."""
    pairs = zip(response.outputs, response.raw_output_contents, strict=False)
    read = {tensor.name: values_of(content, tensor.datatype, tensor.shape) for tensor, content in pairs}
    return {name: values if batched else values[None] for name, values in read.items() if values is not None}
