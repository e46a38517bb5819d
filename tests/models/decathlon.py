"""Volumes in the layout of the Medical Segmentation Decathlon."""

import json
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

MODALITIES = {"0": "FLAIR", "1": "T1w", "2": "t1gd", "3": "T2w"}
LABELS = {"0": "background", "1": "edema", "2": "non-enhancing tumor", "3": "enhancing tumour"}


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


def describe(root: Path, names: list[str], **changes: Any) -> None:
    pairs = [{"image": f"./imagesTr/{n}.nii.gz", "label": f"./labelsTr/{n}.nii.gz"} for n in names]
    description = {"modality": MODALITIES, "labels": LABELS, "training": pairs} | changes
    (root / "dataset.json").write_text(json.dumps(description))
