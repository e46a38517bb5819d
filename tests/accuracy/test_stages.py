"""Evaluation in process counts every sample, and refuses wrong outputs; a converted model is compared with the
framework, in the values of each output and in decisions."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests import toy
from tests.formats.converting import job_of
from tests.helpers import present
from tests.toy import compare_conversion
from tritonproof.accuracy.stages import answers_at, evaluate_in_process, framework_model_on
from tritonproof.base.errors import AccuracyError, InputError
from tritonproof.frameworks.pytorch import network_and_inputs
from tritonproof.models import all_models
from tritonproof.record.correctness import Conversion
from tritonproof.spec import ANY, Arrays, NetworkModel, Tensor, Tolerance

COUNT = 40
ELSEWHERE: Any = "meta"
"""PyTorch's device without memory, in place of a GPU."""


@pytest.mark.parametrize("batch", [1, 7, 40, 64])
def test_every_sample_counts_at_any_batch_size(batch: int) -> None:
    samples = toy.samples(COUNT)
    stage = evaluate_in_process("framework", toy.model(), toy.network, samples, batch)
    assert stage.decisions.tolist() == samples.labels.tolist()
    assert len(stage.kept["classes"]) == COUNT


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("stage", ["framework", "converted"])
def test_nonfinite_value_names_stage_output_and_sample(stage: str, value: float) -> None:
    with pytest.raises(AccuracyError) as caught:
        evaluate_in_process(stage, toy.model(), toy.spoilt(value), toy.samples(8), 8)
    assert stage in caught.value.what
    assert toy.OUTPUT in caught.value.where
    assert "toy-007" in caught.value.where


def test_changed_row_length_names_output_and_sample() -> None:
    """The network selects by its data, so the first samples do not show it."""

    def selecting(inputs: Arrays) -> Arrays:
        width = 2 if (inputs[toy.INPUT] == last).all() else 3
        return {toy.OUTPUT: inputs[toy.INPUT][:, :width]}

    samples = toy.samples(9)
    last = samples.read([8])[toy.INPUT]
    model = toy.model(outputs=(Tensor(toy.OUTPUT, "FP32", (ANY,)),))
    with pytest.raises(AccuracyError) as caught:
        evaluate_in_process("framework", model, selecting, samples, 8)

    assert toy.OUTPUT in caught.value.where
    assert str(samples.ids[8]) in caught.value.what
    with pytest.raises(AccuracyError, check=lambda error: "OUT" in error.where):
        answers_at("served", toy.model(), [{"OUT": np.zeros((1, 3))}, {"OUT": np.zeros((2, 4))}])
    with pytest.raises(InputError, match=r"shape \[3\], and declared"):
        evaluate_in_process("framework", toy.model(), selecting, samples, 8)


@pytest.mark.parametrize("is_built_anew", [True, False], ids=["built anew", "reused"])
@pytest.mark.parametrize("device", ["cpu", ELSEWHERE])
def test_reference_runs_on_device_for_new_and_reused_builds(device: Any, is_built_anew: bool) -> None:
    def devices(network: torch.nn.Module) -> set[str]:
        return {str(tensor.device) for tensor in network.state_dict().values()}

    model = next(model for model in all_models() if model.name == "resnet50-micro")
    weights = model.load_weights(None)
    if is_built_anew:
        network_and_inputs(job_of(model, weights.network, device=ELSEWHERE))
    reference = framework_model_on(device, model, weights)
    assert devices(reference.network) == {str(device)}
    assert {tensor.dtype for tensor in reference.network.parameters()} == {torch.float32}
    assert devices(weights.network) == {"cpu"}
    assert (reference.weights_source, reference.digest) == (weights.weights_source, weights.digest)
    assert device != "cpu" or reference.network is weights.network, "a copy would take its memory twice"


LARGE, LENGTH = "LARGE__1", "LENGTH__2"
SPREAD = float(toy.rows(range(COUNT)).std(axis=0).min())
"""The least spread of a column over the samples; LARGE has a hundred times as much."""
Change = Callable[[Arrays, int], None]
"""Changes the outputs of the batch of this number."""


def outputs(inputs: Arrays) -> Arrays:
    """The numbers, a hundred times the numbers, and a whole number that is no class."""
    values = inputs[toy.INPUT]
    return {toy.OUTPUT: values, LARGE: 100 * values, LENGTH: 100 + values.argmax(axis=1)}


def model(infer: Callable[[Arrays], Arrays] = outputs, **changes: Any) -> NetworkModel:
    declared = toy.model().outputs[0]
    every = declared, dataclasses.replace(declared, name=LARGE), Tensor(LENGTH, "INT64", ())
    return toy.model(outputs=every, infer=lambda _network, inputs: infer(inputs), **changes)


def found(
    change: Change,
    *,
    emulated: Change | None = None,
    precision: str = "fp32",
    tolerance: Tolerance | None = None,
    infer: Callable[[Arrays], Arrays] = outputs,
    **changes: Any,
) -> Conversion:
    """The comparison of a conversion with changed outputs, in batches of 8, beside the emulated precision."""

    def changing(edit: Change) -> Callable[[Arrays], Arrays]:
        batch_numbers = iter(range(1000))

        def run(inputs: Arrays) -> Arrays:
            changed = {name: values.copy() for name, values in infer(inputs).items()}
            edit(changed, next(batch_numbers))
            return changed

        return run

    return compare_conversion(
        toy.case(model(infer, **changes), precision, tolerance or Tolerance(0.01, 0.95, "chosen")),
        toy.weights(),
        changing(change),
        toy.samples(COUNT),
        8,
        emulated=None if emulated is None else changing(emulated),
    )


def off(error: float, output: str = toy.OUTPUT, only: int | None = None) -> Change:
    """Moves an output by `error` in all batches, or in one."""

    def change(batch: Arrays, number: int) -> None:
        if only in (None, number):
            batch[output] += np.float32(error)

    return change


def shares_off(first: float, second: float) -> Change:
    """Moves the two outputs of numbers by these shares of their means."""

    def change(batch: Arrays, _number: int) -> None:
        batch[toy.OUTPUT] += np.float32(first * 0.25)
        batch[LARGE] += np.float32(second * 25)

    return change


# --- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("only", [0, 2, 4])
@pytest.mark.parametrize(("share", "passed"), [(0.0005, True), (0.02, False)])
def test_error_is_a_share_of_spread_over_all_batches(share: float, passed: bool, only: int) -> None:
    conversion = found(off(share * SPREAD, only=only))
    assert conversion.relative_error == pytest.approx(share, rel=1e-2)
    assert (conversion.samples, conversion.agreement, conversion.passed) == (COUNT, 1.0, passed)
    assert (conversion.relative_error_limit, conversion.agreement_limit) == (0.01, 0.95)
    assert conversion.outputs[0].sample in [f"toy-{row:03d}" for row in range(8 * only, 8 * only + 8)]


def test_output_error_is_relative_to_its_own_spread() -> None:
    def both_off(batch: Arrays, number: int) -> None:
        off(0.5 * SPREAD, LARGE)(batch, number)
        off(0.008 * SPREAD)(batch, number)

    assert found(off(0.5 * SPREAD, LARGE)).relative_error == pytest.approx(0.005, rel=1e-2)
    assert found(both_off).relative_error == pytest.approx(0.008, rel=1e-2)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (toy.OUTPUT, lambda batch: batch.pop(toy.OUTPUT)),
        (LARGE, lambda batch: batch.update({LARGE: batch[LARGE][:, :1]})),
        (LARGE, lambda batch: batch.update({LARGE: batch[LARGE].astype(int)})),
        (LARGE, lambda batch: batch[LARGE].put(13, np.inf)),
    ],
    ids=["missing", "broadcasts", "another type", "no number"],
)
def test_incomparable_outputs_are_an_error(name: str, change: Callable[[Arrays], Any]) -> None:
    with pytest.raises(AccuracyError, check=lambda error: name in str(error)):
        found(lambda batch, _number: change(batch))


# --- the precision's cost -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("errors", "costs", "times", "cost"),
    [((0.001, 0.0015), (0.001, 0.001), 1.5, 0.001), ((0.2, 1.3), (0.1, 1.0), 2, 0.1)],
)
def test_worst_output_by_precision_cost_counts(errors: Any, costs: Any, times: float, cost: float) -> None:
    conversion = found(shares_off(*errors), emulated=shares_off(*costs), precision="fp16")
    assert conversion.error_in_costs == pytest.approx(times, rel=0.01)
    assert conversion.precision_cost == pytest.approx(cost, rel=0.01)


@pytest.mark.parametrize("unit", [1.0, 1000.0])
@pytest.mark.parametrize(("of_limit", "passed"), [(0.98, True), (1.02, False)])
def test_error_above_cost_limit_fails_in_any_unit(of_limit: float, passed: bool, unit: float) -> None:
    def in_unit(inputs: Arrays) -> Arrays:
        right = outputs(inputs)
        return {**right, toy.OUTPUT: unit * right[toy.OUTPUT], LARGE: unit * right[LARGE]}

    def times(costs: float) -> Change:
        return shares_off(costs * 0.008 * unit, costs * 0.008 * unit)

    limit = present(found(times(1), emulated=times(1), precision="fp16", infer=in_unit).error_in_costs_limit)
    conversion = found(times(of_limit * limit), emulated=times(1), precision="fp16", infer=in_unit)
    assert conversion.precision_cost == pytest.approx(0.008, rel=0.01)
    assert conversion.error_in_costs == pytest.approx(of_limit * limit, rel=0.01)
    assert conversion.passed is passed
    assert present(conversion.relative_error) < conversion.relative_error_limit


# --- decisions and whole numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize(("agreement", "passed"), [(0.87, True), (0.88, False)])
def test_agreement_has_a_limit(agreement: float, passed: bool) -> None:
    def decided_otherwise(outputs: Arrays, _number: int) -> None:
        outputs[toy.OUTPUT][:1] = np.roll(outputs[toy.OUTPUT][:1], 1, axis=1)

    conversion = found(decided_otherwise, tolerance=Tolerance(10, agreement, "chosen"))
    assert conversion.agreement == pytest.approx(0.875)
    assert conversion.passed is passed


def test_rows_with_differing_integers_are_left_out_of_error() -> None:
    def longer(result: Arrays, _number: int) -> None:
        result[LENGTH][:4] += 1
        result[toy.OUTPUT][:4] += 100
        result[toy.OUTPUT][4:] += np.float32(0.00025)
        result[LARGE][4:] += np.float32(0.025)

    by_length: Any = {"keep": lambda outputs: outputs, "decide": lambda kept: kept[LENGTH]}
    conversion = found(longer, emulated=shares_off(0.001, 0.001), precision="fp16", **by_length)
    assert present(conversion.error_in_costs) < 2
    assert conversion.agreement == 0.5
    assert not conversion.passed, "by its decisions and by the rows that are left to compare"
    by_name = {result.output: result for result in conversion.outputs}
    shares = by_name[LENGTH].mean, by_name[LARGE].compared_share, by_name[toy.OUTPUT].compared_share
    assert shares == (0.5, 0.5, 0.5)
    assert by_name[LARGE].compared_share_limit > 0.9


def test_unused_integers_hide_no_error() -> None:
    """Most rows have a wrong length, which decides no class, and wrong numbers."""

    def wrong(result: Arrays, _number: int) -> None:
        result[LENGTH][1:] += 1
        result[toy.OUTPUT][1:] *= np.float32(0.5)

    conversion = found(wrong)

    by_name = {result.output: result for result in conversion.outputs}
    assert (conversion.agreement, conversion.relative_error, conversion.passed) == (1.0, 0.0, False)
    assert by_name[LENGTH].mean == by_name[LENGTH].largest * 7 / 8 == pytest.approx(7 / 8)
    assert by_name[toy.OUTPUT].compared_share == pytest.approx(1 / 8)


@pytest.mark.parametrize(
    ("gap", "passed"), [(1e-5, True), (0.1, False)], ids=["a tie of the scores", "another class"]
)
def test_class_may_differ_only_if_scores_tie(gap: float, passed: bool) -> None:
    """The scores themselves count in either case, as the class moves nothing."""

    def classified(inputs: Arrays) -> Arrays:
        scores = np.sort(inputs[toy.INPUT], axis=1)
        scores[3, 2] = scores[3, 3] - gap
        return {**outputs(inputs), toy.OUTPUT: scores, LENGTH: scores.argmax(axis=1)}

    def second(batch: Arrays, _number: int) -> None:
        batch[LENGTH][3] = 2

    tolerance = Tolerance(0.01, 0.8, "chosen")
    conversion = found(second, infer=classified, tolerance=tolerance)
    assert conversion.passed is passed
    assert conversion.outputs[0].compared_share == 1.0

    def and_moved(batch: Arrays, number: int) -> None:
        second(batch, number)
        off(0.1)(batch, number)

    assert not found(and_moved, infer=classified, tolerance=tolerance).passed
