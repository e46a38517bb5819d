"""nnU-Net: its arithmetic, checkpoints, mean Dice, and brain tumours of the Medical Segmentation Decathlon."""

import json
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold

from tests.models import nvidia_checkpoints
from tritonproof.base.errors import AccuracyError, InputError
from tritonproof.data import brats
from tritonproof.models import nnunet
from tritonproof.spec import Arrays

FULL, _ = nnunet.MODELS
Damage = Callable[[Path], object]


def test_lightning_checkpoint_matches_recorded_outputs(tmp_path: Path) -> None:
    state = nvidia_checkpoints.drawn(nvidia_checkpoints.layout("nnunet"))
    weights = nnunet.load_full(nvidia_checkpoints.lightning(state, tmp_path / "fold2.ckpt"))
    # Small enough for a test; leaves the bottleneck 2 x 1 x 1, the least that can be normalised.
    x = torch.randn(1, 4, 64, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        logits, classes = weights.network.logits(x), weights.network(x)
    nvidia_checkpoints.assert_recorded(logits[0, :, 5::21, 3::11, 3::11], "nnunet")
    assert classes.dtype == torch.int64
    assert torch.equal(classes, logits.argmax(dim=1))


@pytest.mark.parametrize("absent", [(), (2,), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("where", ["truth", "prediction", "both"])
def test_dice_matches_f1_of_scikit_learn(where: str, absent: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    prediction, truth = random.integers(0, 4, (2, 9, 8, 7)).astype(np.uint8)
    for volume in {"truth": [truth], "prediction": [prediction], "both": [truth, prediction]}[where]:
        volume[np.isin(volume, absent)] = 0
    expected = f1_score(truth.ravel(), prediction.ravel(), labels=[1, 2, 3], average="macro", zero_division=1)
    assert nnunet.mean_dice(prediction, truth) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("wrong", [-1, 4, 256, 257])
def test_voxel_outside_of_all_classes_is_an_error(wrong: int) -> None:
    classes = np.ones((2, 4, 4, 4), np.int64)
    kept = FULL.keep({nnunet.OUTPUT: classes})["classes"]
    assert (kept == classes).all()
    classes[1, 2, 3, 0] = wrong
    with pytest.raises(AccuracyError, check=lambda error: nnunet.OUTPUT in error.where):
        FULL.keep({nnunet.OUTPUT: classes})


def volume(seed: int, shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """An image with axes x, y, z, modality and a label, within a margin of one voxel of air."""
    random = np.random.default_rng(seed)
    image = np.zeros((*shape, 4), np.float32)
    image[1:-1, 1:-1, 1:-1] = random.integers(1, 900, (*(n - 2 for n in shape), 4))
    label = np.zeros(shape, np.uint8)
    label[1:-1, 1:-1, 1:-1] = random.integers(0, 4, [n - 2 for n in shape])
    return image, label


def write(path: Path, voxels: np.ndarray, spacing_mm: tuple[float, float, float] = (1, 1, 1)) -> None:
    path.parent.mkdir(exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(voxels, np.diag((*spacing_mm, 1))), path)


def describe(root: Path, names: list[str]) -> None:
    pairs = [{"image": f"./imagesTr/{n}.nii.gz", "label": f"./labelsTr/{n}.nii.gz"} for n in names]
    (root / "dataset.json").write_text(json.dumps({"training": pairs}))


@pytest.fixture
def decathlon(tmp_path: Path) -> Path:
    """Ten cases in the data set's layout, of different sizes, named out of order."""
    names = [f"BRATS_{number:03d}" for number in (7, 1, 10, 3, 2, 9, 4, 8, 5, 6)]
    for name in names:
        number = int(name[-3:])
        image, label = volume(number, (6 + number, 9, 12))
        write(tmp_path / "imagesTr" / f"{name}.nii.gz", image)
        write(tmp_path / "labelsTr" / f"{name}.nii.gz", label)
    describe(tmp_path, names)
    return tmp_path


def test_second_fold_is_evaluated_and_others_calibrate(decathlon: Path) -> None:
    training, evaluation = (nnunet.tumours(split, decathlon).ids for split in ("training", "evaluation"))
    names = [f"BRATS_{number:03d}" for number in range(1, 11)]
    _, chosen = list(KFold(5, shuffle=True, random_state=12345).split(names))[2]
    assert list(evaluation) == [names[i] for i in chosen]
    assert sorted([*training, *evaluation]) == names


def test_cases_are_read_lazily_with_small_labels(decathlon: Path) -> None:
    contents = {file: file.read_bytes() for file in decathlon.glob("*/*.nii.gz")}
    for file in contents:
        file.write_bytes(b"not read yet")
    samples = nnunet.tumours("evaluation", decathlon)
    for file, content in contents.items():
        file.write_bytes(content)
    images = samples.read([1, 0])[nnunet.INPUT]
    assert images.shape == (2, 4, 128, 128, 128)
    assert images.dtype == np.float32
    assert [label.dtype for label in samples.labels] == [np.uint8, np.uint8]
    image, label = brats.prepare(brats.patients(decathlon, "evaluation")[1])
    np.testing.assert_array_equal(images[0], image)
    np.testing.assert_array_equal(samples.labels[1], label)
    kept: Arrays = {"classes": np.stack([samples.labels[0], np.zeros_like(label)])}
    assert FULL.metrics[0].score(kept, samples.labels, kept).tolist() == [1, 0]


def each(folder: str, change: Callable[[bytes], bytes]) -> Damage:
    """Changes the content of every file in a folder of the data set."""

    def spoil(root: Path) -> None:
        for file in (root / folder).iterdir():
            file.write_bytes(change(file.read_bytes()))

    return spoil


def anew(folder: str, voxels: Callable[[tuple[int, ...]], np.ndarray], z_mm: float = 1) -> Damage:
    """Replaces each volume in a folder of the data set by one made from its shape."""

    def spoil(root: Path) -> None:
        for file in (root / folder).iterdir():
            write(file, voxels(nibabel.load(file).shape), (1, 1, z_mm))  # type: ignore[attr-defined]

    return spoil


PROBLEMS: dict[str, tuple[Damage, str]] = {
    "no description": (lambda root: (root / "dataset.json").unlink(), "dataset.json"),
    "too few": (lambda root: describe(root, ["BRATS_001"]), "dataset.json"),
    "no label": (lambda root: (root / "labelsTr/BRATS_004.nii.gz").unlink(), "labelsTr/BRATS_004.nii.gz"),
    "another checksum": (each("labelsTr", lambda file: file[:-8] + bytes(4) + file[-4:]), "labelsTr"),
    "five modalities": (anew("imagesTr", lambda _shape: np.ones((5, 5, 5, 5), np.float32)), "imagesTr"),
    "a label of another shape": (anew("labelsTr", lambda _shape: np.zeros((5, 5, 5), np.uint8)), "labelsTr"),
    "a label out of range": (anew("labelsTr", lambda shape: np.full(shape, 4, np.uint8)), "labelsTr"),
    "no foreground": (anew("imagesTr", lambda shape: np.zeros(shape, np.float32)), "imagesTr"),
    "infinite": (anew("imagesTr", lambda shape: np.full(shape, np.inf, np.float32)), "imagesTr"),
    "other voxels": (anew("imagesTr", lambda shape: np.ones(shape, np.float32), z_mm=4), "imagesTr"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_invalid_dataset_is_refused(problem: str, decathlon: Path) -> None:
    spoil, path = PROBLEMS[problem]
    spoil(decathlon)

    def use() -> None:
        samples = nnunet.tumours("evaluation", decathlon)
        samples.read(range(len(samples)))

    with pytest.raises(InputError, check=lambda error: error.where.startswith(str(decathlon / path))):
        use()


def prepared(root: Path, image: np.ndarray, label: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    write(root / "image.nii.gz", image)
    write(root / "label.nii.gz", label)
    return brats.prepare(brats.Patient("a", root / "image.nii.gz", root / "label.nii.gz"), size)


def test_preparation_crops_normalizes_and_transposes(tmp_path: Path) -> None:
    image, label = volume(0, (6, 7, 9))
    image[2:4, 2:4, 2:4] = 0  # air inside the crop, which counts as all else there
    normalized, classes = prepared(tmp_path, image, label, 16)
    inner = image[1:-1, 1:-1, 1:-1].transpose(3, 2, 1, 0).astype(np.float64)
    expected = (inner - inner.mean((1, 2, 3), keepdims=True)) / inner.std((1, 2, 3), keepdims=True)
    # 7 x 5 x 4 voxels in 16 x 16 x 16: an odd rest goes behind.
    box = (slice(4, 11), slice(5, 10), slice(6, 10))
    np.testing.assert_allclose([channel[box] for channel in normalized], expected, atol=1e-5)
    np.testing.assert_array_equal(classes[box], label[1:-1, 1:-1, 1:-1].T)
    assert not normalized[:, 11:].any()
    assert np.abs(normalized).sum() == pytest.approx(np.abs(expected).sum(), rel=1e-5)


def test_missing_dataset_gives_unlabelled_full_size_phantoms() -> None:
    samples = nnunet.tumours("evaluation", None)
    image = samples.read([1])[nnunet.INPUT]
    assert samples.labels is None
    assert (image.shape, image.dtype) == ((1, 4, 128, 128, 128), np.float32)
    assert image[0][:, image[0, 0] != 0].std(axis=1) == pytest.approx(1, abs=1e-3)


def test_larger_volume_is_cropped_about_its_centre(tmp_path: Path) -> None:
    image = np.ones((8, 8, 13, 4), np.float32)
    image[..., 0] = np.arange(13)[None, None] + 1
    label = np.zeros((8, 8, 13), np.uint8)
    label[2:6, 2:6, 5:9] = 2  # 13 - 4 leaves 9 voxels: five before, four behind
    normalized, classes = prepared(tmp_path, image, label, 4)
    assert (classes == 2).all()
    expected = (np.arange(13) - 6) / np.arange(13).std()
    np.testing.assert_allclose(normalized[0, :, 0, 0], expected[5:9], atol=1e-5)
