"""Operations per inference, against counts by hand and published counts."""

import dataclasses

import numpy as np
import pytest
import torch

from tritonproof.frameworks import count_operations
from tritonproof.models import all_models
from tritonproof.spec import Tensor


class Attention(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize(
    ("network", "shape", "expected"),
    [
        (torch.nn.Linear(7, 5), (7,), 2 * 7 * 5),
        (torch.nn.Conv2d(3, 4, 3, padding=1), (3, 6, 8), 2 * 3 * 4 * 9 * 6 * 8),
        (torch.nn.Conv1d(2, 6, 5, groups=2), (2, 20), 2 * 2 * 6 * 5 * 16 // 2),
        (Attention(), (2, 10, 16), 2 * 2 * (10 * 10 * 16) * 2),
        (torch.nn.ReLU(), (7,), None),
    ],
    ids=["linear", "convolution", "grouped", "attention", "nothing to count"],
)
def test_layer_operations_match_count_by_hand(
    network: torch.nn.Module, shape: tuple[int, ...], expected: int | None
) -> None:
    model = dataclasses.replace(
        all_models()[0],
        framework="pytorch",
        inputs=(Tensor("x", "FP32", shape),),
        infer=lambda net, arrays: {"y": net(torch.from_numpy(arrays["x"])).detach().numpy()},
    )
    assert count_operations(model, network, {"x": np.zeros((1, *shape), np.float32)}) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 4.09 billion multiplications, as published for v1.5 at 224 x 224.
        ("resnet50", 8.18e9),
        pytest.param("resnet50-tf", 8.18e9, marks=pytest.mark.campaign),
        # 4 layers of width 288, inside 1152, on 384 tokens with attention between all; two outputs per token.
        pytest.param(
            "bert-dist4l",
            2 * 384 * (4 * (4 * 288**2 + 2 * 288 * 1152 + 2 * 384 * 288) + 2 * 288),
            marks=pytest.mark.campaign,
        ),
    ],
)
def test_model_operations_match_known_counts(name: str, expected: float) -> None:
    (model,) = (candidate for candidate in all_models() if candidate.name == name)
    sample = model.samples("evaluation", None, None).read([0])
    operations = count_operations(model, model.load_weights(None).network, sample)
    assert operations == pytest.approx(expected, rel=0.0005)
