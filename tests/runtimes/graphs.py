"""Small ONNX graphs."""

from pathlib import Path

import numpy as np
import onnx

PIXELS = 5


def convolution(folder: Path) -> Path:
    """The file of a graph in `folder` with one convolution: images [batch, 3, 5, 5] to [batch, 2, 3, 3]."""
    weights = np.random.default_rng(0).normal(size=(2, 3, 3, 3)).astype(np.float32)
    images = onnx.helper.make_tensor_value_info(
        "images", onnx.TensorProto.FLOAT, ["batch", 3, PIXELS, PIXELS]
    )
    maps = onnx.helper.make_tensor_value_info("maps", onnx.TensorProto.FLOAT, ["batch", 2, 3, 3])
    return _write(
        folder,
        "Conv",
        ["images", "weights"],
        images,
        maps,
        [onnx.numpy_helper.from_array(weights, "weights")],
    )


def product(folder: Path) -> Path:
    """The file of a graph in `folder` without a convolution: rows [batch, 3] to themselves, doubled."""
    rows = onnx.helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["batch", 3])
    doubled = onnx.helper.make_tensor_value_info("doubled", onnx.TensorProto.FLOAT, ["batch", 3])
    return _write(folder, "Add", ["rows", "rows"], rows, doubled, [])


def _write(
    folder: Path,
    operator: str,
    inputs: list[str],
    taken: onnx.ValueInfoProto,
    given: onnx.ValueInfoProto,
    constants: list[onnx.TensorProto],
) -> Path:
    node = onnx.helper.make_node(operator, inputs, [given.name])
    graph = onnx.helper.make_graph([node], operator, [taken], [given], constants)
    path = folder / "model.onnx"
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8), path
    )
    return path
