"""The exports, at full size too: ONNX Runtime's CUDA provider has a kernel for each node, TensorRT's parser
takes them whole, the oldest ONNX Runtime opens them, and they fit the memory of the published GPUs."""

import functools
import sys
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fixtures.cases import matrix_of
from fixtures.formats import onnx as format_
from fixtures.host.targets import TARGETS
from fixtures.models import all_models
from fixtures.serve.server_spec import RELEASES
from fixtures.spec import Model, Target
from tests.formats.conftest import assert_alike, job_of, outputs_in_another_python
from tests.frameworks.gpu_packages import unpack_from_pypi

ONNX = [model for model in all_models() if "onnx" not in model.excluded]
FLOATING = {"FLOAT", "FLOAT16", "DOUBLE"}
WORDS = {"INT32", "INT64"}
WHOLE = WORDS | {"INT8", "INT16", "UINT8", "UINT16", "UINT32", "UINT64"}
BOOLEAN = {"BOOL"}
ANY = FLOATING | WHOLE | BOOLEAN
COMPARED = FLOATING | WORDS | {"UINT32", "UINT64"}
KERNELS: dict[str, set[str]] = {
    name: types
    for names, types in (
        ("Abs Add Div Mul Sub Sign", FLOATING | WHOLE),
        ("ArgMax AveragePool BatchNormalization Conv ConvTranspose Cos Erf Exp Floor Gemm", FLOATING),
        ("GlobalAveragePool InstanceNormalization LeakyRelu LayerNormalization Log MatMul MaxPool", FLOATING),
        ("Reciprocal Relu Round Sigmoid Sin Softmax Softplus Sqrt Tanh", FLOATING),
        ("Cast Concat ConstantOfShape Expand Flatten Gather GatherElements Identity Reshape ScatterND", ANY),
        ("Shape Size Slice Split Squeeze Transpose Trilu Unsqueeze", ANY),
        ("CumSum Greater GreaterOrEqual Less LessOrEqual Max Min Mod", COMPARED),
        ("And Not Or", BOOLEAN),
        ("Clip", FLOATING | {"INT8", "INT64", "UINT8", "UINT64"}),
        ("Equal", COMPARED | BOOLEAN),
        ("Neg", FLOATING | WORDS | {"INT8", "INT16"}),
        ("Pad", FLOATING | BOOLEAN),
        ("Pow ReduceMax ReduceSum Tile TopK", FLOATING | WORDS),
        ("Range", {"FLOAT", "DOUBLE", "INT16"} | WORDS),
        ("ReduceMean", FLOATING | {"INT32"}),
        ("Where", FLOATING | WORDS | {"UINT8"}),
    )
    for name in names.split()
}
"""The types that ONNX Runtime's CUDA provider computes, `T` in most schemas, by the operators of opset 18.
Source: docs/OperatorKernels.md of github.com/microsoft/onnxruntime at 001d12d."""
OF_DATA = ("T", "T1", "V")
"""The type constraints of a schema that are on its data."""


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exports")


def export(model: Model, precision: str, folder: Path) -> Path:
    """The file of an export's graph; each is exported once."""
    path = folder / f"{model.name}-{precision}.onnx"
    if not path.exists():
        format_.export(job_of(model, precision=precision), path)
    return format_.onnx_files.graph_file(path)


def without_kernel(path: Path) -> set[str]:
    """The nodes that ONNX Runtime would compute on the CPU, with copies to it and back."""
    model = onnx.shape_inference.infer_shapes(onnx.load(str(path), load_external_data=False))
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == format_.OPSET
    graph, name_of = model.graph, onnx.TensorProto.DataType.Name
    types = {entry.name: name_of(entry.data_type) for entry in graph.initializer}
    for entry in (*graph.input, *graph.value_info, *graph.output):
        types[entry.name] = name_of(entry.type.tensor_type.elem_type)
    nodes = set()
    for node in graph.node:
        schema = onnx.defs.get_schema(node.op_type, format_.OPSET, node.domain)
        dtypes = [
            types.get(name, "?")
            for name, formal in zip(node.input, schema.inputs, strict=False)
            if formal.type_str in OF_DATA
        ]
        if node.op_type != "Constant" and not set(dtypes) <= KERNELS.get(node.op_type, set()):
            nodes.add(f"{node.op_type}({', '.join(dtypes)})")
    return nodes


@pytest.mark.campaign
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("model", ONNX, ids=lambda value: value.name)
def test_exported_nodes_have_cuda_kernels(model: Model, precision: str, exports: Path) -> None:
    assert without_kernel(export(model, precision, exports)) == set()


@pytest.mark.contract
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("model", [entry for entry in ONNX if not entry.micro], ids=lambda entry: entry.name)
def test_nvidia_parser_takes_whole_export(
    model: Model, precision: str, exports: Path, rtx: ModuleType
) -> None:
    """As one graph: ONNX Runtime computes any other nodes itself, with copies between."""
    path = export(model, precision, exports)
    logger = rtx.Logger(rtx.Logger.ERROR)
    network = rtx.Builder(logger).create_network(1 << int(rtx.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = rtx.OnnxParser(network, logger)
    parser.supports_model_v2(path.read_bytes(), str(path))
    assert [parser.is_subgraph_supported(entry) for entry in range(parser.num_subgraphs)] == [True]


COMPUTE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy, onnxruntime
assert onnxruntime.__version__ == sys.argv[2]
session = onnxruntime.InferenceSession(sys.argv[3], providers=["CPUExecutionProvider"])
names = [one.name for one in session.get_inputs()]
inputs = numpy.load(sys.argv[4])
numpy.savez(sys.argv[5], *session.run(None, {name: inputs[name] for name in names}))
"""


@pytest.fixture(scope="session")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ONNX Runtime of the oldest release of Triton that the suite starts."""
    folder = tmp_path_factory.mktemp("oldest")
    unpack_from_pypi(f"onnxruntime=={RELEASES[0].onnxruntime}", folder)
    return folder


@pytest.mark.contract
@pytest.mark.parametrize("model", [entry for entry in ONNX if entry.micro], ids=lambda entry: entry.name)
def test_oldest_onnx_runtime_computes_the_same(
    model: Model, exports: Path, oldest: Path, tmp_path: Path
) -> None:
    path = export(model, "fp32", exports)
    inputs = model.samples("evaluation", None, None).load(range(4))
    command = [sys.executable, "-c", COMPUTE, str(oldest), RELEASES[0].onnxruntime, str(path)]
    older = outputs_in_another_python(command, inputs, tmp_path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert_alike(older, session.run(None, {entry.name: inputs[entry.name] for entry in session.get_inputs()}))


class LiveTensors(TorchDispatchMode):
    """Counts the bytes of the tensors alive at once, on any device; on `meta` they take no memory."""

    def __init__(self) -> None:
        super().__init__()
        self.users: dict[int, int] = {}
        self.live = self.most = 0

    def __torch_dispatch__(self, function: Any, _types: Any, arguments: Any = (), named: Any = None) -> Any:
        result = function(*arguments, **(named or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.note(tensor)
        return result

    def note(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if not self.users.get(key):
            self.live += size
            self.most = max(self.most, self.live)
        self.users[key] = self.users.get(key, 0) + 1
        weakref.finalize(tensor, self.drop, key, size)

    def drop(self, key: int, size: int) -> None:
        self.users[key] -= 1
        self.live -= 0 if self.users[key] else size


GIB = 2**30
MEMORY_GIB = {"v100": 16, "t4": 15, "a30": 24, "a40": 45, "a100": 40}
"""The memory of the smallest variant of each published GPU, as its driver reports it."""
CONTEXT_GIB = 1
"""The memory that CUDA, cuDNN and cuBLAS take in a process."""
DTYPES = {"FP32": torch.float32, "INT64": torch.int64, "INT32": torch.int32}
FULL = [model for model in all_models() if not model.micro and model.framework == "pytorch"]


@functools.cache
def sizes_of(name: str, batch: int) -> tuple[int, int]:
    """The bytes of a model's FP32 weights, and of the tensors alive at once while a batch is computed."""
    (model,) = (entry for entry in FULL if entry.name == name)
    network = model.load(None).network.to("meta")
    inputs = [
        torch.empty((batch, *entry.shape), dtype=DTYPES[entry.dtype], device="meta") for entry in model.inputs
    ]
    with LiveTensors() as tensors, torch.no_grad():
        network(*inputs)
    return sum(entry.nbytes for entry in network.state_dict().values()), tensors.most


@pytest.mark.campaign
@pytest.mark.parametrize(
    "target", [entry for entry in TARGETS if entry.name in MEMORY_GIB], ids=lambda entry: entry.name
)
@pytest.mark.parametrize("model", FULL, ids=lambda entry: entry.name)
def test_largest_batch_fits_each_published_gpu(model: Model, target: Target) -> None:
    """ONNX Runtime may have sessions for eight batch sizes, which hold twice the largest's tensors."""
    weights, live = sizes_of(model.name, matrix_of(model, target).deployment.max_batch_size)
    assert weights > GIB / 100
    assert live > GIB / 100
    assert (2 * live + 8 * weights) / GIB + CONTEXT_GIB < MEMORY_GIB[target.name]
