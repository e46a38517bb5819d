"""ResNet50 v1.5 in PyTorch: ImageNet at full size, handwritten digits in three inks at micro size.

Architecture, names, preprocessing and checkpoint layout are those of NVIDIA DeepLearningExamples,
PyTorch/Classification/ConvNets, as published with the Triton deployment of 2021.
"""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tritonproof.data import images
from tritonproof.frameworks import pytorch
from tritonproof.models import _shared
from tritonproof.record.correctness import Limit
from tritonproof.record.sample_files import SamplePart
from tritonproof.spec import Arrays, FrameworkModel, NetworkModel, Samples, ServingProfile, Tensor

if TYPE_CHECKING:
    from torch import nn

OUTPUT = "OUTPUT__0"
"""The name of the model's output: the logit of each class."""

# --- the network and its weights ---------------------------------------------------------------------------

MICRO_WEIGHTS = Path(__file__).with_name("resnet50-micro.safetensors")
MICRO: dict[str, Any] = {"width": 8, "classes": 10, "small_images": True}
"""The arguments of `network` for the micro model."""


def network(width: int = 64, classes: int = 1000, small_images: bool = False) -> "nn.Module":
    """ResNet50 v1.5 with NVIDIA's layer names: blocks 3-4-6-3, expansion 4, the stride on the 3 x 3
    convolution. `small_images` replaces the stem's stride and pooling, which would leave one pixel."""
    import torch
    from torch import nn

    class Bottleneck(nn.Module):
        def __init__(self, inner: int, outer: int, channels: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inner, channels, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(channels)
            self.conv3 = nn.Conv2d(channels, outer, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(outer)
            self.relu = nn.ReLU()
            shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
            self.downsample = shortcut if stride != 1 or inner != outer else nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            return self.relu(self.bn3(self.conv3(y)) + self.downsample(x))

    def layer(inner: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
        outer = 4 * channels
        first = Bottleneck(inner, outer, channels, stride)
        return nn.Sequential(first, *(Bottleneck(outer, outer, channels, 1) for _ in range(blocks - 1)))

    class ResNet50(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            kernel, stride = (3, 1) if small_images else (7, 2)
            self.conv1 = nn.Conv2d(3, width, kernel, stride, kernel // 2, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.relu = nn.ReLU()
            self.maxpool = nn.Identity() if small_images else nn.MaxPool2d(3, stride=2, padding=1)
            self.layer1 = layer(width, width, 3, 1)
            self.layer2 = layer(4 * width, 2 * width, 4, 2)
            self.layer3 = layer(8 * width, 4 * width, 6, 2)
            self.layer4 = layer(16 * width, 8 * width, 3, 2)
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(32 * width, classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.to(self.conv1.weight.dtype)
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(self.avgpool(x).flatten(1)).float()

    return ResNet50()


def _own(key: str) -> str:
    """Rename a key of NVIDIA's later code, `layers.0` to `layers.3`, as its published checkpoint has it."""
    return re.sub(r"^layers\.([0-3])\.", lambda match: f"layer{int(match[1]) + 1}.", key)


def load_full(checkpoint: Path | None) -> FrameworkModel:
    """The network of a checkpoint in NVIDIA's or torchvision's layout, or with seeded random weights."""
    if checkpoint is not None:
        return pytorch.from_checkpoint(network(), checkpoint, _own)
    return pytorch.random_weights(_initialised, images.SEED)


def _initialised() -> "nn.Module":
    """The full network with random weights and BatchNorm statistics that fit them. Otherwise activations
    would grow from block to block, and FP16 and INT8 would be judged on an absurd network."""
    import torch

    full = network()
    for module in full.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        full.train()(torch.from_numpy(images.synthetic_images(range(8))))
    return full


def train_micro(steps: int = 640) -> Mapping[str, Any]:
    """Train the committed weights: sixteen epochs on the training digits, a minute on two cores."""
    import torch

    strokes, digits, _ = images.micro_digits("training")
    torch.manual_seed(images.SEED)
    model = network(**MICRO)
    batch = 32
    step = _shared.training_step(model.parameters(), 4e-3, steps, decay=0.05)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    for chosen in itertools.islice(_shared.batches_of(torch.randperm, len(strokes), batch), steps):
        inks = torch.randint(len(images.INKS), (batch,)).numpy()  # new ones in each epoch
        down, right = torch.randint(-2, 3, (2,)).tolist()  # as augmentation
        pictures = torch.from_numpy(images.inked(strokes[chosen], inks)).roll((down, right), dims=(2, 3))
        step(loss_of(model(pictures), torch.from_numpy(images.class_of(digits[chosen], inks))))
    return model.state_dict()


def _show(samples: Samples, item: int, framework: Arrays, served: Arrays) -> list[SamplePart]:
    image = samples.read([item])[images.INPUT][0].transpose(1, 2, 0)
    # Digits in ink are in -1 to 1, photographs normalised by ImageNet's mean and deviation.
    is_inked = image.shape[0] == images.MICRO_SIDE
    pixels = 127.5 * (image + 1) if is_inked else 255 * (image * images.STD + images.MEAN)
    return _shared.shown_classes(samples, item, pixels, framework, served)


# --- the two sizes -----------------------------------------------------------------------------------------


# NVIDIA's own checkpoint reaches 78.3 to 78.6 %.
_IMAGENET_FLOOR = Limit(0.7570, "MLPerf Inference: 99 % of the reference's 76.46 %")
_MICRO_FLOOR = Limit(0.966, "recipe: the committed weights reach 97.8 % in FP32; six of the 500 below that")
# Not BF16, which takes nearly twice as long as FP32 at this size, and two thirds of its time at full size.
_MICRO_PRECISIONS = ("fp32", "fp16", "int8")
_PRECISIONS = (*_MICRO_PRECISIONS, "bf16")
_PUBLISHED = _shared.published_deployment(128)
_FULL_SIZE = NetworkModel(
    name="resnet50",
    inputs=(Tensor(images.INPUT, "FP32", (3, 224, 224)),),
    outputs=(Tensor(OUTPUT, "FP32", (1000,)),),
    load_weights=load_full,
    infer=pytorch.runner(OUTPUT),
    samples=images.imagenet,
    keep=lambda outputs: {"classes": outputs[OUTPUT].argmax(axis=1)},
    decide=_shared.classes,
    metrics=(_shared.top_1(_IMAGENET_FLOOR, _PRECISIONS),),
    profiles=_shared.resnet50_profiles(_PUBLISHED, "onnx-trt-fp16"),
    show=_show,
    defined_in=Path(__file__),
)
MODELS = (
    _FULL_SIZE,
    _shared.micro_size(
        _FULL_SIZE,
        read=lambda path: pytorch.from_checkpoint(network(**MICRO), path, _own),
        train=train_micro,
        weights=MICRO_WEIGHTS,
        samples=images.digits,
        inputs=(Tensor(images.INPUT, "FP32", (3, 32, 32)),),
        outputs=(Tensor(OUTPUT, "FP32", (10,)),),
        metrics=(_shared.top_1(_MICRO_FLOOR, _MICRO_PRECISIONS),),
        profiles={
            "gpu": ServingProfile(_PUBLISHED, (1, 8, 32, 128), (16, 64, 128, 256)),
            "cpu": ServingProfile.batching(32, (1, 32), (32,), preferred=(16, 32), max_queue_delay_us=1_000),
        },
    ),
)
