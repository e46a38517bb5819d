"""What several models share: micro sizes, NVIDIA's published deployments, and pictures of samples."""

import base64
import dataclasses
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.record import correctness, setup
from tritonproof.record.sample_files import SamplePart
from tritonproof.spec import Arrays, FrameworkModel, Metric, NetworkModel, Samples, ServingProfile, Split


def micro_size(
    full: NetworkModel,
    read: Callable[[Path], FrameworkModel],
    train: Callable[..., Mapping[str, Any]],
    weights: Path,
    samples: Callable[[Split], Samples],
    **changes: Any,
) -> NetworkModel:
    """The micro size of the model `full`, evaluated on its own `samples`. `read` loads the user's checkpoint
    if there is one, else `weights`, the committed file, which `train` made. `changes` are other fields."""
    name = f"{full.name}-micro"

    def load_weights(checkpoint: Path | None) -> FrameworkModel:
        if checkpoint is not None:
            return read(checkpoint)
        committed = read(weights)
        return dataclasses.replace(committed, weights_source=f"trained by recipe, {committed.weights_source}")

    def own_samples(split: Split, dataset: Path | None, _checkpoint: Path | None = None) -> Samples:
        if dataset is not None:
            what = f"{name} takes no data set: it is evaluated on data of its own"
            fix = f"give it to the full-size model: --dataset {full.name}=PATH"
            raise InputError(what, where=f"--dataset {name}={dataset}", fix=fix)
        return samples(split)

    changes |= {"name": name, "load_weights": load_weights, "train": train, "weights": weights}
    return dataclasses.replace(full, samples=own_samples, micro=True, **changes)


def training_step(
    parameters: Iterable[Any], rate: float, steps: int, decay: float, norm: float = math.inf, **cycle: Any
) -> Callable[[Any], None]:
    """A function that takes one step of AdamW for a loss. The learning rate rises to `rate` and falls again
    within `steps`; gradients are clipped to `norm`."""
    from torch import nn, optim

    optimiser = optim.AdamW(parameters, lr=rate, weight_decay=decay)
    schedule = optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, **cycle)

    def step(loss: Any) -> None:
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(optimiser.param_groups[0]["params"], norm)
        optimiser.step()
        schedule.step()

    return step


MICRO_ON_CPU = ServingProfile.batching(8, (1, 8), (8,), preferred=(8,), max_queue_delay_us=1_000)
"""The load points of most micro sizes on CPUs."""


def published_deployment(max_batch_size: int, instances: int = 1) -> setup.Deployment:
    """The settings of a published deployment, whose preferred batches are the largest and half of it."""
    preferred = (max_batch_size // 2, max_batch_size)
    return setup.Deployment(max_batch_size, instances, preferred, 1, cuda_graphs=False, warmup=True)


def full_size_profiles(
    published: ServingProfile, cpu: ServingProfile, gpus: Iterable[str] = ("a40", "a100", "v100", "t4")
) -> Mapping[str, ServingProfile]:
    """The load points on the GPUs for which NVIDIA published figures, on other GPUs, and on CPUs."""
    others = dataclasses.replace(published, nvidia_formats=())
    return {**dict.fromkeys(gpus, published), "gpu": others, "cpu": cpu}


_MIN_SIDE = 128
"""Pixels. Smaller pictures are enlarged by whole factors, so that each pixel becomes a square."""
_LARGE = 3 * 128 * 128
"""Pictures of this many values and more are reduced to 256 colours."""


def picture(title: str, pixels: np.ndarray) -> SamplePart:
    """A picture of [height, width] greys or [height, width, 3] colours, 0 to 255, as PNG."""
    from PIL import Image

    image = Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))
    if pixels.ndim == 3 and pixels.size >= _LARGE:
        image = image.quantize(256)  # a third of the bytes
    factor = -(-_MIN_SIDE // max(image.size))
    image = image.resize((factor * image.width, factor * image.height), Image.Resampling.NEAREST)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return SamplePart("image", title, base64.b64encode(file.getvalue()).decode())


def picked(kept: Arrays, rows: np.ndarray) -> Arrays:
    return {name: values[rows] for name, values in kept.items()}


def batches_of(permuted: Callable[[int], Any], count: int, batch: int) -> Iterator[Any]:
    """Endless batches of `batch` row numbers below `count`, in each epoch in another order by `permuted`."""
    while True:
        yield from permuted(count)[: count // batch * batch].reshape(-1, batch)


def classes(kept: Arrays) -> np.ndarray:
    return kept["classes"]


def shown_classes(
    samples: Samples, item: int, pixels: np.ndarray, framework: Arrays, served: Arrays
) -> list[SamplePart]:
    """An image, [height, width, 3] from 0 to 255, with its class, if known, and the predicted classes."""
    answers = {"Framework": classes(framework)[item], "Served": classes(served)[item]}
    if samples.labels is not None:
        answers = {"Label": samples.labels[item], **answers}
    texts = [SamplePart("text", title, f"class {int(answer)}") for title, answer in answers.items()]
    return [picture("Image", pixels), *texts]


def top_1(floor: correctness.Limit, precisions: tuple[str, ...]) -> Metric:
    """The fraction of images whose predicted class is their label."""
    return Metric(
        "top-1",
        lambda kept, labels, _framework: (classes(kept) == labels).astype(np.float64),
        dict.fromkeys(precisions, floor),
    )


def resnet50_profiles(deployment: setup.Deployment, published: str) -> Mapping[str, ServingProfile]:
    """ResNet50's profiles at full size: NVIDIA's deployment and format on GPUs, other ones on CPUs."""
    batches, concurrencies = (1, 2, 4, 8, 16, 32, 64, 128), tuple(range(16, 257, 16))
    return full_size_profiles(
        ServingProfile(deployment, batches, concurrencies, (published,)),
        # Few cores saturate at batch 8; a longer delay lets the batcher fill it.
        cpu=ServingProfile.batching(8, (1, 4, 8), (4, 16), preferred=(8,), max_queue_delay_us=20_000),
    )
