"""Brain tumours of the Medical Segmentation Decathlon: which cases count, when they are read, and what is refused."""

import gzip
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pytest
from sklearn.model_selection import KFold

from fixtures.data.brains import brats
from fixtures.errors import InputError
from fixtures.models import nnunet
from fixtures.spec import Arrays
from tests.models.decathlon import LABELS, describe, volume, write

FULL, _ = nnunet.MODELS


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


def test_fold_two_of_five_is_evaluated_and_the_rest_calibrates(decathlon: Path) -> None:
    training, evaluation = (nnunet.tumours(split, decathlon).ids for split in ("training", "evaluation"))
    names = [f"BRATS_{number:03d}" for number in range(1, 11)]
    _, chosen = list(KFold(5, shuffle=True, random_state=12345).split(names))[2]
    assert list(evaluation) == [names[i] for i in chosen]
    assert sorted([*training, *evaluation]) == names


def test_cases_are_read_when_they_are_asked_for_and_their_labels_are_small(decathlon: Path) -> None:
    contents = {file: file.read_bytes() for file in decathlon.glob("*/*.nii.gz")}
    for file in contents:
        file.write_bytes(b"not read yet")
    samples = nnunet.tumours("evaluation", decathlon)
    for file, content in contents.items():
        file.write_bytes(content)
    images = samples.load([1, 0])[nnunet.INPUT]
    assert images.shape == (2, 4, 128, 128, 128)
    assert images.dtype == np.float32
    assert [label.dtype for label in samples.labels] == [np.uint8, np.uint8]
    image, label = brats.prepare(brats.patients(decathlon, "evaluation")[1])
    np.testing.assert_array_equal(images[0], image)
    np.testing.assert_array_equal(samples.labels[1], label)
    kept: Arrays = {"classes": np.stack([samples.labels[0], np.zeros_like(label)])}
    assert FULL.metrics[0].score(kept, samples.labels, kept).tolist() == [1, 0]


def broken(change: Callable[[Path], object], root: Path) -> str:
    change(root)

    def use() -> None:
        samples = nnunet.tumours("evaluation", root)
        samples.load(range(len(samples)))

    with pytest.raises(InputError) as raised:
        use()
    assert str(root) in str(raised.value)
    assert "fix:" in str(raised.value)
    return str(raised.value)


def each(folder: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Changes what is in the files of a folder of the data set."""

    def spoil(root: Path) -> None:
        for file in (root / folder).iterdir():
            file.write_bytes(change(file.read_bytes()))

    return spoil


def anew(
    folder: str, voxels: Callable[[tuple[int, ...]], np.ndarray], z_mm: float = 1
) -> Callable[[Path], None]:
    """Writes the volumes of a folder of the data set anew, each from the shape that it had."""

    def spoil(root: Path) -> None:
        for file in (root / folder).iterdir():
            write(file, voxels(nibabel.load(file).shape), (1, 1, z_mm))  # type: ignore[attr-defined]

    return spoil


PROBLEMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no description": (lambda root: (root / "dataset.json").unlink(), "no dataset.json"),
    "not JSON": (lambda root: (root / "dataset.json").write_text("{"), "cannot be read"),
    "no cases": (lambda root: (root / "dataset.json").write_text("{}"), "cannot be read"),
    "another task": (
        lambda root: describe(root, [], modality={"0": "CT"}),
        "modality is {'0': 'CT'}; published is {'0': 'FLAIR'",
    ),
    "modalities in another order": (
        lambda root: describe(root, [], modality={"0": "T1w", "1": "FLAIR", "2": "t1gd", "3": "T2w"}),
        "modality is {'0': 'T1w'",
    ),
    "labels in another order": (
        lambda root: describe(root, [], labels=dict(zip("1032", LABELS.values(), strict=True))),
        "labels is {",
    ),
    "too few": (lambda root: describe(root, ["BRATS_001"]), "1 cases, fewer than folds"),
    "a missing label": (
        lambda root: (root / "labelsTr/BRATS_004.nii.gz").unlink(),
        "label of a case in dataset.json cannot be read: there is no such file",
    ),
    "a missing image": (
        lambda root: (root / "imagesTr/BRATS_004.nii.gz").unlink(),
        "image of a case in dataset.json cannot be read: there is no such file",
    ),
    "an image twice": (
        lambda root: describe(root, [*(f"BRATS_{number:03d}" for number in range(1, 7)), "BRATS_002"]),
        "training[6] pairs the image BRATS_002.nii.gz",
    ),
    "another's label": (
        lambda root: describe(
            root,
            [],
            training=[
                {"image": f"imagesTr/BRATS_00{n}.nii.gz", "label": "labelsTr/BRATS_001.nii.gz"}
                for n in range(1, 6)
            ],
        ),
        "training[1] pairs the image BRATS_002.nii.gz with the label BRATS_001.nii.gz",
    ),
    "many modalities": (
        anew("imagesTr", lambda _shape: np.ones((5, 5, 5, 5), np.float32)),
        "5 x 5 x 5 x 5 voxels; at most 320 on each side, and 4 modalities",
    ),
    "truncated": (each("imagesTr", lambda file: file[:-400]), "truncated or not NIfTI"),
    "cut inside": (
        each("imagesTr", lambda file: gzip.compress(gzip.decompress(file)[:-400])),
        "truncated or not NIfTI",
    ),
    "damaged": (
        each("imagesTr", lambda file: file[:200] + b"\xff" * 50 + file[250:]),
        "truncated or not NIfTI",
    ),
    "not NIfTI": (each("imagesTr", lambda _file: b"no volume"), "truncated or not NIfTI"),
    "three modalities": (
        anew("imagesTr", lambda _shape: np.ones((5, 5, 5, 3), np.float32)),
        "expected x, y, z and 4 modalities",
    ),
    "a label of another shape": (
        anew("labelsTr", lambda _shape: np.zeros((5, 5, 5), np.uint8)),
        "a label is of shape (5, 5, 5)",
    ),
    "a label out of range": (
        anew("labelsTr", lambda shape: np.full(shape, 4, np.uint8)),
        "other values than 0 to 3",
    ),
    "no foreground": (anew("imagesTr", lambda shape: np.zeros(shape, np.float32)), "empty"),
    "other voxels": (
        anew("imagesTr", lambda shape: np.ones(shape, np.float32), z_mm=4),
        "voxels of 4 x 1 x 1 mm",
    ),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_data_set_that_does_not_fit_is_refused(problem: str, decathlon: Path) -> None:
    change, expected = PROBLEMS[problem]
    assert expected in broken(change, decathlon)
