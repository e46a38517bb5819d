"""An input that a configuration calls optional may really be left out: it is tried before anything is measured."""

from typing import Any

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.serve.found_samples import sized
from fixtures.spec import Arrays, Model, Tensor
from fixtures.user_models.existing import declared
from fixtures.user_models.repository import FoundModel

INPUTS = (Tensor("IN", "FP32", (2,)), Tensor("MORE", "FP32", (2,), optional=True))


class Asked:
    """A server's model that notes which inputs it gets, and refuses requests without one of them."""

    def __init__(self, needed: str) -> None:
        self.needed, self.got = needed, set[frozenset[str]]()

    def infer(self, _name: str, _model: Model, rows: Arrays) -> dict[str, Any]:
        self.got.add(frozenset(rows))
        if self.needed not in rows:
            raise ProofError(f"a request failed: no {self.needed}")
        return {"OUT": np.full((1, 2), len(rows) - 1, np.float32)}

    def is_live(self) -> bool:
        return True


def model() -> Model:
    found = declared(FoundModel("adder", None, None))
    return Model(**{**vars(found), "inputs": INPUTS, "outputs": (Tensor("OUT", "FP32", (2,)),)})


def test_a_request_goes_with_and_one_without_the_optional_inputs() -> None:
    server = Asked("IN")

    found = sized(server, model(), None)  # type: ignore[arg-type]

    assert found.first is not None
    assert found.first["OUT"].tolist() == [[1.0, 1.0]], "the first answer is kept, with all inputs"
    assert server.got == {frozenset({"IN", "MORE"}), frozenset({"IN"})}


def test_an_optional_input_that_is_needed_is_a_fault_of_the_model() -> None:
    with pytest.raises(ProofError, match=r"without its optional inputs \(MORE\)"):
        sized(Asked("MORE"), model(), None)  # type: ignore[arg-type]
