"""Small model repositories for Triton's Python backend, as a user may have them."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

_CODE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(one, "IN").as_numpy()) for one in requests]

    def answer(self, values):
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", {formula})])
"""
CALLING = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.ask(pb_utils.get_input_tensor_by_name(one, "IN")) for one in requests]

    def ask(self, values):
        request = pb_utils.InferenceRequest(
            model_name="doubler", requested_output_names=["OUT"], inputs=[values]
        )
        return pb_utils.InferenceResponse(request.exec().output_tensors())
"""
IN_PARTS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for one in requests:
            sender = one.get_response_sender()
            for value in pb_utils.get_input_tensor_by_name(one, "IN").as_numpy():
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([value]))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
SUMMING = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    sums = {}

    def execute(self, requests):
        return [self.answer(*(pb_utils.get_input_tensor_by_name(one, name).as_numpy() for name in ("IN", "START", "CORRID")))
                for one in requests]

    def answer(self, values, start, number):
        key = int(number.reshape(-1)[0])
        self.sums[key] = values + (0 if start.reshape(-1)[0] else self.sums.get(key, 0))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", self.sums[key])])
"""
"""Adds up the inputs of each sequence."""
COUNTING_DOWN = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.fresh, self.left = True, 0

    def execute(self, requests):
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if self.fresh:
                self.left, self.fresh = int(values.reshape(-1)[0]), False
            sender = request.get_response_sender()
            self.left -= 1
            response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([self.left], np.int32))])
            if self.left <= 0:
                sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                self.fresh = True
            else:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                sender.send(response)
        return None
"""
"""Answers a request with all numbers below its input, one in each step of a sequence of its own."""
COMPLETING = (
    _CODE.format(formula="values + 1")
    + """
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(2)
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [3]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [3]})
        return config
"""
)
ENSEMBLE = """
platform: "ensemble"
ensemble_scheduling {
  step [
    { model_name: "doubler", model_version: -1,
      input_map { key: "IN", value: "IN" }, output_map { key: "OUT", value: "doubled" } },
    { model_name: "doubler", model_version: -1,
      input_map { key: "IN", value: "doubled" }, output_map { key: "OUT", value: "OUT" } }
  ]
}
"""


def code(formula: str) -> str:
    """The code of a model whose output OUT is a formula of `values`, its input IN."""
    return _CODE.format(formula=formula)


def config(
    dtype: str = "FP32", dims: str = "4", batch: int = 4, more: str = 'backend: "python"', answer: str = ""
) -> str:
    """A config.pbtxt with the input IN and the output OUT of one type, and of one shape but for `answer`."""
    entry = f"[{{ name: '%s', data_type: TYPE_{dtype}, dims: [ %s ] }}]"
    tensors = f"input {entry % ('IN', dims)}\noutput {entry % ('OUT', answer or dims)}"
    return f"max_batch_size: {batch}\n{tensors}\n{more}\n"


def write_model(
    root: Path, name: str, model: str | None, configuration: str | None, versions: Iterable[str] = ("1",)
) -> Path:
    """Put a model into a repository, with the same code in each version; returns its folder."""
    folder = root / name
    for version in versions:
        (folder / version).mkdir(parents=True)
        if model is not None:
            (folder / version / "model.py").write_text(model)
    if configuration is not None:
        (folder / "config.pbtxt").write_text(configuration)
    return folder


def contents(root: Path) -> dict[str, str]:
    """Every file and folder below a folder, files with their digest."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in root.rglob("*")
    }
