"""How far answers may differ, by what a precision costs and by what answers show of theirs."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from tests import toy
from tritonproof.accuracy import limits, outputs
from tritonproof.accuracy.precision_cost import PrecisionCost
from tritonproof.accuracy.precisions import PRECISIONS
from tritonproof.accuracy.sameness import allowed_ties_per_row
from tritonproof.client.requests import Answer
from tritonproof.spec import Tensor, Tolerance


@pytest.mark.parametrize(
    ("dtype", "shown"), [(torch.float32, ""), (torch.float16, "fp16"), (torch.bfloat16, "bf16")]
)
def test_half_precision_outputs_are_recognized_by_last_bits(dtype: torch.dtype, shown: str) -> None:
    values = torch.randn(64, 8, generator=torch.Generator().manual_seed(0)).to(dtype).float().numpy()
    given = limits.AnswerLimits(limits.NumberLimits(2e-3, 2e-5))
    inferred = limits.CaseLimits(given, given, "cpu", min_noise=0.1).inferred([{"y": values}])
    assert outputs.inferred_precision([{"y": values}]) == shown
    assert (inferred == limits.CaseLimits(given, given, min_noise=0.1)) is (shown == "")
    for each in (inferred.kernels, inferred.conversion):
        assert each.widest.max_element == max(2e-3, 10 * PRECISIONS[shown or "fp32"].unknown_mean)


def test_given_tolerance_holds_whatever_answers_show() -> None:
    for is_given, *of_case in ((False, "cpu", limits.CaseLimits.min_noise), (True, None, 1e-4)):
        tolerance = Tolerance(1e-4, 1.0, "given", is_given=is_given)
        format_ = dataclasses.replace(toy.case().format, tolerances={"": tolerance})
        case = toy.case(toy.model(outputs=(Tensor("y", "FP16", (4,)),)), "")
        found = limits.CaseArithmetic(dataclasses.replace(case, format=format_), "").case_limits({})
        assert [found.inferred_on, found.min_noise, found.kernels.rounding] == [*of_case, 1e-3]  # of FP16


def test_users_tolerance_and_noise_widen_every_limit() -> None:
    small = limits.NumberLimits(1e-4, 1e-5)
    given = limits.AnswerLimits(limits.NumberLimits(2e-2, 1e-2), by_output={"y": small})
    steady, tolerant = limits.CaseLimits(given, given), limits.CaseLimits(given, given, min_noise=0.1)
    assert steady.across_kernels().of_output("y") == small
    assert steady.across_kernels(noise=1e-3).of_output("y") == (1e-2, 1e-5)
    assert tolerant.beside_recorded(steady, by_same_case=True).of_output("y") == (0.1, 1e-5)
    assert limits.conversation_limits(noise=1.0).widest.max_element == 2e-3
    assert limits.conversation_limits([Tolerance(0.05, 1.0, "", is_given=True)]).widest.max_element == 0.05


@pytest.mark.parametrize(
    ("noises", "precisions", "allowed"),
    [
        ((0.0, 0.1), ("", ""), (1e-5, 1e-6)),
        ((0.1, 0.2), ("", ""), (1.0, 1e-6)),
        ((0.0, 0.0), ("fp16", "fp16"), (1e-5, 1e-3)),
        ((0.0, 0.0), ("fp16", "bf16"), (1e-5, 1e-6)),
    ],
)
def test_servers_may_differ_by_what_both_show(noises: Any, precisions: Any, allowed: Any) -> None:
    repeated = [limits.AnswerLimits(limits.NumberLimits(1e-5, np.inf))] * 2
    found = limits.limits_between_servers(repeated, noises, precisions)
    assert (found.widest.max_element, found.rounding) == allowed


def test_whole_numbers_show_no_precision() -> None:
    """Customer ids up to 256 are numbers of BF16 too."""
    assert outputs.inferred_precision([{"ids": np.arange(200, dtype=np.float32)}]) == ""
    assert outputs.inferred_precision([{"labels": np.arange(200)}]) == ""


def test_count_of_changed_decisions_may_be_two_deviations_and_three_more_within_tolerance() -> None:
    for agreement, least in ((0.99, 1 - (9 + 2 * 3 + 3) / 600), (0.9, 0.95)):
        cost = PrecisionCost(largest={}, mean={}, comparable_share=1, agreement=agreement)
        assert limits.CaseArithmetic(toy.case(), "fp32", cost).decision_limit(600) == pytest.approx(least)


def test_limit_of_an_element_has_a_floor() -> None:
    cost = PrecisionCost(largest={toy.OUTPUT: 1e-9}, mean={toy.OUTPUT: 1e-6}, comparable_share=1, agreement=1)
    allowed = limits.CaseArithmetic(toy.case(), "fp32", cost).case_limits({toy.OUTPUT: 40}).kernels
    assert allowed.widest.max_element == 1e-4


def test_class_beside_mask_widens_no_limit_of_the_mask() -> None:
    """Three classes of 24 may differ, and of a mask two voxels."""
    rows = {"class": np.zeros((24, 1), int), "mask": np.zeros((24, 1024), int)}
    tensors = tuple(Tensor(name, "INT64", values.shape[1:]) for name, values in rows.items())
    cost = PrecisionCost(largest={}, mean=dict.fromkeys(rows, 0.0), comparable_share=1.0, agreement=1.0)
    sizes = {name: values.size for name, values in rows.items()}
    of_case = limits.CaseArithmetic(toy.case(toy.model(outputs=tensors)), "fp32", cost).case_limits(sizes)
    allowed = of_case.beside_recorded(of_case, by_same_case=True)
    expected, mask = toy.expected_answers(list("a" * 24), rows, allowed), rows["mask"].copy()
    for voxel, wrong in enumerate((0, 0, 1)):
        mask[0, voxel] = 1
        given = Answer(np.arange(24), {**rows, "mask": mask})
        assert expected.compare([given]).result.wrong == wrong


@pytest.mark.parametrize(
    ("size", "agreement", "allowed"),
    [(1000, 1.0, 0.0), (4, 0.99, 2.0), (1000, 0.999, 8.2), (1000, 0.9, 352.0)],
)
def test_row_may_differ_by_thrice_the_share_and_chance(size: int, agreement: float, allowed: float) -> None:
    assert allowed_ties_per_row(size, agreement) == pytest.approx(allowed, rel=0.01)
