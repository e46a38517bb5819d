"""How a brain tumour's volume becomes the network's input: cropped, normalised, turned and padded."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fixtures.data.brains import brats
from fixtures.errors import InputError
from tests.models.decathlon import volume, write


def prepared(root: Path, image: np.ndarray, label: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    write(root / "image.nii.gz", image)
    write(root / "label.nii.gz", label)
    return brats.prepare(brats.Patient("a", root / "image.nii.gz", root / "label.nii.gz"), size)


def test_preparation_crops_to_the_foreground_normalises_and_turns_the_axes_to_z_y_x(tmp_path: Path) -> None:
    image, label = volume(0, (6, 7, 9))
    found, classes = prepared(tmp_path, image, label, 16)
    inner = image[1:-1, 1:-1, 1:-1].transpose(3, 2, 1, 0).astype(np.float64)
    expected = (inner - inner.mean((1, 2, 3), keepdims=True)) / inner.std((1, 2, 3), keepdims=True)
    # 7 x 5 x 4 voxels in 16 x 16 x 16: an odd rest goes behind.
    box = (slice(4, 11), slice(5, 10), slice(6, 10))
    np.testing.assert_allclose(found[:, *box], expected, atol=1e-5)
    np.testing.assert_array_equal(classes[box], label[1:-1, 1:-1, 1:-1].T)
    assert not found[:, 11:].any()
    assert np.abs(found).sum() == pytest.approx(np.abs(expected).sum(), rel=1e-5)


def test_air_inside_the_crop_counts_in_the_normalisation(tmp_path: Path) -> None:
    image, label = volume(0, (6, 6, 6))
    image[2:4, 2:4, 2:4] = 0
    found, _ = prepared(tmp_path, image, label, 4)
    assert found.mean((1, 2, 3)) == pytest.approx(0, abs=1e-5)
    assert found.std((1, 2, 3)) == pytest.approx(1, abs=1e-5)


def test_what_is_larger_is_cropped_about_the_centre(tmp_path: Path) -> None:
    image = np.ones((8, 8, 13, 4), np.float32)
    image[..., 0] = np.arange(13)[None, None] + 1
    label = np.zeros((8, 8, 13), np.uint8)
    label[2:6, 2:6, 5:9] = 2  # 13 - 4 leaves 9 voxels: five before, four behind
    found, classes = prepared(tmp_path, image, label, 4)
    assert (classes == 2).all()
    expected = (np.arange(13) - 6) / np.arange(13).std()
    np.testing.assert_allclose(found[0, :, 0, 0], expected[5:9], atol=1e-5)


@pytest.mark.parametrize("kind", ["image", "label"])
@pytest.mark.parametrize(
    "damaged",
    [
        lambda content: content[:-3],
        lambda content: content[:-8],
        lambda content: content[:-8] + bytes(4) + content[-4:],
        lambda content: content[:-4] + bytes(4),
        lambda content: content + b"more",
        lambda content: content + gzip.compress(bytes(10**8)),
        lambda content: gzip.compress(gzip.decompress(content) + b"\0"),
    ],
    ids=[
        "cut",
        "no trailer",
        "another checksum",
        "another length",
        "garbage behind",
        "bomb behind",
        "a byte behind",
    ],
)
def test_a_gzipped_volume_that_does_not_end_as_it_should_is_refused(
    tmp_path: Path, kind: str, damaged: Callable[[bytes], bytes]
) -> None:
    prepared(tmp_path, *volume(0, (6, 7, 9)), 16)
    file = tmp_path / f"{kind}.nii.gz"
    file.write_bytes(damaged(file.read_bytes()))

    with pytest.raises(InputError, match="truncated or not NIfTI, cannot be read") as raised:
        brats.prepare(brats.Patient("a", tmp_path / "image.nii.gz", tmp_path / "label.nii.gz"), 16)
    assert str(file) in str(raised.value)
