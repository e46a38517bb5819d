"""Model repositories in the shape of the examples that Triton's repositories publish, in words of our own:
names, types, dims and settings are theirs, the code is not."""

import functools
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.verdicts import INFRASTRUCTURE, PASSES, SKIPPED, Expected

_HEAD = """
import numpy as np
import triton_python_backend_utils as pb_utils


def value_of(request, name, default=None):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy()


def response(**outputs):
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in outputs.items()])


class TritonPythonModel:
"""
_EACH = """
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
"""
_IDENTITY = "return response(OUTPUT0=value_of(request, 'INPUT0'))"
_PASSED_ON = """tensor = pb_utils.get_input_tensor_by_name(request, 'INPUT0')
return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack('OUTPUT0', tensor.to_dlpack())])"""
_ADD_SUB = """one, other = value_of(request, 'INPUT0'), value_of(request, 'INPUT1')
return response(OUTPUT0=one + other, OUTPUT1=one - other)"""
_OPTIONAL = """zero = np.zeros(1, np.int32)
one, other = value_of(request, 'INPUT0', zero), value_of(request, 'INPUT1', zero)
return response(OUTPUT0=one + other, OUTPUT1=one - other)"""
_TRANSPOSED = """values = value_of(request, 'INPUT0')
return response(OUTPUT0=values, OUTPUT1=values.T, OUTPUT2=values.transpose(1, 0, 4, 2, 3))"""
_CALLED = """inputs = [pb_utils.get_input_tensor_by_name(request, name) for name in ('INPUT0', 'INPUT1')]
called = pb_utils.InferenceRequest(
    model_name=value_of(request, 'MODEL_NAME').reshape(-1)[0].decode(),
    requested_output_names=['OUTPUT0', 'OUTPUT1'],
    inputs=inputs,
).exec()
if called.has_error():
    raise pb_utils.TritonModelException(called.error().message())
return pb_utils.InferenceResponse(called.output_tensors())"""
_REFUSED = "return pb_utils.InferenceResponse([], pb_utils.TritonError('it never answers'))"
_DOUBLED = "return response(OUTPUT=2 * value_of(request, 'INPUT'))"
_BROKEN = """
    def initialize(self, args):
        raise RuntimeError("weights.bin is not there")
"""


def _each(body: str) -> str:
    return _EACH + "".join(f"        {line}\n" for line in body.splitlines())


def _config(inputs: str, outputs: str, batch: int = 0, more: str = "") -> str:
    """A configuration: inputs and outputs as `NAME TYPE DIMS; ...`, where other settings may follow DIMS."""
    lines = ["" if "platform" in more else 'backend: "python"', f"max_batch_size: {batch}", more]
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for tensor in tensors.split("; "):
            name, dtype, dims, *rest = tensor.split(" ", 3)
            fields = f'name: "{name}" data_type: TYPE_{dtype} dims: [ {dims} ] {" ".join(rest)}'
            lines.append(f"{kind} [ {{ {fields} }} ]")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Example:
    """A model of an example's shape, and its verdict."""

    name: str
    code: str | None
    """The body of its class; None for an ensemble."""
    config: str | None
    """None where the code completes it."""
    expected: Expected = PASSES


_FOUR = ("INPUT0 FP32 4; INPUT1 FP32 4", "OUTPUT0 FP32 4; OUTPUT1 FP32 4")
_ONE = ("INPUT0 FP32 4", "OUTPUT0 FP32 4")
_MAY = "INT32 1 optional: true"
_SCALAR = "FP32 1 reshape { shape: [ ] }"
_5_D = "FP32 -1,-1,-1,-1,-1"
_GPU = "instance_group [ { kind: KIND_GPU } ]"
_STEPS = """platform: "ensemble"
ensemble_scheduling { step [
  { model_name: "add_sub" model_version: -1
    input_map { key: "INPUT0" value: "INPUT0" } input_map { key: "INPUT1" value: "INPUT1" }
    output_map { key: "OUTPUT0" value: "sum" } output_map { key: "OUTPUT1" value: "difference" } },
  { model_name: "add_sub" model_version: -1
    input_map { key: "INPUT0" value: "sum" } input_map { key: "INPUT1" value: "difference" }
    output_map { key: "OUTPUT0" value: "OUTPUT0" } output_map { key: "OUTPUT1" value: "OUTPUT1" } }
] }"""
_GPU_STEPS = _STEPS.replace("add_sub", "add_sub_for_gpus")
_WARM_UP = """model_warmup [ { name: "zeros" batch_size: 1
  inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: [ 16 ] zero_data: true } } } ]"""

_fails = functools.partial(Expected, INFRASTRUCTURE, frozenset())

EXAMPLES = [
    Example("add_sub", _each(_ADD_SUB), _config(*_FOUR)),
    Example("identity_bf16", _each(_PASSED_ON), _config("INPUT0 BF16 -1", "OUTPUT0 BF16 -1", 64)),
    Example("string_identity", _each(_IDENTITY), _config("INPUT0 STRING 1", "OUTPUT0 STRING 1")),
    Example(
        "input_optional",
        _each(_OPTIONAL),
        _config(f"INPUT0 {_MAY}; INPUT1 {_MAY}", "OUTPUT0 INT32 1; OUTPUT1 INT32 1"),
    ),
    Example("reshape", _each(_DOUBLED), _config(f"INPUT {_SCALAR}", f"OUTPUT {_SCALAR}", 8)),
    Example("bls_sync", _each(_CALLED), _config(f"MODEL_NAME STRING 1; {_FOUR[0]}", _FOUR[1]), SKIPPED),
    Example("warm_up", _each(_IDENTITY), _config("INPUT0 FP32 16", "OUTPUT0 FP32 16", 8, _WARM_UP)),
    Example(
        "non_contiguous",
        _each(_TRANSPOSED),
        _config(f"INPUT0 {_5_D}", f"OUTPUT0 {_5_D}; OUTPUT1 {_5_D}; OUTPUT2 {_5_D}"),
    ),
    # Each is broken in its own way, and takes nothing away from the others.
    Example("wrong_name", _each(_IDENTITY), 'name: "identity_fp32"\n' + _config(*_ONE), _fails("wrong_name")),
    Example("no_dims", _each(_IDENTITY), _config(_ONE[0], "OUTPUT0 FP32 ", 4), _fails("must specify 'dims'")),
    Example("init_error", _BROKEN + _each(_IDENTITY), _config(*_ONE), _fails("weights.bin is not there")),
    Example("execute_error", _each(_REFUSED), _config(*_ONE), _fails("it never answers")),
    Example("for_gpus", _each(_IDENTITY), _config(*_ONE, more=_GPU), SKIPPED),
    Example("ensemble_for_gpus", None, _config(*_FOUR, more=_GPU_STEPS), SKIPPED),
    Example("add_sub_for_gpus", _each(_ADD_SUB), _config(*_FOUR, more=_GPU), SKIPPED),
    Example("other_backend", None, _config(*_ONE, more='platform: "onnxruntime_onnx"'), SKIPPED),
]


def write(root: Path, example: Example) -> None:
    """Put an example into a repository."""
    version = root / example.name / "1"
    version.mkdir(parents=True)
    if example.code is not None:
        (version / "model.py").write_text(_HEAD + example.code)
    if example.config is not None:
        (root / example.name / "config.pbtxt").write_text(example.config)
