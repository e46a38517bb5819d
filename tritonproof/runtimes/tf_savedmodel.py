"""Runtime of the TensorFlow formats: a SavedModel, in a Triton Python-backend model and in process alike."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors of TensorFlow's C++ part

import tensorflow as tf


def load(artifact, parameters):
    """Turn a SavedModel folder into a function from arrays to arrays, two lists. parameters: device (cpu,
    cuda), device_id, threads, inputs and outputs (names, separated by commas), tf32 (0 or 1, on a GPU)."""
    # Instances in one process share one pool of threads, which TensorFlow sets up once.
    count = int(parameters["threads"])
    threads = tf.config.threading
    if threads.get_intra_op_parallelism_threads() != count:
        threads.set_intra_op_parallelism_threads(count)
    if threads.get_inter_op_parallelism_threads() != 1:
        threads.set_inter_op_parallelism_threads(1)
    device = _device(parameters)
    loaded = tf.saved_model.load(str(artifact))
    signature = loaded.signatures["serving_default"]
    inputs, outputs = parameters["inputs"].split(","), parameters["outputs"].split(",")

    def predict(arrays):
        with tf.device(device):
            tensors = {name: tf.constant(array) for name, array in zip(inputs, arrays, strict=True)}
            results = signature(**tensors)
        return [results[name].numpy() for name in outputs]

    predict.loaded = loaded  # the signature alone does not keep it
    return predict


def _device(parameters):
    """The TensorFlow device; raises RuntimeError if TensorFlow would run on the CPU instead."""
    if parameters["device"] == "cpu":
        return "/CPU:0"
    gpus = tf.config.list_physical_devices("GPU")
    if int(parameters["device_id"]) >= len(gpus):
        raise RuntimeError(
            f"TensorFlow finds {len(gpus)} GPUs and no GPU {parameters['device_id']}: install "
            "tensorflow[and-cuda]"
        )
    for gpu in gpus:
        if not tf.config.experimental.get_memory_growth(gpu):
            tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.experimental.enable_tensor_float_32_execution(parameters["tf32"] == "1")
    return f"/GPU:{parameters['device_id']}"
