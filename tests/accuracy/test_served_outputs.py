"""Every served output is compared with the same file in process, whether or not a metric uses it."""

import functools
from collections.abc import Callable

import numpy as np
import pytest

from fixtures.accuracy.all_outputs import Differences
from fixtures.accuracy.compare_answers import expect
from fixtures.accuracy.ledger import accuracy_ledger, score_each_sample
from fixtures.accuracy.precision_cost import PrecisionCost, output_limits
from fixtures.accuracy.stages import evaluate_in_process
from fixtures.accuracy.through_server import evaluate_through_server
from fixtures.errors import AccuracyError
from fixtures.spec import Arrays, Tensor, Tolerance
from reports.record.schema import Accuracy, OutputDifference, within_limits
from tests import toy
from tests.accuracy.conftest import COUNT, Answer, Connect

SECOND, COUNTS = "PROBABILITIES", "COUNTS"


def three_outputs(inputs: Arrays) -> Arrays:
    """The classes come from the first output alone; no metric uses the others."""
    values = inputs[toy.INPUT]
    counts = 100 + values.argmax(axis=1, keepdims=True)
    return {toy.OUTPUT: values, SECOND: values * 0.5 + 0.1, COUNTS: counts}


def unused(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], Arrays]:
    """The same network, served with one output spoilt."""
    return lambda inputs: {**three_outputs(inputs), name: change(three_outputs(inputs)[name])}


def served_ledger(
    connect: Connect,
    served: Callable[[Arrays], Arrays],
    precision: str = "fp32",
    tolerance: Tolerance | None = None,
    cost: PrecisionCost | None = None,
) -> Accuracy:
    """The ledger of a model whose server computes something other than the file in process."""
    outputs = tuple(Tensor(name, dtype, shape) for name, dtype, shape in THREE)
    case = toy.case(toy.model(outputs=outputs), precision, tolerance)

    def change(answer: Answer) -> Answer:
        sent = answer.as_numpy(toy.OUTPUT)
        assert sent is not None
        return Answer(answer.id, served({toy.INPUT: sent}))

    _, server = connect(change)
    samples = toy.samples(COUNT)
    framework = evaluate_in_process("framework", case.model, three_outputs, samples, 8)
    converted = evaluate_in_process("converted", case.model, three_outputs, samples, 8, with_outputs=True)
    assert converted.outputs is not None
    elements = {name: values.size for name, values in converted.outputs.items()}
    limits = output_limits(case, cost, elements, COUNT, None, same_file=True)
    last = evaluate_through_server(server, case, samples, 4, converted=converted, limits=limits)
    stages = (framework, converted, last)
    return accuracy_ledger(case, samples, stages, score_each_sample(case, samples, stages))


THREE = [(toy.OUTPUT, "FP32", (4,)), (SECOND, "FP32", (4,)), (COUNTS, "INT64", (1,))]


def test_equal_served_outputs_pass_and_are_recorded(connect: Connect) -> None:
    result = served_ledger(connect, three_outputs)

    assert result.passed
    kinds = {difference.output: (difference.kind, difference.largest) for difference in result.outputs}
    assert kinds == {toy.OUTPUT: ("error", 0.0), SECOND: ("error", 0.0), COUNTS: ("differing", 0.0)}


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param(SECOND, np.zeros_like, id="zeroed"),
        pytest.param(SECOND, lambda values: values * np.float32(1.05), id="scaled"),
        pytest.param(toy.OUTPUT, lambda values: values * np.float32(1.05), id="scaled logits"),
        pytest.param(COUNTS, lambda values: values + 1, id="integers moved"),
    ],
)
def test_fault_in_unused_output_is_found(
    name: str, change: Callable[[np.ndarray], np.ndarray], precision: str, connect: Connect
) -> None:
    result = served_ledger(connect, unused(name, change), precision)

    assert all(score.passed for score in result.scores)
    assert all(entry.agreement == 1 for entry in result.disagreements)
    assert not result.passed
    assert name in [entry.output for entry in result.outputs if not within_limits(entry)]


@pytest.mark.parametrize(
    ("precision", "right", "wrong"),
    [("fp32", 1e-6, 5e-5), ("fp16", 2e-3, 8e-3), ("bf16", 3e-3, 1.5e-2), ("int8", 3e-3, 1.5e-2)],
)
def test_server_may_differ_by_kernel_rounding(
    precision: str, right: float, wrong: float, connect: Connect
) -> None:
    """Each element is within the format's tolerance."""
    for off_by, passed in ((right, True), (wrong, False)):
        scaled = unused(SECOND, functools.partial(np.multiply, np.float32(1 + off_by)))
        assert served_ledger(connect, scaled, precision, Tolerance(0.5, 0.95, "chosen")).passed is passed


def test_wrong_value_of_unused_output_names_expected_and_given(connect: Connect) -> None:
    samples = toy.samples(COUNT)
    wrong_class = samples.labels[7]

    def tripled(inputs: Arrays) -> Arrays:
        outputs = dict(three_outputs(inputs))
        at_fault = (inputs[toy.INPUT] == 1) & (np.arange(toy.CLASSES) == wrong_class)
        outputs[SECOND] = outputs[SECOND] * np.where(at_fault, 3, 1).astype(np.float32)
        return outputs

    result = served_ledger(connect, tripled)

    spoilt = next(difference for difference in result.outputs if difference.output == SECOND)
    assert not result.passed
    assert samples.labels[samples.ids.index(spoilt.sample)] == wrong_class
    assert (spoilt.expected, spoilt.given) == pytest.approx((0.6, 1.8))


def test_wrong_shape_of_unused_output_is_an_error(connect: Connect) -> None:
    with pytest.raises(AccuracyError, check=lambda error: SECOND in error.what):
        served_ledger(connect, unused(SECOND, lambda values: values[:, :2]))


def test_integers_in_two_rows_may_differ_as_near_ties(connect: Connect) -> None:
    """The comparison leaves out these rows' other outputs."""
    calls = iter([True, True])

    def near_tie(inputs: Arrays) -> Arrays:
        outputs = dict(three_outputs(inputs))
        if len(inputs[toy.INPUT]) == 1 and next(calls, False):
            outputs |= {COUNTS: outputs[COUNTS] + 1, SECOND: outputs[SECOND] + 100}
        return outputs

    result = served_ledger(connect, near_tie)

    assert result.passed
    assert next(entry for entry in result.outputs if entry.output == COUNTS).mean == pytest.approx(2 / COUNT)


def test_few_wrong_voxels_in_every_mask_fail() -> None:
    """Two tied voxels pass, but two whole masks of 24 would be a twelfth of all voxels."""
    masks = np.random.default_rng(0).integers(0, 4, (24, 10_000))
    other = masks.copy()
    other[:, :400] = (other[:, :400] + 1) % 4
    tied = masks.copy()
    tied[[3, 7], 5] += 1
    outputs = (Tensor("masks", "INT64", (10_000,)),)
    case = toy.case(toy.model(outputs=outputs), "fp16", Tolerance(0.01, 0.99, "chosen"))
    limits = output_limits(case, None, {"masks": masks.size}, 24, None, same_file=True)

    def compared(served: np.ndarray) -> OutputDifference:
        ids = [str(row) for row in range(24)]
        differences = Differences(expect(ids, {"masks": masks}), limits, "served", "in process it")
        differences.add({"masks": served}, range(24))
        (result,) = differences.outputs
        return result

    assert within_limits(compared(masks))
    assert within_limits(compared(tied))
    assert not within_limits(compared(other))
