"""Finds a machine's peak with large matrix products and convolutions, as a runtime for worker_main.py."""

import functools
import timeit
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

SIZE: Mapping[str, int] = {"cpu": 2048, "cuda": 8192}
"""Rows and columns of the largest product, too many for caches: 0.1 s on 2 cores, 2 ms on a large GPU."""
_PARTS = (4, 2, 1)
"""Divisors of the largest size: products of each size are tried, repeated until they have as many operations
as the largest. Which one is fastest depends on the library and the caches."""
_CHANNELS, _KERNEL, _SIDE = 256, 4, 16
"""A convolution's channels in and out, and the sides of its kernel and its output, in pixels; its batch gives
it as many operations as the product. On two cores it does 221 GFLOP/s in FP32, the best product 199."""
_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
Product = Callable[[], Any]


def operations(size: int) -> int:
    """The operations of a product of this `size`; a multiplication and an addition count as two."""
    return 2 * size**3


def load(_artifact: Path, settings: Mapping[str, str]) -> Callable[[Any], None]:
    """A function that computes `operations` in the fastest way, and returns when it is done. It finds the
    fastest way by trying PyTorch's matrix products of several sizes, and on a CPU also ONNX Runtime's and
    a convolution: none is the fastest on all processors.

    settings: device (cpu, cuda), threads, precision (fp32, fp16, bf16, int8), tf32 (0 or 1: on a GPU, FP32 in
    TF32), size (rows and columns of the largest product).
    """
    import torch

    device, precision, threads = settings["device"], settings["precision"], int(settings["threads"])
    torch.backends.cuda.matmul.allow_tf32 = settings["tf32"] == "1"  # as the runtimes do
    size = int(settings["size"])
    shapes = [(parts**3, size // parts) for parts in _PARTS]
    # Without VNNI PyTorch emulates INT8 on a CPU: a batch took up to 42 s, and ONNX Runtime's 0.1 s.
    by_pytorch = device == "cuda" or precision != "int8"
    ways = list(_by_pytorch(device, precision, threads, shapes)) if by_pytorch else []
    if device == "cpu" and precision in ("fp32", "int8"):
        ways += _by_onnxruntime(precision, threads, shapes)
    if device == "cpu" and precision != "int8":
        ways.append(_convolution(precision, operations(size)))
    # The fastest way has the shortest of three runs, after an uncounted one.
    fastest = min(ways, key=lambda way: min(timeit.repeat(way, repeat=4, number=1)[1:]))
    return lambda _arrays: fastest()


def _by_pytorch(
    device: str, precision: str, threads: int, shapes: list[tuple[int, int]]
) -> Iterator[Product]:
    import torch

    torch.set_num_threads(threads)
    for count, size in shapes:
        if precision == "int8":
            shape = (size, size)
            left, right = (torch.randint(-127, 128, shape, dtype=torch.int8, device=device) for _ in range(2))
            multiply, repeats = torch._int_mm, count
        else:
            dtype = getattr(torch, _TYPES[precision])
            left, right = (torch.randn(count, size, size, device=device).to(dtype) for _ in range(2))
            multiply, repeats = torch.bmm, 1
        yield functools.partial(_repeat, functools.partial(multiply, left, right), repeats, device)


def _convolution(precision: str, operations: int) -> Product:
    import torch

    per_image = 2 * (_CHANNELS * _KERNEL * _SIDE) ** 2
    batch, side = operations // per_image, _SIDE + _KERNEL - 1
    dtype = getattr(torch, _TYPES[precision])
    images = torch.randn(batch, _CHANNELS, side, side).to(dtype)
    weights = torch.randn(_CHANNELS, _CHANNELS, _KERNEL, _KERNEL).to(dtype)
    return functools.partial(torch.conv2d, images, weights)


def _repeat(multiply: Product, repeats: int, device: str) -> None:
    import torch

    for _repeat in range(repeats):
        multiply()
    if device == "cuda":
        torch.cuda.synchronize()


def _by_onnxruntime(precision: str, threads: int, shapes: list[tuple[int, int]]) -> Iterator[Product]:
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Signed weights and unsigned data, as quantised models have them.
    operator, types, input_type, output_type = {
        "fp32": ("MatMul", (np.float32, np.float32), TensorProto.FLOAT, TensorProto.FLOAT),
        "int8": ("MatMulInteger", (np.uint8, np.int8), TensorProto.UINT8, TensorProto.INT32),
    }[precision]
    generator = np.random.default_rng(0)
    for count, size in shapes:
        shape = (count, size, size)
        left, right = ((127 * generator.random(shape, np.float32)).astype(kind) for kind in types)
        graph = helper.make_graph(
            [helper.make_node(operator, ["left", "right"], ["result"])],
            "product",
            [helper.make_tensor_value_info("left", input_type, shape)],
            [helper.make_tensor_value_info("result", output_type, shape)],
            # A constant right side, as weights are: the library packs it once.
            [numpy_helper.from_array(right, "right")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        content, providers = model.SerializeToString(), ["CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(content, options, providers=providers)
        yield functools.partial(session.run, None, {"left": left})
