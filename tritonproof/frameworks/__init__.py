"""What models and formats of one framework share: reading checkpoints, running and converting networks. This
module has what all frameworks share: it keeps exporters and ONNX Runtime quiet, finds the line of an error
that matters, and counts operations."""

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any

from tritonproof.spec import Arrays, NetworkModel

NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
"""Environment variables for this and all other processes that may import ONNX Runtime, and for containers."""

# ONNX Runtime for Linux reports its use to its vendor from 1.29 on, and leaves a file about it in the
# temporary folder. It reads the variable when it is imported; settings that it takes later come too late.
os.environ.update(NO_TELEMETRY)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keep the progress and advice that an exporter prints off the terminal; exceptions pass."""
    logging.disable(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def error_line(text: str) -> str:
    """The line of a long message that says what is wrong: a compiler's first error, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if " error: " in line), lines[0] if lines else "no reason was given")


def count_operations(model: NetworkModel, network: Any, inputs: Arrays) -> float | None:
    """The number of floating-point operations of one inference, a multiply-add being two; None if unknown.

    `inputs` is one row, [1, ...] each. Counts the matrix products and convolutions in the framework: a
    converter may fold some of them, and a runtime may choose a method with fewer operations."""
    if model.framework == "pytorch":
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.utils.flop_counter import FlopCounterMode

        # Attention as two matrix products: the counter does not know the fused kernel of CPUs.
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            model.infer(network, inputs)
        return float(counter.get_total_flops()) or None
    if model.framework == "tensorflow":
        from tritonproof.frameworks.tensorflow import function_of, import_tensorflow

        profiler = import_tensorflow().compat.v1.profiler
        # TensorFlow counts by the shapes in the graph, so its batch is one row.
        graph = function_of(network, frozen=False, batch=1).graph
        options = profiler.ProfileOptionBuilder(profiler.ProfileOptionBuilder.float_operation())
        options = options.with_accounted_types(["Conv2D", "MatMul"]).with_empty_output().build()
        return float(profiler.profile(graph, cmd="op", options=options).total_float_ops) or None
    return None  # ONNX Runtime does not count operations
