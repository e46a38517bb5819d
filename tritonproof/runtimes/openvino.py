"""Runtime of the OpenVINO format, in a Triton Python-backend model and in process alike."""

import numpy as np
import openvino


def load(artifact, parameters):
    """Turn an ONNX file into a function from inputs to outputs, two lists. parameters: threads, and perhaps
    batched (0 for a network without a batch axis, which computes row by row)."""
    # A CPU with AMX or AVX512-BF16 would silently take BF16.
    options = {
        "INFERENCE_NUM_THREADS": int(parameters["threads"]),
        "NUM_STREAMS": "1",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(str(artifact), "CPU", options)

    def predict(arrays):
        results = compiled(list(arrays))
        return [np.array(results[output]) for output in compiled.outputs]

    def one_by_one(batches):
        rows = [predict(row) for row in zip(*batches, strict=True)]
        return [np.stack(parts) for parts in zip(*rows, strict=True)]

    return one_by_one if parameters.get("batched") == "0" else predict
