"""Imports TensorFlow, makes a Keras network's inference a function, exports it, and reads its checkpoints.
Networks take and return dictionaries of tensors, by the names of the model's inputs and outputs."""

import functools
import glob
import hashlib
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.base.disk import file_digest, strict_glob
from tritonproof.base.errors import ProofError
from tritonproof.host import machine
from tritonproof.safe_io.files import check_regular, readable
from tritonproof.spec import ConversionJob


@functools.cache
def import_tensorflow() -> Any:
    """TensorFlow, set to print only errors, to use this process's cores, and to take a GPU's memory as
    needed, not all at once. It reads these settings once, so all code imports it by this function."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # its C++ part prints errors alone
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    threads = tf.config.threading
    if threads.get_intra_op_parallelism_threads() == 0:  # no other code has set the threads
        threads.set_intra_op_parallelism_threads(machine.cores())
        threads.set_inter_op_parallelism_threads(1)
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
    return tf


def function_of(network: Any, *, frozen: bool, batch: int | None = None) -> Any:
    """The network's inference as one TensorFlow function, from tensors by name to tensors by name, with a
    dynamic batch unless `batch` fixes it. If `frozen`, the weights are constants, and TensorFlow folds
    BatchNorm into the convolutions: ResNet50 then has 1.1 times the throughput, 1.5 times at micro size."""
    tf = import_tensorflow()
    specs = {x.name: tf.TensorSpec((batch, *x.shape[1:]), x.dtype, name=x.name) for x in network.inputs}
    groups = (network.trainable_variables, network.non_trainable_variables)
    values = [[variable.numpy() for variable in group] for group in groups] if frozen else []

    @tf.function(autograph=False)
    def serve(**inputs: Any) -> Any:
        if not frozen:
            return network(inputs, training=False)
        constants = ([tf.constant(value) for value in group] for group in values)
        return network.stateless_call(*constants, inputs, training=False)[0]

    return serve.get_concrete_function(**specs)


def export_onnx(job: ConversionJob, path: Path, opset: int) -> None:
    """Write the network as one ONNX file with a dynamic batch, and the model's names in their order. In FP16
    inputs and outputs stay FP32, as in every format. Raises ProofError if ONNX cannot express it."""
    import onnx
    from tf2onnx import optimizer, tfonnx

    tf = import_tensorflow()
    job.on_progress("freeze")
    function = function_of(job.network, frozen=True)
    outputs = dict(zip(sorted(function.structured_outputs), function.outputs, strict=True))
    inputs = {tensor.name: f"{tensor.name}:0" for tensor in job.model.inputs}
    graph_outputs = {tensor.name: outputs[tensor.name].name for tensor in job.model.outputs}
    job.on_progress("export")
    # tf2onnx.convert does the same, but copies the graph at every step: 10 GB for ResNet50.
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(function.graph.as_graph_def(), name="")
        converted = tfonnx.process_tf_graph(
            graph,
            input_names=list(inputs.values()),
            output_names=list(graph_outputs.values()),
            tensors_to_rename={tensor: name for name, tensor in (inputs | graph_outputs).items()},
            opset=opset,
        )
    exported = optimizer.optimize_graph(converted, catch_errors=False).make_model(job.model.name)
    try:
        onnx.checker.check_model(exported)  # what tf2onnx cannot convert, it leaves in the graph
    except onnx.checker.ValidationError as error:
        what = f"the network has no ONNX form: {str(error).splitlines()[0]}"
        fix = "use operations that tf2onnx supports"
        raise ProofError(what, where=job.model.name, fix=fix) from error
    if job.precision == "fp16":
        from onnxruntime.transformers.float16 import convert_float_to_float16

        exported = convert_float_to_float16(exported, keep_io_types=True)
    path.write_bytes(exported.SerializeToString())


_TRAINING_ONLY = re.compile(
    r"(.*/)?(global_step|(current_)?loss_scale|(num_)?good_steps)|signal_handler_var", re.DOTALL
)
"""The rest of a TensorFlow 1 checkpoint: the training's step and loss scale, and Horovod's flag by which
processes agree to stop (DeepLearningExamples 169b0818, model/resnet.py, until 33110132)."""
_WHAT = "the checkpoint, truncated, damaged or no checkpoint of TensorFlow,"
_FIX = "give the checkpoint as published: the .safetensors file, or the .index file and every .data file"


def read_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], str, str]:
    """The variables in a TensorFlow checkpoint, its name and its digest. `path` is the prefix of the files
    (`model.ckpt-112590`), one of them, or a safetensors file. Leaves out what only training needs, such as
    optimizer slots, whose names extend their variable's (`.../kernel/Momentum`). Raises InputError."""
    if path.suffix == ".safetensors" and not path.is_dir():
        from safetensors.numpy import load_file

        check_regular(path, "the checkpoint", _FIX)
        with readable(_WHAT, path, _FIX):
            return load_file(path), path.name, file_digest(path)
    load = import_tensorflow().train.load_checkpoint
    with readable(_WHAT, path, _FIX):
        prefix = path.with_name(re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path.name))
        if not prefix.with_name(f"{prefix.name}.index").is_file():
            raise ValueError(f"there is no {prefix.name}.index")
        files = strict_glob(prefix.parent, f"{glob.escape(prefix.name)}.*")
        reader = load(str(prefix))
        names = set(reader.get_variable_to_shape_map())
        used = [n for n in names if n.rpartition("/")[0] not in names and not _TRAINING_ONLY.fullmatch(n)]
        state = {name: np.asarray(reader.get_tensor(name)) for name in used}
        digests = "".join(f"{file_digest(file)}  {file.name}\n" for file in files if file.suffix != ".meta")
    return state, prefix.name, hashlib.sha256(digests.encode()).hexdigest()
