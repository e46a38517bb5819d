"""Mean Dice over the foreground classes, absent ones among them."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from fixtures.errors import AccuracyError
from fixtures.models import nnunet


@pytest.mark.parametrize("absent", [(), (1,), (2,), (3,), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("where", ["truth", "prediction", "both"])
def test_dice_is_the_f1_score_of_scikit_learn(where: str, absent: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    prediction, truth = random.integers(0, 4, (2, 9, 8, 7)).astype(np.uint8)
    for volume in {"truth": [truth], "prediction": [prediction], "both": [truth, prediction]}[where]:
        volume[np.isin(volume, absent)] = 0
    expected = f1_score(truth.ravel(), prediction.ravel(), labels=[1, 2, 3], average="macro", zero_division=1)
    assert nnunet.mean_dice(prediction, truth) == pytest.approx(expected, abs=1e-12)


def test_an_absent_class_counts_one_where_it_is_not_found_and_nothing_where_it_is() -> None:
    empty, one = np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8)
    one[0, 0, 0] = 3
    assert nnunet.mean_dice(empty, empty) == 1
    assert nnunet.mean_dice(one, empty) == pytest.approx(2 / 3)
    assert nnunet.mean_dice(empty, one) == pytest.approx(2 / 3)
    assert nnunet.mean_dice(one, one) == 1


@pytest.mark.parametrize("wrong", [-1, 4, 256, 257])
def test_a_voxel_of_no_class_is_no_answer_and_never_another_class(wrong: int) -> None:
    classes = np.ones((2, 4, 4, 4), np.int64)
    kept = nnunet.MODELS[0].keep({nnunet.OUTPUT: classes})["classes"]
    assert (kept == classes).all()

    classes[1, 2, 3, 0] = wrong
    with pytest.raises(AccuracyError) as raised:
        nnunet.MODELS[0].keep({nnunet.OUTPUT: classes})
    assert nnunet.OUTPUT in raised.value.where
