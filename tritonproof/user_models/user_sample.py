"""A sample of the user's, from any kind of file, and whether its shape fits what a model declares."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritonproof.safe_io.files import shown

ANY = -1
"""The declared length of a dimension that may have any."""


@dataclass(frozen=True)
class UserSample:
    """One row of the model's inputs, in a file that is read only when needed."""

    id: str
    """The sample's name: its file's without the suffix, and a number where the file has several samples."""
    where: str
    """The file, and the place in it, for errors."""
    shapes: Mapping[str, tuple[int, ...]]
    """The shape of the row in each input, by the input's name."""
    read: Callable[[], Mapping[str, Any]]
    """Reads the row: each input's values by its name, in the shapes above."""


def in_memory(sample_id: str, where: str, row: Mapping[str, np.ndarray]) -> UserSample:
    """A sample whose values are read already."""
    return UserSample(sample_id, where, {name: values.shape for name, values in row.items()}, lambda: row)


def fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    """Whether a row of this shape fits an input's declared shape, in which -1 is any length."""
    return len(shape) == len(declared) and all(
        side in (ANY, length) for length, side in zip(shape, declared, strict=True)
    )


def shape_text(shape: Sequence[int]) -> str:
    """A shape as errors show it: 3 x any x 224."""
    return shown(" x ".join("any" if length == ANY else str(length) for length in shape)) or "a single value"
