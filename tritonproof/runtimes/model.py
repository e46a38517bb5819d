"""Triton Python-backend model: joins requests to a batch, runs the runtime beside it, splits the result.

The runtime, `runtime.py` in the same folder, defines `load(artifact, parameters)`, which returns a function
from a list of inputs to a list of outputs, both in the order of the configuration. These are NumPy's arrays
or, if the parameter `tensors` is `torch`, PyTorch's tensors in the memory of the instance's device. The
outputs are computed when the function returns.
"""

import json
import runpy
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One model instance; Triton calls the three methods."""

    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        parameters["device"] = "cuda" if args["model_instance_kind"] == "GPU" else "cpu"
        parameters["device_id"] = args["model_instance_device_id"]
        folder = Path(__file__).parent
        load = runpy.run_path(str(folder / "runtime.py"))["load"]
        self.predict = load(folder / parameters["artifact"], parameters)
        self.tensors = _Tensors(parameters) if parameters["tensors"] == "torch" else _Arrays()
        self.inputs = [tensor["name"] for tensor in config["input"]]
        self.outputs = [tensor["name"] for tensor in config["output"]]
        self.is_batched = parameters.get("batched") != "0"

    def execute(self, requests):
        if not self.is_batched:
            return [self._alone(request) for request in requests]
        part_of = pb_utils.get_input_tensor_by_name
        parts = [[part_of(request, name) for request in requests] for name in self.inputs]
        results = self.tensors.results(self.predict(self.tensors.inputs(parts)))
        responses, start = [], 0
        for first in parts[0]:
            end = start + first.shape()[0]
            responses.append(self._response([result[start:end] for result in results]))
            start = end
        return responses

    def _alone(self, request):
        """The answer to a request of a single row, whose tensors lack the runtime's batch axis."""
        parts = [[pb_utils.get_input_tensor_by_name(request, name)] for name in self.inputs]
        results = self.predict([tensor[None] for tensor in self.tensors.inputs(parts)])
        return self._response([result[0] for result in results])

    def _response(self, rows):
        return pb_utils.InferenceResponse(
            [self.tensors.output(name, values) for name, values in zip(self.outputs, rows, strict=True)]
        )

    def finalize(self):
        del self.predict


class _Arrays:
    """Hands Triton's tensors to a runtime as NumPy's arrays, and takes such arrays back."""

    def inputs(self, parts):
        # as_numpy() is a view of Triton's buffer, so a single request is not copied. Several are copied once,
        # to new memory; a reused buffer would take as long: 0.12 ms for eight images of 224 x 224.
        return [
            part[0].as_numpy() if len(part) == 1 else np.concatenate([tensor.as_numpy() for tensor in part])
            for part in parts
        ]

    def results(self, results):
        return results

    def output(self, name, rows):
        return pb_utils.Tensor(name, rows)


class _Tensors:
    """Hands Triton's tensors to a runtime as PyTorch's, by DLPack, in the memory of the instance's device.

    Tensors in the GPU's memory never leave it. Tensors of the host are copied there one by one: on an H200,
    gathering a batch in pinned memory was not shown to be faster, and took seven cores. If all inputs came
    from the host, the answers return there, the whole batch in one copy into reused pinned memory: a copy
    into new memory takes 30 times as long. Triton waits for its own copies before it calls `execute`, copies
    the answers before the next call, and waits for PyTorch's stream before it takes a tensor of a GPU.
    """

    def __init__(self, parameters):
        import torch

        self.torch = torch
        on_cpu = parameters["device"] == "cpu"
        self.device = torch.device("cpu" if on_cpu else f"cuda:{parameters['device_id']}")
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.kept = {}
        self.from_host = True

    def inputs(self, parts):
        self.from_host = all(tensor.is_cpu() for part in parts for tensor in part)
        return [self._input(part) for part in parts]

    def _input(self, part):
        tensors = [self.torch.from_dlpack(source).to(self.device) for source in part]
        return tensors[0] if len(tensors) == 1 else self.torch.cat(tensors)

    def results(self, results):
        if not self.from_host:
            return results
        batches = [
            self._pinned(number, result).copy_(result, non_blocking=True)
            for number, result in enumerate(results)
        ]
        if self.device.type == "cuda":
            self.torch.cuda.current_stream(self.device).synchronize()
        return batches

    def output(self, name, rows):
        return pb_utils.Tensor.from_dlpack(name, rows.contiguous())

    def _pinned(self, number, result):
        """A tensor like `result`, in memory that is kept for result `number` until it is too small."""
        buffer = self.kept.get(number)
        if buffer is None or len(buffer) < result.numel() or buffer.dtype != result.dtype:
            is_pinned = self.device.type == "cuda"
            buffer = self.torch.empty(result.numel(), dtype=result.dtype, pin_memory=is_pinned)
            self.kept[number] = buffer
        return buffer[: result.numel()].view(result.shape)
