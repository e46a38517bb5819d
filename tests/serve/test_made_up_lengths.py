"""How long a dimension of any length is made: the first of the lengths that the model takes, and that a request can hold."""

from typing import Any

import numpy as np
import pytest

from fixtures.errors import InputError, NotAvailableError, ProofError
from fixtures.serve.found_samples import sized
from fixtures.spec import Arrays, Model, Tensor
from fixtures.user_models.existing import declared
from fixtures.user_models.repository import FoundModel


class Choosy:
    """A server's model that takes some lengths of its dimensions alone, and notes which it was asked."""

    def __init__(self, *taken: int) -> None:
        self.taken, self.asked = taken, list[int]()

    def infer(self, _name: str, _model: Model, rows: Arrays) -> dict[str, Any]:
        length = rows["IN"].shape[-1]
        self.asked.append(length)
        if length not in self.taken:
            raise ProofError(f"a request failed: {length} is no length of mine")
        return {"OUT": np.zeros((1, 2), np.float32)}

    def is_live(self) -> bool:
        return True


def model(*shape: int, dtype: str = "FP32") -> Model:
    found = declared(FoundModel("choosy", None, None))
    tensors = {"inputs": (Tensor("IN", dtype, shape),), "outputs": (Tensor("OUT", "FP32", (2,)),)}
    return Model(**{**vars(found), **tensors})


def test_the_lengths_are_tried_in_the_order_of_the_page() -> None:
    server = Choosy(1)

    found = sized(server, model(-1), None)  # type: ignore[arg-type]

    assert server.asked == [16, 224, 640, 1]
    assert found.samples.load([0])["IN"].shape == (1, 1)


def test_a_length_whose_row_no_request_holds_is_passed_over() -> None:
    """At 224 a row takes 2 TiB."""
    server = Choosy(1)

    found = sized(server, model(-1, -1, -1, -1, -1), None)  # type: ignore[arg-type]

    assert server.asked == [16, 1]
    assert found.samples.load([0])["IN"].shape == (1, 1, 1, 1, 1, 1)


def test_a_model_that_takes_no_length_says_so_in_its_own_words() -> None:
    with pytest.raises(NotAvailableError, match="16 is no length of mine"):
        sized(Choosy(), model(-1, -1, -1, -1, -1), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["FP32", "INT64"])
def test_a_row_that_is_too_large_at_any_length_is_refused(dtype: str) -> None:
    server = Choosy()

    with pytest.raises(InputError):
        sized(server, model(100_000, 100_000, dtype=dtype), None)  # type: ignore[arg-type]

    assert server.asked == []
