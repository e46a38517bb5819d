"""Mel spectrograms whose frames have one value in all bands."""

import numpy as np


def mel_of(*values: float) -> np.ndarray:
    return np.repeat(np.array([values], np.float32), 80, axis=0)
