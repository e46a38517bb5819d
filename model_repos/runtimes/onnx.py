"""Runtime of the ONNX format: ONNX Runtime, in a Triton Python-backend model and in process alike."""

import onnxruntime


def load(artifact, settings):
    """An ONNX file to a function from a list of arrays to a list of arrays.

    settings: device (cpu, cuda), device_id, threads, accelerator (trt or empty), precision, large (0 or 1), and perhaps
    spinning (0 or 1).
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(settings["threads"])
    options.inter_op_num_threads = 1
    # Spinning threads take the cores that the server and the client need; on a busy machine ResNet50's micro size
    # ran at 0.8 times the speed with them. Those of Triton's own backend cannot be told, so beside it these spin too.
    options.add_session_config_entry("session.intra_op.allow_spinning", settings.get("spinning", "0"))
    if settings["large"] == "1":
        # The arena doubles what it asks for and keeps it: 9.6 GiB for four volumes of 128^3, 4.4 without.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
    options.log_severity_level = 3
    if settings["device"] == "cuda":
        onnxruntime.preload_dlls()  # CUDA and cuDNN from the wheels beside it
    providers = _providers(settings)
    session = onnxruntime.InferenceSession(
        str(artifact), options, providers=list(providers), provider_options=list(providers.values())
    )
    wanted, got = next(iter(providers)), session.get_providers()[0]
    if got != wanted:
        raise RuntimeError(f"ONNX Runtime cannot use {wanted} here and fell back to {got}; its log says why")
    names = [tensor.name for tensor in session.get_inputs()]

    def predict(arrays):
        return session.run(None, dict(zip(names, arrays, strict=True)))

    return predict


def _providers(settings):
    """Execution providers in the order of preference, with their options."""
    cpu = {"CPUExecutionProvider": {}}
    if settings["device"] == "cpu":
        return cpu
    device = {"device_id": settings["device_id"]}
    cuda = {"CUDAExecutionProvider": device} | cpu
    if settings["accelerator"] != "trt":
        return cuda
    half = settings["precision"] == "fp16"
    limits = {"trt_fp16_enable": str(half), "trt_max_workspace_size": str(1 << 30)}
    return {"TensorrtExecutionProvider": device | limits} | cuda
