"""A first request is slow only if it stays slow, and only the batches of a warm-up are promised to be fast."""

from collections.abc import Sequence

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tritonproof.run.warm_up import compare_requests
from tritonproof.user_models.model_from_config import warmup_batch

LATER = [0.001] * 19 + [0.002]


@pytest.mark.parametrize(
    ("firsts", "passed", "loads"),
    [
        ([0.002], True, 1),
        ([0.004], True, 1),  # twice the slowest later one
        ([0.005, 0.001], True, 2),  # once: the machine's fault
        ([0.5, 0.5, 0.001], True, 3),
        ([0.5, 0.5, 0.005], False, 3),
    ],
)
def test_first_request_is_slow_only_after_three_loads(
    firsts: Sequence[float], passed: bool, loads: int
) -> None:
    times = iter([second for first in firsts for second in (first, *LATER)])
    loaded: list[None] = []
    result = compare_requests(lambda: loaded.append(None), lambda: next(times), 1)
    assert (result.passed, len(loaded), len(result.first_ms)) == (passed, loads, loads)
    assert result.later_ms == (2.0,) * loads
    assert next(times, None) is None


@pytest.mark.parametrize(
    ("warm_ups", "promised"),
    [([(4, 4), (2, 4)], 2), ([(0, 4)], 1), ([(2, 8), (4, 4)], 4), ([(1, 8)], None), ([], None)],
)
def test_warmup_promises_only_for_matching_shape(
    warm_ups: Sequence[tuple[int, int]], promised: int | None
) -> None:
    text = "".join(
        f"model_warmup {{ batch_size: {batch} inputs {{ key: 'IN' value {{ dims: {length} }} }} }}"
        for batch, length in warm_ups
    )
    rows = {"IN": np.zeros((1, 4), np.float32)}
    assert warmup_batch(text_format.Parse(text, ModelConfig()), rows) == promised
