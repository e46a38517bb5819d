"""The Python-backend model on PyTorch tensors: copies between host and device, with stand-ins."""

import json
import runpy
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tritonproof.build import runtime_files

RUNTIME = """
import torch
def load(artifact, parameters):
    return lambda tensors: [2 * tensors[0], tensors[0].sum(1, keepdim=True)]
"""


class Part:
    """A stand-in for a tensor of a request."""

    def __init__(self, values: Any, *, on_gpu: bool = False) -> None:
        self.values = torch.tensor(values, dtype=torch.float32)
        self.on_gpu = on_gpu

    def is_cpu(self) -> bool:
        return not self.on_gpu

    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An instance of the model on the CPU, with a runtime that doubles its input and sums it."""
    monkeypatch.setattr(torch, "from_dlpack", lambda part: part.values)
    pb_utils: Any = ModuleType("triton_python_backend_utils")
    pb_utils.get_input_tensor_by_name = lambda request, _name: request
    pb_utils.Tensor = SimpleNamespace(from_dlpack=lambda _name, rows: rows)
    pb_utils.InferenceResponse = list
    monkeypatch.setitem(sys.modules, pb_utils.__name__, pb_utils)
    shutil.copyfile(runtime_files.RUNTIMES / "model.py", tmp_path / "model.py")
    (tmp_path / "runtime.py").write_text(RUNTIME)
    loaded: Any = runpy.run_path(str(tmp_path / "model.py"))["TritonPythonModel"]()
    parameters = {"tensors": "torch", "artifact": "model.pt"}
    config = {
        "parameters": {name: {"string_value": value} for name, value in parameters.items()},
        "input": [{"name": "x"}],
        "output": [{"name": "y"}, {"name": "sum"}],
    }
    instance = {"model_instance_kind": "CPU", "model_instance_device_id": "0"}
    loaded.initialize({"model_config": json.dumps(config), **instance})
    return loaded


def rows_of(*answers: Any) -> list[list[Any]]:
    return [[tensor.tolist() for tensor in answer] for answer in answers]


REQUESTS = [Part([[1, 2], [3, 4]]), Part([[5, 6]])]
ANSWERS = [[[[2, 4], [6, 8]], [[3], [7]]], [[[10, 12]], [[11]]]]


@pytest.mark.parametrize("count", [1, 2])
def test_each_request_gets_its_own_rows(model: Any, count: int) -> None:
    assert rows_of(*model.execute(REQUESTS[:count])) == ANSWERS[:count]


def test_later_batches_have_no_trace_of_earlier_ones(model: Any) -> None:
    """Batches share the host's memory."""
    model.execute(REQUESTS)
    assert rows_of(*model.execute(REQUESTS[1:])) == ANSWERS[1:]
    large = Part(np.arange(200.0).reshape(100, 2))
    ((doubled, _sums),) = model.execute([large])
    assert torch.equal(doubled, 2 * large.values)


def test_answers_are_one_copy_in_reused_memory(model: Any) -> None:
    answers = [tensor for _batch in range(3) for tensor, _sums in model.execute(REQUESTS)]
    assert len({tensor.untyped_storage().data_ptr() for tensor in answers}) == 1


def test_lone_request_is_not_copied(model: Any) -> None:
    seen: list[torch.Tensor] = []
    model.predict = lambda tensors: seen.append(tensors[0]) or [tensors[0], tensors[0]]  # type: ignore[func-returns-value]
    model.execute(REQUESTS[:1])
    assert seen[0] is REQUESTS[0].values


def test_answers_for_gpu_inputs_stay_on_device(model: Any) -> None:
    results = [torch.ones(3, 2), torch.ones(3, 1)]
    model.predict = lambda _tensors: results
    answers = model.execute([REQUESTS[0], Part([[5, 6]], on_gpu=True)])
    memory = {result.untyped_storage().data_ptr() for result in results}
    assert {tensor.untyped_storage().data_ptr() for answer in answers for tensor in answer} == memory
