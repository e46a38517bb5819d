"""A small network in PyTorch and its samples, for the tests of several formats."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from fixtures.spec import Samples, Split


class Small(nn.Module):
    """A convolution with BatchNorm, and a linear layer, for the formats to fold, fuse and quantise."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 8 * 8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.conv.weight.dtype)
        return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1)).float()


def samples_of(split: Split, _dataset: Path | None = None, _checkpoint: Path | None = None) -> Samples:
    seed = 0 if split == "training" else 1
    values = np.random.default_rng(seed).normal(0, 1, (40, 3, 8, 8)).astype(np.float32)
    return Samples([f"{split}-{i}" for i in range(40)], lambda indices: {"x": values[list(indices)]})
