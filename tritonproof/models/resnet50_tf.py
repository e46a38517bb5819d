"""ResNet50 v1.5 in TensorFlow: ImageNet at full size, handwritten digits in three inks at micro size.

Architecture, names, preprocessing and checkpoint layout are those of NVIDIA DeepLearningExamples,
TensorFlow/Classification/ConvNets, as published with the Triton deployment of 2021.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tritonproof.data import images
from tritonproof.frameworks.pytorch import check_weights
from tritonproof.frameworks.tensorflow import function_of, import_tensorflow, read_checkpoint
from tritonproof.models import _shared
from tritonproof.record.correctness import Limit
from tritonproof.record.sample_files import SamplePart
from tritonproof.spec import Arrays, FrameworkModel, NetworkModel, Samples, ServingProfile, Split, Tensor

if TYPE_CHECKING:
    from keras import Model as Network

INPUT = "input"
CLASSES, PROBABILITIES = "classes", "probabilities"
SEED = 20210701

# --- the network and its weights ---------------------------------------------------------------------------

# Red, green, blue, as NVIDIA's code has them; its last deviation is not 255 times ImageNet's 0.225.
MEAN = np.array([123.68, 116.28, 103.53], np.float32)
STD = np.array([58.395, 57.120, 57.385], np.float32)
MICRO_WEIGHTS = Path(__file__).with_name("resnet50-tf-micro.safetensors")
MICRO: dict[str, Any] = {"width": 8, "classes": 11, "side": 32, "small_images": True}
"""The arguments of `network` for the micro model."""


def network(width: int = 64, classes: int = 1001, side: int = 224, small_images: bool = False) -> "Network":
    """ResNet50 v1.5: blocks 3-4-6-3, bottlenecks of expansion 4, the stride on the 3 x 3 convolution.

    Takes {input: [N, side, side, 3]} in 0 to 255, gives {classes: int32 [N, 1], probabilities: [N, classes]}.
    Padding is TensorFlow's SAME: with stride 2 on an even side, the odd pixel of padding is at the end.
    `small_images` replaces the stem's stride and pooling, which would leave a 32 x 32 image a single pixel.
    """
    import_tensorflow()
    import keras
    from keras import layers

    def convolution(x: Any, scope: str, channels: int, kernel: int, stride: int = 1) -> Any:
        x = layers.Conv2D(channels, kernel, stride, "same", use_bias=False, name=f"{scope}.conv2d")(x)
        return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=f"{scope}.BatchNorm")(x)

    def bottleneck(x: Any, scope: str, channels: int, stride: int) -> Any:
        y = keras.ops.relu(convolution(x, f"{scope}.bottleneck_1", channels, 1))
        y = keras.ops.relu(convolution(y, f"{scope}.bottleneck_2", channels, 3, stride))
        y = convolution(y, f"{scope}.bottleneck_3", 4 * channels, 1)
        if x.shape[-1] != 4 * channels:
            x = convolution(x, f"{scope}.shortcut.conv2d", 4 * channels, 1, stride)
        return keras.ops.relu(x + y)

    image = keras.Input((side, side, 3), name=INPUT)
    kernel, stride = (3, 1) if small_images else (7, 2)
    x = keras.ops.relu(convolution((image - MEAN) / STD, "conv2d", width, kernel, stride))
    if not small_images:
        x = layers.MaxPooling2D(3, 2, "same")(x)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            x = bottleneck(x, f"btlnck_block_{stage}_{block}", width * 2**stage, stride)
    logits = layers.Dense(classes, name="output.dense")(keras.ops.mean(x, axis=(1, 2)))
    # The first of equal logits, as argmax; Keras' own argmax looks at bits, which ONNX cannot.
    outputs = {CLASSES: keras.ops.top_k(logits, 1)[1], PROBABILITIES: keras.ops.softmax(logits)}
    return keras.Model({INPUT: image}, outputs, name="resnet50")


def variables(model: "Network") -> dict[str, Any]:
    """The network's variables by their names in a checkpoint: resnet50/btlnck_block_0_0/.../conv2d/kernel."""
    return {f"resnet50/{variable.path.replace('.', '/')}": variable for variable in model.variables}


def _from_checkpoint(model: "Network", path: Path) -> FrameworkModel:
    state, name, digest = read_checkpoint(path)
    own = variables(model)
    check_weights(state, own, path, "NVIDIA's ResNet50 v1.5 for TensorFlow 1 (rn50_tf_amp_ckpt)")
    for key, variable in own.items():
        variable.assign(state[key])
    return FrameworkModel(model, f"{name}, sha256 {digest[:12]}", digest, trained=True)


def initialise(model: "Network") -> None:
    """Draw the kernels from seeded normal distributions: of He's deviation for convolutions, 0.01 for the
    last layer. Other weights stay as Keras set them."""
    generator = np.random.default_rng(SEED)
    for variable in model.variables:
        if variable.path.endswith("/kernel"):
            is_convolution = len(variable.shape) == 4
            deviation = np.sqrt(2 / np.prod(variable.shape[:-1])) if is_convolution else 0.01
            variable.assign(generator.normal(0, deviation, variable.shape).astype(np.float32))


def load_full(checkpoint: Path | None) -> FrameworkModel:
    """The full network from a checkpoint of NVIDIA's layout, or with seeded random weights."""
    if checkpoint is not None:
        return _from_checkpoint(network(), checkpoint)
    full = network()
    initialise(full)
    # A pass in training mode fits BatchNorm's statistics to the weights: otherwise activations grow from
    # block to block, and FP16 and INT8 would be judged on an absurd network.
    for layer in full.layers:
        if layer.name.endswith("BatchNorm"):
            layer.momentum = 0.0
    full(dict(imagenet("evaluation", None).read(range(8))), training=True)
    return FrameworkModel(full, f"random, seed {SEED}", f"random-{SEED}", trained=False)


def train_micro(steps: int = 640) -> Mapping[str, np.ndarray]:
    """Train the committed weights: sixteen epochs on the training digits, two minutes on two cores."""
    tf = import_tensorflow()
    import keras

    strokes, digits, _ = images.micro_digits("training")
    model = network(**MICRO)
    initialise(model)
    batch = 32
    rate = 4e-3
    schedule = keras.optimizers.schedules.CosineDecay(
        rate / 25, int(0.7 * steps), warmup_target=rate, warmup_steps=int(0.3 * steps)
    )
    # Built outside the traced step: otherwise TensorFlow traces the step twice, with a schedule for each
    # weight, which takes half a minute.
    optimiser = keras.optimizers.AdamW(rate, weight_decay=0.05)
    weights = model.trainable_variables
    optimiser.build(weights)
    loss_of = keras.losses.CategoricalCrossentropy(label_smoothing=0.1)

    @tf.function(autograph=False)
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(tf.one_hot(y, MICRO["classes"]), model({INPUT: x}, training=True)[PROBABILITIES])
        optimiser.apply(tape.gradient(loss, [weight.value for weight in weights]), weights)

    generator = np.random.default_rng(SEED)
    batches = _shared.batches_of(generator.permutation, len(strokes), batch)
    for number, chosen in enumerate(itertools.islice(batches, steps)):
        optimiser.learning_rate.assign(schedule(number))
        # Moved by up to two pixels in each direction, as augmentation.
        moved = np.roll(strokes[chosen], generator.integers(-2, 3, 2), axis=(1, 2))
        inks = generator.integers(0, len(images.INKS), batch)  # new ones in each epoch
        labels = images.class_of(digits[chosen], inks).astype(np.int32)
        step(tf.constant(digit_pixels(images.inked(moved, inks))), tf.constant(labels))
    return {key: np.asarray(variable) for key, variable in variables(model).items()}


_compiled = functools.lru_cache(maxsize=2)(functools.partial(function_of, frozen=False))


def _run(model: Any, inputs: Arrays) -> Arrays:
    tf = import_tensorflow()
    outputs = _compiled(model)(**{name: tf.constant(array) for name, array in inputs.items()})
    return {name: outputs[name].numpy() for name in (CLASSES, PROBABILITIES)}


# --- the images --------------------------------------------------------------------------------------------


def _in_pixels(samples: Samples, pixels: Callable[[np.ndarray], np.ndarray]) -> Samples:
    """The PyTorch model's samples with images that `pixels` turns into this network's: NHWC, 0 to 255."""
    return dataclasses.replace(samples, read=lambda rows: {INPUT: pixels(samples.read(rows)[images.INPUT])})


def imagenet(split: Split, dataset: Path | None, checkpoint: Path | None = None) -> Samples:
    """ImageNet below `dataset`: class folders by synset, or `train/` and `val/` with such folders in them.
    Labels are 0 to 999; the network's last class has none.

    Pillow's bilinear filter resizes the shorter side to 256, and the centre is cut out. NVIDIA's training
    evaluates with DALI's filter, which is the same; its Triton scripts use Pillow's default and save as JPEG.
    """
    # The images had 8 bits before they were normalised, so rounding restores them exactly.
    return _in_pixels(
        images.imagenet(split, dataset, checkpoint),
        lambda x: np.clip(np.rint(_channels_last(x) * STD + MEAN), 0, 255),
    )


def digits(split: Split) -> Samples:
    """The digits of resnet50-micro, [N, 32, 32, 3] from 0 (background) to 255; none has the last class."""
    return _in_pixels(images.digits(split), digit_pixels)


def digit_pixels(images: np.ndarray) -> np.ndarray:
    """The PyTorch model's digits, [N, 3, 32, 32] from -1 to 1, as this network's input."""
    return (_channels_last(images) + 1) * 127.5


def _channels_last(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1), np.float32)


# --- the two sizes -----------------------------------------------------------------------------------------


def _show(samples: Samples, item: int, framework: Arrays, served: Arrays) -> list[SamplePart]:
    return _shared.shown_classes(samples, item, samples.read([item])[INPUT][0], framework, served)


# NVIDIA's own code reaches 76.9 to 77.0 % after 90 epochs and 78.3 % after 250.
_IMAGENET_FLOOR = Limit(0.7570, "MLPerf Inference: 99 % of its TensorFlow reference's 76.46 %")
_MICRO_FLOOR = Limit(0.97, "recipe: the committed weights reach 98.2 % in FP32; six of the 500 below that")
_PRECISIONS = ("fp32", "fp16", "int8")
_PUBLISHED = _shared.published_deployment(128, instances=2)


def _outputs(classes: int) -> tuple[Tensor, ...]:
    # NVIDIA's graph gives classes as [N], which Triton serves as [N, 1] too: a served row has a dimension.
    return (Tensor(CLASSES, "INT32", (1,)), Tensor(PROBABILITIES, "FP32", (classes,)))


_FULL_SIZE = NetworkModel(
    name="resnet50-tf",
    inputs=(Tensor(INPUT, "FP32", (224, 224, 3)),),
    outputs=_outputs(1001),
    load_weights=load_full,
    infer=_run,
    samples=imagenet,
    keep=lambda outputs: {"classes": outputs[CLASSES][:, 0]},
    decide=_shared.classes,
    metrics=(_shared.top_1(_IMAGENET_FLOOR, _PRECISIONS),),
    profiles=_shared.resnet50_profiles(_PUBLISHED, "tf-trt-fp16"),
    show=_show,
    defined_in=Path(__file__),
    framework="tensorflow",
)
MODELS = (
    _FULL_SIZE,
    _shared.micro_size(
        _FULL_SIZE,
        read=lambda path: _from_checkpoint(network(**MICRO), path),
        train=train_micro,
        weights=MICRO_WEIGHTS,
        samples=digits,
        inputs=(Tensor(INPUT, "FP32", (32, 32, 3)),),
        outputs=_outputs(MICRO["classes"]),
        metrics=(_shared.top_1(_MICRO_FLOOR, _PRECISIONS),),
        excluded={"onnx-int8": "resnet50-micro shows INT8 in ONNX; the full model has it"},
        profiles={
            "gpu": ServingProfile(_PUBLISHED, (1, 8, 32, 128), (16, 64, 128, 256)),
            "cpu": _shared.MICRO_ON_CPU,
        },
    ),
)
