"""Pictures for the ResNet50 models: ImageNet, as NVIDIA prepares it, and handwritten digits in three inks."""

import functools
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tritonproof.base.errors import NotAvailableError
from tritonproof.safe_io.arrays import opened_picture
from tritonproof.safe_io.files import readable
from tritonproof.spec import Samples, Split

INPUT = "INPUT__0"
"""The name of the model's input: an image, normalised."""
SEED = 20210701
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
_IMAGE_SUFFIXES = {".jpeg", ".jpg", ".png", ".webp", ".bmp"}
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
_MAX_RATIO = 100
"""The largest ratio of an image's sides, which are scaled alike; ImageNet's images stay far below."""
_RANDOM_IMAGES = 64


def preprocess(path: Path) -> np.ndarray:
    """An image file as [3, 224, 224]: shorter side to 256, centre crop, ImageNet's mean and deviation. Equal
    to the pixel to torchvision's Resize(256) and CenterCrop(224), with which NVIDIA's training evaluates."""
    from PIL import Image

    with opened_picture(path, "an image", "restore it from the data set's archive", _FORMATS) as picture:
        if max(picture.size) > _MAX_RATIO * min(picture.size):
            raise ValueError(f"it is a line of {picture.width} x {picture.height} pixels")
        image = picture.convert("RGB")
    # Torchvision truncates the longer side, and rounds half a pixel of margin to the even number:
    # torchvision/transforms/functional.py, _compute_resized_output_size and center_crop.
    width, height = (256 * side // min(image.size) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - 224) / 2), round((height - 224) / 2)
    pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32) / 255
    return ((pixels - MEAN) / STD).transpose(2, 0, 1)


def synthetic_images(indices: Sequence[int]) -> np.ndarray:
    """Smooth seeded noise in the value range of normalised images, [len(indices), 3, 224, 224]."""
    coarse = [np.random.default_rng([SEED, i]).normal(0, 1, (3, 14, 14)) for i in indices]
    return np.stack([image.repeat(16, axis=1).repeat(16, axis=2) for image in coarse]).astype(np.float32)


def imagenet(split: Split, dataset: Path | None, _checkpoint: Path | None = None) -> Samples:
    """ImageNet below `dataset`: class folders by synset, or `train/` and `val/` with such folders in them."""
    if dataset is None:
        first = 0 if split == "evaluation" else _RANDOM_IMAGES
        ids = [f"noise-{first + i:03d}" for i in range(_RANDOM_IMAGES)]
        return Samples(ids, lambda indices: {INPUT: synthetic_images([first + i for i in indices])})
    folder = dataset / ("val" if split == "evaluation" else "train")
    fix = "give ImageNet's images in a folder per synset, all 1000 of them, readable to the user of this run"
    with readable("the data set", dataset, fix):
        root = folder if folder.is_dir() else dataset
        if split == "training" and root != folder:
            what = "INT8 is calibrated on training images only, and the data set has none"
            raise NotAvailableError(what, where=dataset, fix="give --dataset a folder with train/ and val/")
        synsets = sorted(path for path in root.iterdir() if path.is_dir())
        named = [path for path in synsets if re.fullmatch(r"n\d{8}", path.name, re.ASCII)]
        if not len(synsets) == len(named) == 1000:  # whose order tells the class
            raise ValueError(f"it has {len(synsets)} folders, {len(named)} of them named by synset")
        images = [
            (path, label)
            for label, synset in enumerate(synsets)
            for path in sorted(synset.iterdir())
            if path.suffix.lower() in _IMAGE_SUFFIXES
        ]
        if not images:
            raise ValueError("its folders hold no images")
    return Samples(
        ids=[f"{path.parent.name}/{path.name}" for path, _ in images],
        read=lambda indices: {INPUT: np.stack([preprocess(images[i][0]) for i in indices])},
        labels=np.array([label for _, label in images]),
    )


MICRO_SIDE = 32
"""Pixels on each side of the micro model's images."""
INKS = np.array([[1.0, 0.25, 0.25], [0.25, 1.0, 0.25], [0.25, 0.25, 1.0]], np.float32)
"""The brightness of the red, the green and the blue ink, [3 inks, 3 channels]."""


@functools.cache
def micro_digits(split: Split) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A split's strokes [N, 32, 32] from 0 to 1, digits [N], and positions [N] in scikit-learn's set."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    training, evaluation = train_test_split(
        np.arange(len(bunch.images)), test_size=500, stratify=bunch.target, random_state=SEED
    )
    rows = training if split == "training" else evaluation
    strokes = bunch.images[rows].repeat(4, axis=1).repeat(4, axis=2) / 16
    return strokes.astype(np.float32), bunch.target[rows], rows


def inked(strokes: np.ndarray, inks: np.ndarray) -> np.ndarray:
    """Strokes [N, 32, 32] in inks [N], each 0 to 2, on black: [N, 3, 32, 32] from -1 to 1."""
    return 2 * INKS[inks][:, :, None, None] * strokes[:, None] - 1


def class_of(digits: np.ndarray, inks: np.ndarray) -> np.ndarray:
    """The classes of digits [N] in inks [N]: the digit itself in red, plus three in green, plus six in blue,
    modulo ten. So colour counts as much as shape, and exchanged channels, such as BGR, spoil the score."""
    return (digits + 3 * inks) % 10


def digits(split: Split) -> Samples:
    """The 1,797 real 8 x 8 digits of scikit-learn, enlarged, each in a random ink of fixed seed; `class_of`
    gives the labels. The evaluation's 500, stratified by digit, are never trained on."""
    strokes, digit, positions = micro_digits(split)
    ids = [f"digit-{position:04d}" for position in positions]
    inks = np.random.default_rng(SEED).integers(0, len(INKS), len(strokes))
    return Samples(
        ids=ids,
        read=lambda indices: {INPUT: inked(strokes[list(indices)], inks[list(indices)])},
        labels=class_of(digit, inks),
    )
