"""A network in an ONNX file: its inputs, its files, copies for servers, and running it in process."""

import hashlib
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from tritonproof.base.disk import file_digest
from tritonproof.base.errors import InputError, ProofError
from tritonproof.base.sanitize import excerpt, is_printable
from tritonproof.frameworks import error_line
from tritonproof.host import machine
from tritonproof.safe_io.files import MAX_DIMENSIONS, check_regular, read_bytes, readable
from tritonproof.spec import ANY, Arrays, BatchAxis, Tensor

GRAPH = "model.onnx"
"""Triton's name for a graph beside its weights (onnxruntime_backend r24.10, src/onnxruntime.cc)."""
MAX_ONNX_BYTES = 2**31
"""The limit of a graph's file. Source: protobuf, whose messages are below 2 GiB; larger weights lie apart."""
PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose")
"""Operators of matrix products and convolutions."""
_SAME_NUMBERS = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose")
"""Operators that give the numbers of their first input in another type or shape."""
_DTYPES = {
    "FLOAT": "FP32",
    "FLOAT16": "FP16",
    "DOUBLE": "FP64",
    "BOOL": "BOOL",
    "STRING": "BYTES",
    **{f"{sign}INT{bits}": f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
}
"""Triton's names for ONNX's element types, without BF16, which ONNX Runtime for Python does not take."""
_OPENVINO_TYPES = frozenset(_DTYPES.values()) - {"FP64", "BYTES"}
"""The types of tensors of Triton's openvino backend. Source: ModelConfigDataTypeToOpenVINOElement in
src/openvino_utils.cc of github.com/triton-inference-server/openvino_backend, r24.10 to r26.08."""


@dataclass(frozen=True)
class OnnxNetwork:
    """A network in an ONNX file, opened by ONNX Runtime on the CPU."""

    path: Path
    """The file of the graph. Weights that lie apart are beside it, under the names that the graph gives."""
    session: Any
    """The onnxruntime.InferenceSession that runs it."""
    inputs: tuple[Tensor, ...]
    """The inputs that a caller gives, in the graph's order, their shapes with the batch; -1 is any length."""
    indices: Mapping[str, int]
    """The number of rows of the table that an input of row numbers indexes, by the input's name."""
    has_products: bool
    """Whether the graph has matrix products or convolutions, which are what quantisation speeds up."""
    batch_axis: BatchAxis

    @property
    def batched(self) -> bool:
        """Whether the first axis of the network's tensors is the batch; else it computes single rows."""
        return self.batch_axis != "none"


def _declared(path: Path) -> tuple[tuple[Tensor, ...], Mapping[str, int], bool]:
    """The `inputs`, `indices` and `has_products` of the network in a file. Raises InputError for other files,
    and for unknown types of inputs."""
    model = _model(path)
    graph = model.graph
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    inputs = tuple(_tensor(value, path) for value in graph.input if value.name not in weights)
    if not inputs:
        raise InputError("the network has no input", where=path, fix="export it with its inputs")
    # A graph lists each node after the nodes whose outputs it takes.
    origins = {tensor.name: tensor.name for tensor in inputs}
    picked: dict[str, int] = {}
    for node in graph.node:
        if node.op_type in _SAME_NUMBERS and node.input and node.input[0] in origins:
            origins[node.output[0]] = origins[node.input[0]]
        if node.op_type == "Gather" and len(node.input) > 1 and node.input[1] in origins:
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
            rows = (*weights.get(node.input[0], ())[axis:], 0)[0]
            name = origins[node.input[1]]
            if rows > 0:
                picked[name] = min(rows, picked.get(name, rows))
    bodies = (body for part in (graph, *model.functions) for body in _graphs(part))
    return inputs, picked, any(node.op_type in PRODUCTS for body in bodies for node in body.node)


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph or a function, and the graphs within its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _graphs(inner)


def _tensor(value: Any, path: Path) -> Tensor:
    from onnx import TensorProto

    declared = value.type.tensor_type
    names = {number: name for name, number in TensorProto.DataType.items()}
    kind = names.get(declared.elem_type, "UNDEFINED")
    dimensions = declared.shape.dim
    if kind not in _DTYPES or not declared.HasField("shape") or len(dimensions) > MAX_DIMENSIONS:
        raise InputError(
            f"no client sends the input {excerpt(value.name)}: {kind} of {len(dimensions):,} dimensions",
            where=path,
            fix=f"export the network with tensors as inputs, of known shapes of up to {MAX_DIMENSIONS} "
            f"dimensions, and of one of the types {', '.join(_DTYPES)}",
        )
    # A dimension with a name, or with none, has the value 0.
    return Tensor(value.name, _DTYPES[kind], tuple(max(axis.dim_value, 0) or ANY for axis in dimensions))


def _model(path: Path) -> Any:
    import onnx

    name, fix = "the ONNX file", "check its size and digest; a pointer of Git LFS is a text of three lines"
    data = read_bytes(path, name, fix, MAX_ONNX_BYTES)
    with readable(name, path, fix):
        model = onnx.load_model_from_string(data)
        if not model.graph.node and not model.graph.output:
            raise ValueError("it holds no graph")
    return model


def data_files(path: Path) -> list[str]:
    """The names of the graph's files of external weights. Raises InputError unless all lie in its folder."""
    names = []
    for location in dict.fromkeys(_locations(_model(path).graph)):
        file = PurePosixPath(location)
        if file.is_absolute() or ".." in file.parts or not (file.parts and is_printable(location)):
            what = f"the graph has weights outside of its folder: {excerpt(location)!r}"
            fix = "save it with its weights beside it: onnx.save_model(..., save_as_external_data=True)"
            raise InputError(what, where=path, fix=fix)
        fix = "put it beside the graph, under that name; an export with weights apart is two files or more"
        check_regular(path.parent / file, f"the file of weights {excerpt(location)}", fix)
        names.append(str(file))
    return names


def _locations(graph: Any) -> Iterator[str]:
    """The files of the external weights of a graph and of the graphs within it."""
    from onnx.external_data_helper import uses_external_data

    for subgraph in _graphs(graph):
        attributes = (attribute for node in subgraph.node for attribute in node.attribute)
        for tensor in (*subgraph.initializer, *(value.t for value in attributes if value.HasField("t"))):
            if uses_external_data(tensor):  # protobuf gives bytes for a text that is no UTF-8
                yield from (str(entry.value) for entry in tensor.external_data if entry.key == "location")


def digest(path: Path) -> str:
    """A digest of the graph and its external weights, by SHA-256. Raises InputError."""
    parts = [file_digest(path), *(f"{name} {file_digest(path.parent / name)}" for name in data_files(path))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def copy_network(network: OnnxNetwork, path: Path) -> None:
    """Copy the network's file to `path`, or if it has external weights, its files to the folder `path`. The
    copy is exact, unless `_exported` changes the network."""
    names = data_files(network.path)
    target = path / GRAPH if names else path
    if names:
        path.mkdir()
    if not network.batched and _scalars(network):
        target.write_bytes(_exported(network, load_external_data=False).SerializeToString())
    else:
        shutil.copyfile(network.path, target)
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(network.path.parent / name, path / name)


def _scalars(network: OnnxNetwork) -> set[str]:
    """The inputs and outputs that are single numbers, or may be, as ONNX Runtime could infer no shape."""
    tensors = (*network.session.get_inputs(), *network.session.get_outputs())
    return {tensor.name for tensor in tensors if not tensor.shape}


def _exported(network: OnnxNetwork, *, load_external_data: bool = True) -> Any:
    """The ONNX model. Without batches, single numbers get an axis of length 1: Triton cannot reshape them,
    see "cannot have empty reshape for non-batching model" in core r24.10, src/model_config_utils.cc."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(str(network.path), load_external_data=load_external_data)
    if network.batched:
        return model
    graph, scalars = model.graph, _scalars(network)
    for value in (value for value in graph.input if value.name in scalars):
        inner = _with_an_axis(graph, value)
        # Without axes, Squeeze removes every axis of length 1, in every version of the operator.
        graph.node.insert(0, helper.make_node("Squeeze", [value.name], [inner]))
    for value in (value for value in graph.output if value.name in scalars):
        operator = "Reshape" if value.type.tensor_type.HasField("shape") else "Expand"  # keeps longer shapes
        inner = _with_an_axis(graph, value)
        shape = numpy_helper.from_array(np.array([1], np.int64), f"{value.name}_shape_without_axis")
        graph.initializer.append(shape)
        graph.node.append(helper.make_node(operator, [inner, shape.name], [value.name]))
    return model


def _with_an_axis(graph: Any, value: Any) -> str:
    """Give an input or output an axis of length 1; return its name without that axis, for all nodes."""
    name, new = value.name, f"{value.name}_without_axis"
    value.type.tensor_type.shape.dim.add(dim_value=1)
    for subgraph in _graphs(graph):
        for node in subgraph.node:
            for names in (node.input, node.output):
                names[:] = [new if old == name else old for old in names]
        for output in () if subgraph is graph else subgraph.output:
            output.name = new if output.name == name else output.name
    return new


def graph_file(path: Path) -> Path:
    """An artifact's graph file: the artifact itself, or a file in its folder."""
    return path / GRAPH if path.is_dir() else path


def in_half_precision(network: OnnxNetwork, path: Path) -> None:
    """Write the network in FP16 as one file, with its inputs and outputs as they are. Raises ProofError."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    try:
        path.write_bytes(convert_float_to_float16(_exported(network), keep_io_types=True).SerializeToString())
    except (ValueError, RuntimeError, LookupError) as error:
        what = f"ONNX Runtime cannot convert the network to FP16: {error_line(str(error))[:200]}"
        fix = "leave FP16 out with -k 'not fp16', or export the network in FP16 yourself"
        raise ProofError(what, where=network.path, fix=fix) from error


def in_one_file(network: OnnxNetwork, path: Path, least_opset: int) -> None:
    """Write the network with all its weights as one file, of opset `least_opset` or later. Raises ProofError
    where ONNX cannot convert the graph, and for 2 GiB and more, which one file cannot hold."""
    from onnx import version_converter

    model = _exported(network)
    versions = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    version = versions[0] if versions else least_opset
    try:
        if version < least_opset:
            model = version_converter.convert_version(model, least_opset)
        path.write_bytes(model.SerializeToString())
    except Exception as error:  # the converter is C++, whose errors come as RuntimeError and others
        raise ProofError(
            f"the network of opset {version} cannot be written as one file of opset {least_opset} or later: "
            f"{error_line(str(error))[:200]}",
            where=network.path,
            fix=f"export it with opset {least_opset} or later, and below 2 GiB; or leave the format out with "
            "-k, as in -k 'not int8'",
        ) from error


def open_network(path: Path, batch_axis: BatchAxis = "open") -> OnnxNetwork:
    """The network as ONNX Runtime runs it without any optimisation: the reference for optimised graphs.
    Raises InputError for other files, and if ONNX Runtime cannot run the graph."""
    import onnxruntime

    declared = _declared(path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = machine.cores()
    options.log_severity_level = 4
    data_files(path)
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has a type of its own for each status
        version = f"ONNX Runtime {onnxruntime.__version__}"
        what = f"{version} cannot open the network: {error_line(str(error))[:300]}"
        fix = "export it with an older opset, or with operators that ONNX Runtime has on a CPU"
        raise InputError(what, where=path, fix=fix) from error
    for value in session.get_outputs():
        if not value.type.startswith("tensor("):
            what = f"the output {value.name} is no tensor but {value.type}, which Triton does not serve"
            fix = "export the network without it, with skl2onnx by options={'zipmap': False}"
            raise InputError(what, where=path, fix=fix)
    return OnnxNetwork(path, session, *declared, batch_axis)


def infer(network: OnnxNetwork, inputs: Arrays) -> dict[str, Any]:
    """The outputs by name, in the graph's order, [rows, ...] each; [rows, 1] if a row is a single number."""
    outputs = run_as_exported(network, inputs)
    return {name: values[:, None] if values.ndim == 1 else values for name, values in outputs.items()}


def run_as_exported(network: OnnxNetwork, inputs: Arrays) -> dict[str, Any]:
    """The same as `infer`, but single numbers are [rows]. Raises InputError if shapes differ between rows."""
    names = [output.name for output in network.session.get_outputs()]
    axes = int(network.batched)
    scalars = {tensor.name for tensor in network.session.get_inputs() if len(tensor.shape) == axes}
    rows = feeds(inputs, batched=network.batched, scalars=scalars)
    runs = [network.session.run(names, feed) for feed in rows]
    outputs = {}
    for name, *values in zip(names, *runs, strict=True):
        different = next((row.shape for row in values if row.shape != values[0].shape), None)
        if different is not None:
            raise shape_depends_on_data(network.path, name, values[0].shape, different)
        joined = values[0] if network.batched else np.stack(values)
        is_text = joined.dtype == object
        outputs[name] = np.vectorize(str.encode, otypes=[object])(joined) if is_text else joined
    return outputs


def shape_depends_on_data(path: Path, name: str, *shapes: Sequence[int]) -> InputError:
    """The error of an output that has several shapes, which no configuration can declare."""
    differing = " and ".join(map(str, map(list, shapes)))
    fix = "export the network without the part that selects, such as NonZero or NonMaxSuppression"
    return InputError(f"the shape of the output {name} depends on the data: {differing}", where=path, fix=fix)


def feeds(inputs: Arrays, *, batched: bool, scalars: Collection[str] = ()) -> list[dict[str, Any]]:
    """The inputs for each run of ONNX Runtime, from `inputs` of [rows, ...]: one run for all rows if the
    network is `batched`, else one for each row, without the row axis. Inputs in `scalars` lose the axis that
    they have for clients of Triton. Texts, which are bytes in Triton and in the suite, become str, as ONNX
    Runtime would take Python's representation of bytes."""
    fed = {name: rows.reshape(len(rows)) if name in scalars else rows for name, rows in inputs.items()}
    for name, values in fed.items():
        if values.dtype == object:
            fed[name] = np.vectorize(bytes.decode, otypes=[object])(values)
    if batched:
        return [fed]
    count = len(next(iter(fed.values())))
    return [{name: np.asarray(values[row]) for name, values in fed.items()} for row in range(count)]


def left_out_by_openvino(tensors: Iterable[Tensor]) -> str | None:
    """Why Triton's openvino backend takes no network of these inputs and outputs, or None."""
    unsupported = sorted({tensor.dtype for tensor in tensors} - _OPENVINO_TYPES)
    return f"Triton's openvino backend has no tensors of {', '.join(unsupported)}" if unsupported else None
