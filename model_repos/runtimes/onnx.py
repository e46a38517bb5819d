"""Runtime of the ONNX format: ONNX Runtime, in a Triton Python-backend model and in process alike."""

import onnxruntime


def load(artifact, settings):
    """An ONNX file to a function from a list of arrays to a list of arrays.

    settings: device (cpu, cuda), device_id, threads, accelerator (trt or empty), precision.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(settings["threads"])
    options.inter_op_num_threads = 1
    # Spinning threads take the cores that the server and the client need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(artifact), options, providers=_providers(settings))
    names = [tensor.name for tensor in session.get_inputs()]

    def predict(arrays):
        return session.run(None, dict(zip(names, arrays, strict=True)))

    return predict


def _providers(settings):
    if settings["device"] == "cpu":
        return ["CPUExecutionProvider"]
    device = {"device_id": settings["device_id"]}
    providers = [("CUDAExecutionProvider", device), "CPUExecutionProvider"]
    if settings["accelerator"] == "trt":
        half = settings["precision"] == "fp16"
        limits = {"trt_fp16_enable": half, "trt_max_workspace_size": 1 << 30}
        providers.insert(0, ("TensorrtExecutionProvider", device | limits))
    return providers
