"""Which inputs are made up for a model's first request, and what is said if it refuses them; and
only the batches of a warm-up are promised to be fast."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests import toy
from tests.helpers import settings
from tests.user_models.repositories import COMPLETING, write_model
from tritonproof.base.errors import InputError, NotAvailableError, ProofError
from tritonproof.cases import cases_of
from tritonproof.host.targets import CPU
from tritonproof.run.available_models import models_of
from tritonproof.run.model_run import ModelRun, SuiteRun
from tritonproof.run.preparing import run_of_case
from tritonproof.run.repository_case import AcceptedSamples, send_first_request
from tritonproof.spec import Arrays, Model, Samples, Tensor
from tritonproof.user_models.model_from_config import as_model, warmup_batch
from tritonproof.user_models.model_repository import RepositoryEntry


class Asked:
    """A server whose model accepts only some lengths; records those of its requests."""

    def __init__(self, *taken: int) -> None:
        self.taken, self.lengths = taken, list[int]()

    def infer(self, _name: str, _model: Model, rows: Arrays) -> dict[str, Any]:
        length = rows["IN"].shape[-1]
        self.lengths.append(length)
        if length not in self.taken:
            raise ProofError(f"a request failed: {length} is no length of mine")
        return {"OUT": np.zeros((1, 2), np.float32)}

    def is_live(self) -> bool:
        return True


def ask(server: Any, *inputs: Tensor, samples: Samples | None = None) -> AcceptedSamples:
    model = as_model(RepositoryEntry("choosy", None, None))
    tensors = {"inputs": inputs, "outputs": (Tensor("OUT", "FP32", (2,)),)}
    return send_first_request(server, Model(**{**vars(model), **tensors}), samples)


def test_source_says_whose_samples_are_sent() -> None:
    samples = replace(toy.samples_of({"IN": np.zeros((2, 16), np.float32)}), source="those of the case")
    samples = replace(samples, other_shapes=[samples])
    assert ask(Asked(16), samples=samples).samples.source.startswith("those of the case, 2 of other shapes")


def test_lengths_are_tried_in_order() -> None:
    server = Asked(224)
    result = ask(server, Tensor("IN", "FP32", (-1, -1)))
    assert server.lengths == [16, 224]
    assert result.samples.read([0])["IN"].shape == (1, 224, 224)


@pytest.mark.parametrize(
    ("shape", "lengths", "error", "said"),
    [
        ((-1,) * 5, [16], NotAvailableError, "16 is no length of mine"),  # of 224 each it would take 2 TiB
        ((100_000, 100_000), [], InputError, None),
    ],
)
def test_oversized_row_is_not_tried(shape: Any, lengths: list[int], error: Any, said: Any) -> None:
    server = Asked()
    with pytest.raises(error, match=said):
        ask(server, Tensor("IN", "FP32", shape))
    assert server.lengths == lengths


def test_samples_have_inputs_that_only_the_server_adds(tmp_path: Path) -> None:
    declared = "input [{ name: 'IN', data_type: TYPE_FP32, dims: [ 3 ] }]"
    more = 'config.add_input({"name": "MASK", "data_type": "TYPE_FP32", "dims": [3]}); config.add_input'
    masked = COMPLETING.replace("config.add_input", more)
    write_model(tmp_path / "repository", "masked", masked, declared)
    (tmp_path / "samples").mkdir()
    np.savez(tmp_path / "samples" / "x.npz", IN=np.ones(3), MASK=np.zeros(3))
    options = {name: str(tmp_path / name) for name in ("repository", "results")}
    given = settings(samples=[str(tmp_path / "samples")], **options)
    with models_of(given) as available:
        (case,) = cases_of(CPU, 1, available.selectable)
        with (
            ModelRun(case.model, CPU, SuiteRun(given, available)) as shared,
            run_of_case(case, shared) as run,
        ):
            assert run.samples.read([0])["MASK"].tolist() == [[0, 0, 0]]


@pytest.mark.parametrize(
    ("warm_ups", "promised"),
    [([(4, 4), (2, 4)], 2), ([(0, 4)], 1), ([(2, 8), (4, 4)], 4), ([(1, 8)], None), ([], None)],
)
def test_warmup_promises_only_for_matching_shape(warm_ups: Any, promised: int | None) -> None:
    text = "".join(
        f"model_warmup {{ batch_size: {batch} inputs {{ key: 'IN' value {{ dims: {length} }} }} }}"
        for batch, length in warm_ups
    )
    rows = {"IN": np.zeros((1, 4), np.float32)}
    assert warmup_batch(text_format.Parse(text, ModelConfig()), rows) == promised
