"""Counts the floating-point operations of one inference of a framework model."""

from typing import Any

from tritonproof.spec import Arrays, Model


def count(model: Model, network: Any, inputs: Arrays) -> float | None:
    """Floating-point operations of one inference, a multiply-add as two; None if not counted.

    `inputs` is one row, [1, ...] each. The count covers the framework's own matrix products and convolutions:
    a converter may fold some, and a runtime may choose a method with fewer.
    """
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
    return None  # ONNX Runtime counts none
