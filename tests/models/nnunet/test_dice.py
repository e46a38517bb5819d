"""Mean Dice over the foreground classes, absent ones among them."""

import numpy as np
import pytest

from fixtures.models import nnunet


def dice_by_sets(prediction: np.ndarray, truth: np.ndarray) -> float:
    """Mean Dice over sets of voxels, written apart from the product."""
    scores = []
    for number in (1, 2, 3):
        found, wanted = (set(np.flatnonzero(volume == number)) for volume in (prediction, truth))
        size = len(found) + len(wanted)
        scores.append(2 * len(found & wanted) / size if size else 1.0)
    return sum(scores) / 3


@pytest.mark.parametrize("absent", [(), (1,), (2,), (3,), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("where", ["truth", "prediction", "both"])
def test_dice_is_that_of_an_independent_implementation(where: str, absent: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    prediction, truth = random.integers(0, 4, (2, 9, 8, 7)).astype(np.uint8)
    for volume in {"truth": [truth], "prediction": [prediction], "both": [truth, prediction]}[where]:
        volume[np.isin(volume, absent)] = 0
    assert nnunet.mean_dice(prediction, truth) == pytest.approx(dice_by_sets(prediction, truth), abs=1e-12)


def test_an_absent_class_counts_one_where_it_is_not_found_and_nothing_where_it_is() -> None:
    empty, one = np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8)
    one[0, 0, 0] = 3
    assert nnunet.mean_dice(empty, empty) == 1
    assert nnunet.mean_dice(one, empty) == pytest.approx(2 / 3)
    assert nnunet.mean_dice(empty, one) == pytest.approx(2 / 3)
    assert nnunet.mean_dice(one, one) == 1
