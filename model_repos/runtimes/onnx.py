"""Runtime of the ONNX format: ONNX Runtime, in a Triton Python-backend model and in process alike."""

import functools
import os

import numpy as np
import onnxruntime

_SESSIONS = 16
"""The most sessions that `_by_size` keeps: each has its own copy of the weights."""


def load(artifact, settings):
    """An ONNX file, or a folder with it and its weights, to a function from inputs to outputs, two lists.

    settings: device (cpu, cuda), device_id, threads, accelerator (trt or empty), engines (the folder for the
    accelerator's engines, or empty), precision, large (0 or 1), tf32 (0 or 1: FP32 in TF32 on a GPU), tensors
    (numpy for arrays, torch for PyTorch's tensors on the device), and perhaps spinning (0 or 1), batched (0
    for a network without a batch axis, which computes row by row), sizes (batch sizes, joined by commas: see
    `_filled_up`), cuda_graphs (0 or 1: see `_captured`), and prefer_nhwc (0 or 1: channels last).
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(settings["threads"])
    options.inter_op_num_threads = 1
    # Spinning threads take the cores that the server and the client need: on a busy machine ResNet50's micro
    # size ran at 0.8 times the speed. Triton's own backend always spins, so compared with it these do too.
    options.add_session_config_entry("session.intra_op.allow_spinning", settings.get("spinning", "0"))
    if settings["large"] == "1":
        # The arena doubles what it asks for and keeps it: 9.6 GiB for four volumes of 128^3, 4.4 without.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
    options.log_severity_level = 3
    if settings["device"] == "cuda":
        onnxruntime.preload_dlls()  # CUDA and cuDNN from the wheels beside it
        if settings["accelerator"] == "trt":
            import tensorrt  # noqa: F401 - loads libnvinfer, for which the provider does not look there
    graph = artifact / "model.onnx" if artifact.is_dir() else artifact
    captures = settings["device"] == "cuda" and settings.get("cuda_graphs") == "1"
    several = not captures and settings["tensors"] == "torch" and _plans_anew(graph, settings)
    opened = functools.partial(_session, graph, options, _providers(settings, several))
    if settings["tensors"] != "torch":
        predict = _on_arrays(opened())
    elif captures:
        predict = _filled_up(_captured(opened(), settings), settings)
    elif several:
        predict = _filled_up(_by_size(opened, settings), settings)
    else:
        predict = _on_tensors(opened(), settings)
    return _row_by_row(predict, settings) if settings.get("batched") == "0" else predict


def _session(graph, options, providers):
    session = onnxruntime.InferenceSession(
        str(graph), options, providers=list(providers), provider_options=list(providers.values())
    )
    wanted, got = next(iter(providers)), session.get_providers()[0]
    if got != wanted:
        raise RuntimeError(f"ONNX Runtime cannot use {wanted} here and fell back to {got}; its log says why")
    return session


def _plans_anew(graph, settings):
    """Whether a session takes long when the batch size changes. Since release 1.20 ONNX Runtime keeps for
    each convolution on a GPU only cuDNN's last plan: a new one takes 150 ms on an H200 for the micro
    ResNet50, which computes 128 rows in 2 ms. For large tensors a plan takes relatively little time, and
    further sessions would take gigabytes."""
    is_alone = settings["accelerator"] or settings["large"] == "1" or settings.get("batched") == "0"
    if settings["device"] == "cpu" or is_alone:
        return False
    import onnx

    nodes = onnx.load(str(graph), load_external_data=False).graph.node
    return any(node.op_type in ("Conv", "ConvTranspose") for node in nodes)


def _by_size(opened, settings):
    """A function from tensors to tensors that has a session of its own for each batch size."""
    ready = [opened()]  # now, as what cannot be opened fails to load, and not the first request

    @functools.lru_cache(_SESSIONS)
    def run_of(_size):
        return _on_tensors(ready.pop() if ready else opened(), settings)

    return lambda tensors: run_of(len(tensors[0]))(tensors)


def _captured(session, settings):
    """A function from tensors to tensors that captures the session's work as a CUDA graph for each shape of
    the inputs, and then replays it by one call instead of one for each kernel.

    A graph reads and writes the memory that it was captured with, so inputs and answers are copied. Source:
    ONNX Runtime's documentation of its CUDA provider, "Using CUDA Graphs".
    """
    import torch

    run_without = _on_tensors(session, settings, graph=-1)
    kept = {}

    def predict(tensors):
        shapes = tuple(tensor.shape for tensor in tensors)
        if shapes not in kept:
            inputs = [tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors]
            # A run without a graph, by which the shapes of the outputs are known.
            outputs = [result.clone() for result in run_without(inputs)]
            kept[shapes] = inputs, outputs, _on_tensors(session, settings, outputs, graph=len(kept) + 1)
        inputs, outputs, run = kept[shapes]
        for place, tensor in zip(inputs, tensors, strict=True):
            place.copy_(tensor)
        run(inputs)
        return [output.clone() for output in outputs]

    return predict


def _filled_up(predict, settings):
    """With `sizes`, as for the batches of any size that Triton's batcher forms, fill a batch up to the next
    size with copies of its last row, whose answers are dropped."""
    sizes = sorted(int(size) for size in settings.get("sizes", "").split(",") if size)

    def run(tensors):
        rows = len(tensors[0])
        size = next((size for size in sizes if size >= rows), rows)
        filled = [_filled(tensor, size) for tensor in tensors] if size > rows else tensors
        return [result[:rows] for result in predict(filled)]

    return run


def _filled(tensor, size):
    from torch import cat

    return cat([tensor, tensor[-1:].expand(size - len(tensor), *tensor.shape[1:])])


def _on_arrays(session):
    """A session to a function on arrays. Of Triton's texts, bytes, ONNX Runtime would take the repr."""
    inputs = [(tensor.name, tensor.type == "tensor(string)") for tensor in session.get_inputs()]
    texts = [number for number, tensor in enumerate(session.get_outputs()) if tensor.type == "tensor(string)"]

    def predict(arrays):
        feeds = {
            name: _DECODED(array) if is_text else array
            for (name, is_text), array in zip(inputs, arrays, strict=True)
        }
        results = session.run(None, feeds)
        for number in texts:
            results[number] = _ENCODED(results[number])
        return results

    return predict


_DECODED = np.vectorize(bytes.decode, otypes=[object])
_ENCODED = np.vectorize(str.encode, otypes=[object])


def _row_by_row(predict, settings):
    """A function on single rows, without the axis of the rows, as one on any number of them."""
    if settings["tensors"] == "torch":
        from torch import stack
    else:
        from numpy import stack

    def run(batches):
        rows = [predict(row) for row in zip(*batches, strict=True)]
        return [stack(parts) for parts in zip(*rows, strict=True)]

    return run


def _on_tensors(session, settings, outputs=None, graph=None):
    """A session to a function on tensors of its device, none of which goes through the host. The answers are
    in new memory, or in the tensors `outputs`. `graph` is the number of the CUDA graph as which the run is
    captured and replayed; -1 for none."""
    import torch

    device, number = settings["device"], int(settings["device_id"])
    names = [tensor.name for tensor in session.get_inputs()]
    options = onnxruntime.RunOptions()
    if graph is not None:
        options.add_run_config_entry("gpu_graph_id", str(graph))

    def place_of(tensor):
        kind = np.dtype(str(tensor.dtype).removeprefix("torch."))
        return device, number, kind, tuple(tensor.shape), tensor.data_ptr()

    def predict(tensors):
        binding = session.io_binding()
        inputs = [tensor.contiguous() for tensor in tensors]  # kept until the run is over
        for name, tensor in zip(names, inputs, strict=True):
            binding.bind_input(name, *place_of(tensor))
        for index, output in enumerate(session.get_outputs()):
            binding.bind_output(output.name, *(place_of(outputs[index]) if outputs else (device, number)))
        if device == "cuda":
            # PyTorch may still copy the inputs, on a stream of its own.
            torch.cuda.current_stream(number).synchronize()
        session.run_with_iobinding(binding, options)
        binding.synchronize_outputs()
        return outputs or [torch.from_dlpack(value) for value in binding.get_outputs_as_ortvaluevector()]

    return predict


def _providers(settings, several):
    """Execution providers with their options, by preference, for one session or one of `several`."""
    cpu = {"CPUExecutionProvider": {}}
    if settings["device"] == "cpu":
        return cpu
    device = {"device_id": settings["device_id"]}
    # Not every algorithm of a convolution tried at each new shape, while the request of that shape waits.
    chosen = {"use_tf32": settings["tf32"], "cudnn_conv_algo_search": "HEURISTIC"}
    if settings.get("cuda_graphs") == "1":
        chosen["enable_cuda_graph"] = "1"
    if settings.get("prefer_nhwc") == "1":
        chosen["prefer_nhwc"] = "1"
    if several:  # each takes what it needs, where it would take twice as much each time
        chosen["arena_extend_strategy"] = "kSameAsRequested"
    cuda = {"CUDAExecutionProvider": device | chosen} | cpu
    if settings["accelerator"] != "trt":
        return cuda
    half = settings["precision"] == "fp16"
    limits = {"trt_fp16_enable": str(half), "trt_max_workspace_size": str(1 << 30)}
    if settings["tf32"] == "0":
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"  # the provider has no option for it, and TensorRT reads this
    if settings["engines"]:
        for kept in ("engine", "timing"):
            limits |= {f"trt_{kept}_cache_enable": "True", f"trt_{kept}_cache_path": settings["engines"]}
    return {"TensorrtExecutionProvider": device | limits} | cuda
