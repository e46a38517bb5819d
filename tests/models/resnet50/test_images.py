"""ImageNet as ResNet50 sees it: which images count, how they are cut, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fixtures.errors import InputError, NotAvailableError
from fixtures.models import resnet50
from fixtures.models.resnet50 import samples as samples_of


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """A folder in ImageNet's layout: 1000 synsets, five images in two of them."""
    for number in range(1000):
        (tmp_path / f"n{number:08d}").mkdir()
    for number, synset in enumerate((3, 3, 3, 998, 998)):
        pixels = np.random.default_rng(number).integers(0, 256, (300 + number, 260, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"n{synset:08d}" / f"image_{number}.png")
    return tmp_path


def test_every_image_counts_and_is_labelled_by_its_synset(imagenet: Path) -> None:
    samples = resnet50.imagenet("evaluation", imagenet)
    assert len(samples) == 5
    assert samples.labels is not None
    assert samples.labels.tolist() == [3, 3, 3, 998, 998]
    assert samples.ids[3] == "n00000998/image_3.png"
    assert samples.load([4, 0])[resnet50.INPUT].shape == (2, 3, 224, 224)


def test_train_and_val_are_told_apart(imagenet: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("both")
    (root / "val").symlink_to(imagenet)
    assert len(resnet50.imagenet("evaluation", root)) == 5
    with pytest.raises(NotAvailableError, match="calibrated on training images only"):
        resnet50.imagenet("training", root)


def test_preprocessing_is_resize_256_crop_224_and_normalisation(tmp_path: Path) -> None:
    # A grey image stays grey, so only the arithmetic of the values is left.
    Image.new("L", (500, 400), 128).save(tmp_path / "grey.png")
    pixels = samples_of.preprocess(tmp_path / "grey.png")
    assert pixels.shape == (3, 224, 224)
    assert pixels.dtype == np.float32
    np.testing.assert_allclose(
        pixels[:, 0, 0], (128 / 255 - np.array([0.485, 0.456, 0.406])) / [0.229, 0.224, 0.225], rtol=1e-5
    )


# Width and height of an image, to which torchvision resizes it, and where it begins to crop: int(256 * long / short)
# for the longer side, int(round((side - 224) / 2.0)) for the margin, where Python rounds a half to the even number
# (torchvision/transforms/functional.py, _compute_resized_output_size and center_crop; 0.9.0, which NVIDIA's container
# 21.03 has, writes the first in functional_pil.py, resize).
CROPS = [
    ((500, 375), (341, 256), (58, 16)),
    ((375, 500), (256, 341), (16, 58)),
    ((500, 333), (384, 256), (80, 16)),
    ((500, 334), (383, 256), (80, 16)),
    ((500, 332), (385, 256), (80, 16)),
    ((334, 500), (256, 383), (16, 80)),
    ((640, 427), (383, 256), (80, 16)),
    ((500, 400), (320, 256), (48, 16)),
    ((1600, 1065), (384, 256), (80, 16)),
    ((256, 343), (256, 343), (16, 60)),
    ((300, 200), (384, 256), (80, 16)),
    ((120, 90), (341, 256), (58, 16)),
]


@pytest.mark.parametrize(("size", "resized", "first"), CROPS, ids=str)
def test_a_crop_is_torchvisions_to_the_pixel(
    size: tuple[int, int], resized: tuple[int, int], first: tuple[int, int], tmp_path: Path
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    image = Image.fromarray(pixels)
    image.save(tmp_path / "noise.png")
    found = (
        samples_of.preprocess(tmp_path / "noise.png").transpose(1, 2, 0) * samples_of.STD + samples_of.MEAN
    )
    left, top = first
    box = (left, top, left + 224, top + 224)
    expected = image.resize(resized, Image.Resampling.BILINEAR).crop(box)
    np.testing.assert_allclose(found * 255, np.asarray(expected), atol=1e-3)


@pytest.mark.parametrize("layout", ["empty", "flat", "no images", "a subset", "numbers"])
def test_a_folder_that_is_not_imagenet_is_refused(layout: str, tmp_path: Path) -> None:
    if layout == "flat":
        Image.new("RGB", (10, 10)).save(tmp_path / "a.jpeg")
    for number in range({"no images": 1000, "a subset": 10}.get(layout, 0)):
        (tmp_path / f"n{number:08d}").mkdir()
    for number in range(1000 if layout == "numbers" else 0):  # in the order of their names 10 comes before 2
        (tmp_path / str(number)).mkdir()
    with pytest.raises(InputError) as raised:
        resnet50.imagenet("evaluation", tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert "fix:" in str(raised.value)


def test_a_picture_of_more_than_eight_bits_is_refused(tmp_path: Path) -> None:
    """All that is brighter than 255 of 65,535 would be white."""
    Image.fromarray(np.full((300, 300), 1000, np.uint16)).save(tmp_path / "grey.png")
    with pytest.raises(InputError, match="have more than eight bits") as raised:
        samples_of.preprocess(tmp_path / "grey.png")
    assert str(tmp_path / "grey.png") in str(raised.value)
