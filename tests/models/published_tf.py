"""ResNet50's checkpoints as NVIDIA's TensorFlow 1 code writes them: variables, what training adds, and the files."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fixtures.frameworks.tensorflow import import_tensorflow

State = dict[str, np.ndarray]


def variables_of(width: int, classes: int, stem: int) -> State:
    """Every variable of NVIDIA's network in its shape, with random values: 267, of which 161 are trained.

    From the scopes and layers of DeepLearningExamples 169b0818, TensorFlow/Classification/ConvNets: model/resnet.py
    and model/blocks/; tf.layers calls a convolution conv2d and tf.contrib.layers a normalisation BatchNorm.
    """
    generator = np.random.default_rng(0)
    found: State = {}

    def convolution(scope: str, kernel: int, inner: int, outer: int) -> None:
        deviation = (2 / (inner * kernel**2)) ** 0.5
        found[f"{scope}/conv2d/kernel"] = generator.normal(0, deviation, (kernel, kernel, inner, outer))
        found[f"{scope}/BatchNorm/gamma"] = generator.uniform(0.25, 0.75, outer)
        found[f"{scope}/BatchNorm/beta"] = generator.normal(0, 0.1, outer)
        found[f"{scope}/BatchNorm/moving_mean"] = generator.normal(0, 0.1, outer)
        found[f"{scope}/BatchNorm/moving_variance"] = generator.uniform(0.5, 1.5, outer)

    convolution("resnet50/conv2d", stem, 3, width)
    inner = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        channels = width * 2**stage
        for block in range(blocks):
            scope = f"resnet50/btlnck_block_{stage}_{block}"
            if block == 0:
                convolution(f"{scope}/shortcut/conv2d", 1, inner, 4 * channels)
            convolution(f"{scope}/bottleneck_1", 1, inner, channels)
            convolution(f"{scope}/bottleneck_2", 3, channels, channels)
            convolution(f"{scope}/bottleneck_3", 1, channels, 4 * channels)
            inner = 4 * channels
    found["resnet50/output/dense/kernel"] = generator.normal(0, 0.05, (inner, classes))
    found["resnet50/output/dense/bias"] = generator.normal(0, 0.1, classes)
    return {name: values.astype(np.float32) for name, values in found.items()}


def of_training(state: Mapping[str, np.ndarray]) -> State:
    """What the training adds: Momentum's slot of each trained variable, the step, and with several GPUs a flag.

    From model/resnet.py and runtime/runner.py of the same commit; TensorFlow's automatic mixed precision adds the
    loss scale and the steps since it was changed.
    """
    slots = {f"{name}/Momentum": values for name, values in state.items() if "/moving_" not in name}
    return slots | {
        "global_step": np.asarray(np.int64(112590)),
        "current_loss_scale": np.asarray(np.float32(2**15)),
        "good_steps": np.asarray(np.int64(7)),
        "signal_handler_var": np.array([0], np.int32),
    }


def save(state: Mapping[str, np.ndarray], prefix: Path) -> Path:
    """A checkpoint as TensorFlow 1 writes it: by a Saver, from a graph with a session."""
    tf = import_tensorflow().compat.v1
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with tf.Graph().as_default(), tf.Session() as session:
        places = {name: tf.placeholder(values.dtype, values.shape) for name, values in state.items()}
        saved = {name: tf.Variable(place, name=name, use_resource=False) for name, place in places.items()}
        session.run(tf.global_variables_initializer(), {places[name]: state[name] for name in state})
        tf.train.Saver(list(saved.values())).save(session, str(prefix))
    return prefix
