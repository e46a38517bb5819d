"""Is a tumour malignant? Thirty measurements of cell nuclei each, from scikit-learn's breast cancer data."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.frameworks import pytorch
from tritonproof.record.correctness import Limit
from tritonproof.spec import Arrays, FrameworkModel, Metric, NetworkModel, Samples, Split, Tensor

INPUT, OUTPUT = "measurements", "scores"
SEED = 1


def network() -> Any:
    """[N, 30] measurements to [N, 2] scores."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers(x.to(self.layers[0].weight.dtype)).float()

    return Network()


@functools.cache
def data() -> dict[Split, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Measurements, labels and row numbers of each split; a third is held out and never trained on."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    rows, labels = load_breast_cancer(return_X_y=True)
    training, evaluation = train_test_split(
        np.arange(len(rows)), test_size=1 / 3, stratify=labels, random_state=SEED
    )
    mean, deviation = rows[training].mean(axis=0), rows[training].std(axis=0)
    scaled = ((rows - mean) / deviation).astype(np.float32)
    return {
        "training": (scaled[training], labels[training], training),
        "evaluation": (scaled[evaluation], labels[evaluation], evaluation),
    }


def samples(split: Split, _dataset: Path | None, _checkpoint: Path | None) -> Samples:
    rows, labels, numbers = data()[split]
    ids = [f"tumour-{number:03d}" for number in numbers]
    return Samples(ids, lambda indices: {INPUT: rows[list(indices)]}, labels)


def load_weights(checkpoint: Path | None) -> FrameworkModel:
    """The weights of `--checkpoint NAME=FILE`, or those of the recipe below, which takes a second."""
    if checkpoint is not None:
        return pytorch.from_checkpoint(network(), checkpoint)
    import torch

    torch.manual_seed(SEED)
    model = network()
    rows, labels, _ = data()["training"]
    x, y = torch.from_numpy(rows), torch.from_numpy(labels)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    for _step in range(40):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return pytorch.own_weights(model, f"trained by recipe, seed {SEED}")


def decide(kept: Arrays) -> np.ndarray:
    return kept[OUTPUT].argmax(axis=1)


def correct(kept: Arrays, labels: np.ndarray, _framework: Arrays) -> np.ndarray:
    return (decide(kept) == labels).astype(float)


FLOOR = Limit(0.94, "recipe: the trained network reaches 96.84 %; five of 190 tumours below that")

MODELS = (
    NetworkModel(
        name="biopsy",
        inputs=(Tensor(INPUT, "FP32", (30,)),),
        outputs=(Tensor(OUTPUT, "FP32", (2,)),),
        load_weights=load_weights,
        infer=pytorch.runner(OUTPUT),
        samples=samples,
        decide=decide,
        metrics=(Metric("accuracy", correct, {"fp32": FLOOR, "fp16": FLOOR, "int8": FLOOR}),),
        defined_in=Path(__file__),
        micro=True,
    ),
)
