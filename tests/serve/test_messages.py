"""Tensors of every Triton type have the computed size and round trip."""

import numpy as np
import pytest
from tritonclient.utils import triton_to_np_dtype

from fixtures.serve.messages import raw_content, values_of
from fixtures.spec import Tensor

TYPES = (
    *("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    *("FP16", "BF16", "FP32", "FP64"),
)
"""Triton's types whose elements have a fixed size. Source: tritonclient.utils.triton_to_np_dtype, 2.51."""


@pytest.mark.parametrize("datatype", TYPES)
def test_tensor_types_have_computed_size_and_round_trip(datatype: str) -> None:
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(triton_to_np_dtype(datatype))

    content = raw_content(values, datatype)

    assert len(content) == 2 * Tensor("X", datatype, (3,)).row_bytes
    decoded = values_of(content, datatype, (2, 3))
    assert decoded is not None
    np.testing.assert_array_equal(decoded, values)


def test_string_size_is_at_least_its_length_prefix() -> None:
    texts = np.array([[b"", b"four"]], object)

    assert len(raw_content(texts, "BYTES")) == Tensor("X", "BYTES", (2,)).row_bytes + len(b"four")
