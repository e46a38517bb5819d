"""Runtime of the ONNX format: ONNX Runtime, in a Triton Python-backend model and in process alike."""

import functools
import os

import numpy as np
import onnxruntime


def load(artifact, parameters):
    """Turn an ONNX file, or a folder with it and its weights, into a function from inputs to outputs, lists.

    parameters: device (cpu, cuda), device_id, threads, accelerator (trt or empty), engines (the folder for
    the accelerator's engines, or empty), precision, large (0 or 1), tf32 (0 or 1: FP32 in TF32 on a GPU),
    tensors (numpy for arrays, torch for PyTorch's tensors on the device), and perhaps spinning (0 or 1),
    batched (0 for a network without a batch axis, which computes row by row), sizes (batch sizes, joined by
    commas: see `_padded`), cuda_graphs (0 or 1: see `_captured`), and prefer_nhwc (0 or 1: channels last).
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(parameters["threads"])
    options.inter_op_num_threads = 1
    # Spinning threads take the cores that the server and the client need: on a busy machine ResNet50's micro
    # size ran at 0.8 times the speed. Triton's own backend always spins, so these do too to compare with it.
    options.add_session_config_entry("session.intra_op.allow_spinning", parameters.get("spinning", "0"))
    if parameters["large"] == "1":
        # The arena doubles what it asks for and keeps it: 9.6 GiB for four volumes of 128^3, 4.4 without.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
    options.log_severity_level = 3
    if parameters["device"] == "cuda":
        onnxruntime.preload_dlls()  # CUDA and cuDNN from the wheels beside it
        if parameters["accelerator"] == "trt":
            import tensorrt  # noqa: F401 - loads libnvinfer, which the provider does not find by itself
    graph = artifact / "model.onnx" if artifact.is_dir() else artifact
    captures = parameters["device"] == "cuda" and parameters.get("cuda_graphs") == "1"
    several = not captures and parameters["tensors"] == "torch" and _plans_anew(graph, parameters)
    opened = functools.partial(_session, graph, options, _providers(parameters, several))
    if parameters["tensors"] != "torch":
        predict = _on_arrays(opened())
    elif captures:
        predict = _padded(_captured(opened(), parameters), parameters)
    elif several:
        predict = _padded(_session_per_size(opened, parameters), parameters)
    else:
        predict = _on_tensors(opened(), parameters)
    return _row_by_row(predict, parameters) if parameters.get("batched") == "0" else predict


def _session(graph, options, providers):
    session = onnxruntime.InferenceSession(
        str(graph), options, providers=list(providers), provider_options=list(providers.values())
    )
    chosen, used = next(iter(providers)), session.get_providers()[0]
    if used != chosen:
        raise RuntimeError(f"ONNX Runtime cannot use {chosen} here and fell back to {used}; its log says why")
    return session


def _plans_anew(graph, parameters):
    """Whether to have a session for each batch size, because a session is slow when the size changes. Since
    release 1.20 ONNX Runtime keeps only cuDNN's last plan for each convolution on a GPU: new plans take 150
    ms on an H200 for the micro ResNet50, which computes 128 rows in 2 ms. For large tensors, plans take
    little of the time, and further sessions would take gigabytes."""
    is_alone = parameters["accelerator"] or parameters["large"] == "1" or parameters.get("batched") == "0"
    if parameters["device"] == "cpu" or is_alone:
        return False
    import onnx

    nodes = onnx.load(str(graph), load_external_data=False).graph.node
    return any(node.op_type in ("Conv", "ConvTranspose") for node in nodes)


def _session_per_size(opened, parameters):
    """A function from tensors to tensors that has a session of its own for each batch size."""
    ready = [opened()]  # now, so that a failure fails the loading, not the first request

    @functools.lru_cache(maxsize=16)  # each has its own copy of the weights
    def run_of(_size):
        return _on_tensors(ready.pop() if ready else opened(), parameters)

    return lambda tensors: run_of(len(tensors[0]))(tensors)


def _captured(session, parameters):
    """A function from tensors to tensors that captures the session's work as a CUDA graph for each shape of
    the inputs, and then replays it by one call instead of one for each kernel.

    A graph reads and writes the memory that it was captured with, so inputs and answers are copied. Source:
    ONNX Runtime's documentation of its CUDA provider, "Using CUDA Graphs".
    """
    import torch

    run_without = _on_tensors(session, parameters, graph=-1)
    graphs = {}

    def predict(tensors):
        shapes = tuple(tensor.shape for tensor in tensors)
        if shapes not in graphs:
            inputs = [tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors]
            # A run without a graph gives the shapes of the outputs.
            outputs = [result.clone() for result in run_without(inputs)]
            graphs[shapes] = inputs, outputs, _on_tensors(session, parameters, outputs, graph=len(graphs) + 1)
        inputs, outputs, run = graphs[shapes]
        for buffer, tensor in zip(inputs, tensors, strict=True):
            buffer.copy_(tensor)
        run(inputs)
        return [output.clone() for output in outputs]

    return predict


def _padded(predict, parameters):
    """A function that pads a batch with copies of its last row to the next size in the parameter `sizes`,
    calls `predict`, and drops the answers of the copies: Triton's batcher forms batches of any size."""
    import torch

    sizes = sorted(int(size) for size in parameters.get("sizes", "").split(",") if size)

    def run(tensors):
        rows = len(tensors[0])
        size = next((size for size in sizes if size >= rows), rows)
        if size > rows:
            tensors = [torch.cat([x, x[-1:].expand(size - rows, *x.shape[1:])]) for x in tensors]
        return [result[:rows] for result in predict(tensors)]

    return run


def _on_arrays(session):
    """Turn a session into a function on arrays. Texts are bytes there, and str for ONNX Runtime."""
    names = [tensor.name for tensor in session.get_inputs()]

    def predict(arrays):
        inputs = [_DECODED(array) if array.dtype == object else array for array in arrays]
        results = session.run(None, dict(zip(names, inputs, strict=True)))
        return [_ENCODED(result) if result.dtype == object else result for result in results]

    return predict


_DECODED = np.vectorize(bytes.decode, otypes=[object])
_ENCODED = np.vectorize(str.encode, otypes=[object])


def _row_by_row(predict, parameters):
    """Turn a function on single rows, which lack the batch axis, into one on batches."""
    if parameters["tensors"] == "torch":
        from torch import stack
    else:
        from numpy import stack

    def run(batches):
        rows = [predict(row) for row in zip(*batches, strict=True)]
        return [stack(parts) for parts in zip(*rows, strict=True)]

    return run


def _on_tensors(session, parameters, outputs=None, graph=None):
    """Turn a session into a function on tensors of its device, none of which leaves it. Answers are in new
    memory, or in the tensors `outputs`. `graph` is the number of the CUDA graph that captures and
    replays the run; -1 for none."""
    import torch

    device, device_id = parameters["device"], int(parameters["device_id"])
    names = [tensor.name for tensor in session.get_inputs()]
    options = onnxruntime.RunOptions()
    if graph is not None:
        options.add_run_config_entry("gpu_graph_id", str(graph))

    def buffer_of(tensor):
        element_type = np.dtype(str(tensor.dtype).removeprefix("torch."))
        return device, device_id, element_type, tuple(tensor.shape), tensor.data_ptr()

    def predict(tensors):
        binding = session.io_binding()
        inputs = [tensor.contiguous() for tensor in tensors]  # kept until the run is over
        for name, tensor in zip(names, inputs, strict=True):
            binding.bind_input(name, *buffer_of(tensor))
        for index, output in enumerate(session.get_outputs()):
            binding.bind_output(output.name, *(buffer_of(outputs[index]) if outputs else (device, device_id)))
        if device == "cuda":
            # PyTorch may still copy the inputs, on a stream of its own.
            torch.cuda.current_stream(device_id).synchronize()
        session.run_with_iobinding(binding, options)
        binding.synchronize_outputs()
        return outputs or [torch.from_dlpack(value) for value in binding.get_outputs_as_ortvaluevector()]

    return predict


def _providers(parameters, several):
    """Execution providers with their options, by preference, for one session or one of `several`."""
    cpu = {"CPUExecutionProvider": {}}
    if parameters["device"] == "cpu":
        return cpu
    device = {"device_id": parameters["device_id"]}
    # HEURISTIC: do not try every algorithm of a convolution at each new shape, while the request waits.
    cuda_options = {
        "use_tf32": parameters["tf32"],
        "cudnn_conv_algo_search": "HEURISTIC",
        "enable_cuda_graph": parameters.get("cuda_graphs", "0"),
        "prefer_nhwc": parameters.get("prefer_nhwc", "0"),
    }
    if several:  # each takes what it needs, instead of doubling each time
        cuda_options["arena_extend_strategy"] = "kSameAsRequested"
    cuda = {"CUDAExecutionProvider": device | cuda_options} | cpu
    if parameters["accelerator"] != "trt":
        return cuda
    is_half = parameters["precision"] == "fp16"
    options = {"trt_fp16_enable": str(is_half), "trt_max_workspace_size": str(1 << 30)}
    if parameters["tf32"] == "0":
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"  # the provider has no option for it, and TensorRT reads this
    if parameters["engines"]:
        for cache in ("engine", "timing"):
            options |= {f"trt_{cache}_cache_enable": "True", f"trt_{cache}_cache_path": parameters["engines"]}
    return {"TensorrtExecutionProvider": device | options} | cuda
