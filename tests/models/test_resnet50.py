"""ResNet50 v1.5: its arithmetic, checkpoint layouts and ImageNet preprocessing."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.helpers import present
from tests.models import nvidia_checkpoints
from tests.models.nvidia_checkpoints import saved
from tritonproof.base.errors import InputError, NotAvailableError
from tritonproof.data import images
from tritonproof.models import resnet50


def test_network_matches_recorded_outputs(tmp_path: Path) -> None:
    state = nvidia_checkpoints.drawn(nvidia_checkpoints.layout("resnet50"), gain=2**0.5)
    # 64 x 64 pixels leave 2 x 2 before the mean, enough to check the arithmetic.
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    network = resnet50.load_full(saved(state, tmp_path / "x.pt")).network
    with torch.inference_mode():
        nvidia_checkpoints.assert_recorded(network(x)[:, ::50], "resnet50")


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """A folder in ImageNet's layout: 1000 synsets, five images in two of them."""
    for number in range(1000):
        (tmp_path / f"n{number:08d}").mkdir()
    for number, synset in enumerate((3, 3, 3, 998, 998)):
        pixels = np.random.default_rng(number).integers(0, 256, (300 + number, 260, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"n{synset:08d}" / f"image_{number}.png")
    return tmp_path


def test_every_image_is_labelled_by_its_synset(imagenet: Path) -> None:
    samples = images.imagenet("evaluation", imagenet)
    assert len(samples) == 5
    assert present(samples.labels).tolist() == [3, 3, 3, 998, 998]
    assert samples.ids[3] == "n00000998/image_3.png"
    assert samples.read([4, 0])[images.INPUT].shape == (2, 3, 224, 224)


def test_train_and_val_are_distinguished(imagenet: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("both")
    (root / "val").symlink_to(imagenet)
    assert len(images.imagenet("evaluation", root)) == 5
    with pytest.raises(NotAvailableError):
        images.imagenet("training", root)


# Width and height of an image, to which torchvision resizes it, and where it begins to crop: int(256 * long /
# short) for the longer side, int(round((side - 224) / 2.0)) for the margin, where Python rounds halves to
# even (torchvision/transforms/functional.py, _compute_resized_output_size and center_crop; the first is in
# functional_pil.py, resize, in 0.9.0, which NVIDIA's container 21.03 has).
CROPS = [
    ((500, 375), (341, 256), (58, 16)),
    ((375, 500), (256, 341), (16, 58)),
    ((500, 333), (384, 256), (80, 16)),
    ((334, 500), (256, 383), (16, 80)),
    ((256, 343), (256, 343), (16, 60)),
]


@pytest.mark.parametrize(("size", "resized", "first"), CROPS, ids=str)
def test_crop_matches_torchvision_and_is_normalized(
    size: tuple[int, int], resized: tuple[int, int], first: tuple[int, int], tmp_path: Path
) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8))
    image.save(tmp_path / "noise.png")
    pixels = images.preprocess(tmp_path / "noise.png")
    left, top = first
    expected = image.resize(resized, Image.Resampling.BILINEAR).crop((left, top, left + 224, top + 224))
    normalized = (np.asarray(expected) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(pixels, normalized.transpose(2, 0, 1), atol=1e-4)


@pytest.mark.parametrize("layout", ["empty", "flat", "no images", "a subset", "numbers"])
def test_non_imagenet_folder_is_refused(layout: str, tmp_path: Path) -> None:
    if layout == "flat":
        Image.new("RGB", (10, 10)).save(tmp_path / "a.jpeg")
    for number in range({"no images": 1000, "a subset": 10}.get(layout, 0)):
        (tmp_path / f"n{number:08d}").mkdir()
    for number in range(1000 if layout == "numbers" else 0):  # in the order of their names 10 comes before 2
        (tmp_path / str(number)).mkdir()
    with pytest.raises(InputError, check=lambda error: error.where == str(tmp_path)):
        images.imagenet("evaluation", tmp_path)


def test_picture_beyond_eight_bits_is_refused(tmp_path: Path) -> None:
    """Everything above 255 of 65,535 would turn white."""
    path = tmp_path / "grey.png"
    Image.fromarray(np.full((300, 300), 1000, np.uint16)).save(path)
    with pytest.raises(InputError, check=lambda error: error.where == str(path)):
        images.preprocess(path)
