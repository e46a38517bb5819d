"""The Medical Segmentation Decathlon's Task01_BrainTumour, as NVIDIA prepared it in 2021; and phantoms.

A volume is cropped to the foreground, each modality is z-scored over the crop, and the padded volume is cut
to its central 128^3 voxels. NVIDIA's code also resamples to voxels of 1 mm; all published volumes have them,
and this module refuses others.
"""

import functools
import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.safe_io.files import check_regular, read_json, readable
from tritonproof.spec import Split

SIZE = 128
MODALITIES = 4
CLASSES = 4
_FOLDS, _FOLD, _SHUFFLE = 5, 2, 12345  # NVIDIA's checkpoint is of fold 2: triton/dataloader.py
_MAX_VOXELS = 2**27
"""The most voxels of an image; the published volumes have 240 x 240 x 155 in each of four modalities."""
_FIX = "give --dataset nnunet=DIR the folder Task01_BrainTumour as it was published, unpacked"


@dataclass(frozen=True)
class Patient:
    """One patient of the data set, by two NIfTI files."""

    name: str
    """The image file's name without its endings: BRATS_001."""
    image: Path
    """Four modalities of a brain, [x, y, z, 4]."""
    label: Path
    """The label of each voxel, 0 to 3, [x, y, z]."""


def patients(folder: Path, split: Split) -> list[Patient]:
    """The patients of a split: fold 2 of five is the evaluation part, the others are the training part.
    Raises InputError if `dataset.json` or a file that it names is missing."""
    from sklearn.model_selection import KFold

    path, what = folder / "dataset.json", "the data set's description"
    description = read_json(path, what, _FIX)
    with readable(what, path, _FIX):
        pairs = [(folder / pair["image"], folder / pair["label"]) for pair in description["training"]]
        folds = list(KFold(_FOLDS, shuffle=True, random_state=_SHUFFLE).split(pairs))
    for image, label in pairs:
        for kind, file in (("image", image), ("label", label)):
            check_regular(file, f"the {kind} of a case in {path.name}", _FIX)
    labelled = [
        Patient(image.name.removesuffix(".gz").removesuffix(".nii"), image, label)
        for image, label in sorted(pairs, key=lambda pair: pair[0].name)
    ]
    training, evaluation = folds[_FOLD]
    return [labelled[i] for i in (evaluation if split == "evaluation" else training)]


class Volumes:
    """The volumes of patients, whose files are read on demand. As a sequence it holds their labels,
    [128, 128, 128] uint8. The foreground of an image also crops its label, so both are read together. Labels
    stay in memory, 2 MiB each."""

    def __init__(self, patients: Sequence[Patient]) -> None:
        self._patients = patients
        self._labels: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._patients)

    def __getitem__(self, index: int) -> np.ndarray:
        if index not in self._labels:
            self.images([index])
        return self._labels[index]

    def images(self, indices: Sequence[int]) -> np.ndarray:
        """The model's input, [len(indices), 4, 128, 128, 128] float32."""
        images = np.empty((len(indices), MODALITIES, SIZE, SIZE, SIZE), np.float32)
        for row, index in enumerate(indices):
            images[row], self._labels[index] = prepare(self._patients[index])
        return images


def prepare(patient: Patient, size: int = SIZE) -> tuple[np.ndarray, np.ndarray]:
    """A patient's image, [4, size, size, size] float32, and label, [size, size, size] uint8, axes z, y, x.

    The code follows NVIDIA DeepLearningExamples, PyTorch/Segmentation/nnUNet at 2021-05:
    data_preprocessing/preprocessor.py for training, then the central crop of triton/dataloader.py. Z-scores
    there include the air around the head; code from October 2021 on leaves the zeros out. Raises InputError
    for files that are not the published ones.
    """
    image, spacing_mm = _read(patient.image)
    label, _ = _read(patient.label)
    voxels = " x ".join(f"{mm:g}" for mm in spacing_mm)
    image_problems = {
        f"an image has voxels of {voxels} mm; the data set's are of 1 mm": spacing_mm != (1, 1, 1),
        f"an image is of shape {image.shape}, not [x, y, z, {MODALITIES}]": image.shape[3:] != (MODALITIES,),
        "an image is empty or not all finite": not (image > 0).any() or not np.isfinite(image).all(),
    }
    label_problems = {
        f"a label is of shape {label.shape}, its image of {image.shape}": label.shape != image.shape[:3],
        f"a label holds other values than 0 to {CLASSES - 1}": not np.isin(label, range(CLASSES)).all(),
    }
    for file, problems in ((patient.image, image_problems), (patient.label, label_problems)):
        for problem, applies in problems.items():
            if applies:
                raise InputError(problem, where=file, fix=_FIX)
    image, label = image.transpose(3, 2, 1, 0), label.astype(np.uint8).transpose(2, 1, 0)
    foreground = np.argwhere((image > 0).any(axis=0))
    box = tuple(map(slice, foreground.min(axis=0), foreground.max(axis=0) + 1))
    scored = [
        (crop - crop.mean(dtype=np.float64)) / (crop.std(dtype=np.float64) or 1.0)
        for crop in (modality[box] for modality in image)
    ]
    return _central(np.stack(scored).astype(np.float32), size), _central(label[box], size)


def _read(path: Path) -> tuple[np.ndarray, tuple[float, ...]]:
    """The voxels of a NIfTI file, float32, axes x, y, z (and modality), and their size z, y, x in mm."""
    import nibabel

    what = "a volume, truncated or not NIfTI,"
    unpacked: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with readable(what, path, "restore it from the data set's archive"), unpacked(path, "rb") as stream:
        file: Any = nibabel.Nifti1Image.from_stream(stream)
        if math.prod(file.shape) > _MAX_VOXELS:
            raise ValueError(f"it declares {file.shape} voxels")
        voxels: np.ndarray = file.get_fdata(dtype=np.float32, caching="unchanged")
        stream.read(1)  # nibabel stops at the last voxel, and Python compares the checksum at the end
        return voxels, tuple(float(mm) for mm in file.header["pixdim"][3:0:-1])


def _central(volume: np.ndarray, size: int) -> np.ndarray:
    """The volume, padded with zeros and cropped about its centre so that its last three axes have `size`."""
    missing = [max(0, size - side) for side in volume.shape[-3:]]
    margins = [(count // 2, count - count // 2) for count in missing]
    volume = np.pad(volume, [(0, 0)] * (volume.ndim - 3) + margins)
    # If the margin is odd, NVIDIA DALI rounds the half voxel up.
    z, y, x = ((side - size + 1) // 2 for side in volume.shape[-3:])
    return volume[..., z : z + size, y : y + size, x : x + size]


# An ellipsoid brain of two tissues has one or two lesions, each a shell of oedema around an enhancing shell
# around a core. Four modalities show the five tissues in different contrasts, blurred, biased and noisy.
_NOISE = 0.15
_OEDEMA, _CORE, _ENHANCING = 1, 2, 3  # the data set's labels
_WHITE, _GREY = 4, 5  # of the healthy brain; 0 is air
# Rows: FLAIR, T1, T1 with gadolinium, T2. Columns: air, oedema, core, enhancing, white, grey.
_CONTRAST = np.array(
    [
        [0.0, 0.95, 0.70, 0.85, 0.50, 0.60],
        [0.0, 0.45, 0.30, 0.45, 0.70, 0.55],
        [0.0, 0.45, 0.35, 0.95, 0.70, 0.55],
        [0.0, 0.90, 0.95, 0.75, 0.45, 0.60],
    ]
)


def phantom(size: int, seed: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The image, [4, size, size, size] float32, and the label, [size, size, size] uint8, that a seed gives.
    Each modality has mean 0 and standard deviation 1 inside the brain, and is 0 outside."""
    from scipy import ndimage

    random = np.random.default_rng(list(seed))
    tissue = _tissue(size, random)
    contrast = _CONTRAST * random.normal(1, 0.1, _CONTRAST.shape)
    scale = size / 32  # the blur below is for 32 voxels on a side
    image = np.empty((MODALITIES, size, size, size), np.float32)
    inside = tissue > 0
    for modality, values in enumerate(contrast):
        volume = ndimage.gaussian_filter(values[tissue].astype(np.float32), 0.6 * scale)
        volume *= 1 + 0.15 * _smooth(size, random, grid=3)
        volume += random.normal(0, _NOISE, volume.shape)
        image[modality] = np.where(inside, (volume - volume[inside].mean()) / volume[inside].std(), 0)
    return image, np.where(tissue > _ENHANCING, 0, tissue).astype(np.uint8)


def _tissue(size: int, random: np.random.Generator) -> np.ndarray:
    """The number of the tissue in each voxel: a column of the contrast table."""
    axis = (np.arange(size, dtype=np.float32) + 0.5) * (2 / size) - 1  # of the voxels' centres, from -1 to 1
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"))
    brain = _distance(grid, np.zeros(3), random.uniform(0.72, 0.92, 3), random)
    tissue = np.where(_smooth(size, random, grid=7) > 0, _GREY, _WHITE)
    tissue[brain + 0.05 * _smooth(size, random, grid=4) > 1] = 0
    for _lesion in range(random.integers(1, 3)):
        centre = random.uniform(-0.4, 0.4, 3)
        distance = _distance(grid, centre, random.uniform(0.32, 0.52, 3), random)
        distance += 0.12 * _smooth(size, random, grid=5)
        for number, radius in ((_OEDEMA, 1.0), (_ENHANCING, 0.75), (_CORE, 0.5)):
            tissue[(distance < radius * random.uniform(0.95, 1.05)) & (tissue > 0)] = number
    return tissue


def _distance(grid: np.ndarray, centre: np.ndarray, axes: np.ndarray, random: np.random.Generator) -> Any:
    """The distance of each voxel from a centre, in units of a randomly rotated ellipsoid's surface."""
    rotation, _ = np.linalg.qr(random.normal(size=(3, 3)))
    offset: np.ndarray = grid - centre[:, None, None, None].astype(np.float32)
    turned = np.tensordot(rotation.astype(np.float32), offset, 1)
    return np.sqrt(((turned / axes[:, None, None, None].astype(np.float32)) ** 2).sum(axis=0))


def _smooth(size: int, random: np.random.Generator, grid: int) -> np.ndarray:
    """Smooth noise between random values at `grid`^3 points, [size, size, size], of about -2 to 2."""
    noise = random.normal(size=(grid, grid, grid)).astype(np.float32)
    for _axis in range(3):  # each turn enlarges the first axis and makes it the last
        noise = np.tensordot(noise, _enlargement(size, grid), axes=(0, 1))
    return noise


@functools.cache
def _enlargement(size: int, grid: int) -> np.ndarray:
    """Cubic interpolation of `grid` points to `size` as a matrix: far faster than ndimage.zoom in 3D."""
    from scipy import ndimage

    identity = np.eye(grid, dtype=np.float32)
    return np.asarray(ndimage.zoom(identity, (size / grid, 1), order=3, mode="nearest", grid_mode=True))
