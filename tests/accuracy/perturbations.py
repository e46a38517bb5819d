"""Which faults of a conversion the conversion test notices. Each is put into a micro model's network, which then
computes in FP16 or BF16 by PyTorch's own cast."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fixtures.accuracy.outputs import floating_outputs
from fixtures.accuracy.precision_cost import emulated_precision, least_cost
from fixtures.errors import AccuracyError
from fixtures.formats import all_formats
from fixtures.frameworks.pytorch import in_precision
from fixtures.host.targets import CPU
from fixtures.spec import Arrays, Case, Model, Samples, Weights
from tests.accuracy.network_faults import Fault, faults_of
from tests.toy import compare_conversion

NOTICEABLE = 2.0
"""The gates have to notice faults of at least this effect, in units of the precision's cost."""
SHARE = 0.9
"""The share of such faults that they have to notice, at least."""


@dataclass(frozen=True)
class Finding:
    """The gates' verdict on one fault."""

    model: str
    precision: str
    fault: str
    effect: float
    """The mean effect on the output that it changes most, in units of the precision's cost."""
    is_noticed: bool
    """Whether the conversion test fails."""


def share_noticed(findings: Sequence[Finding]) -> float | None:
    """The share of noticeable faults that the gates noticed; None if no fault is noticeable."""
    noticeable = [finding for finding in findings if finding.fault != "none" and finding.effect >= NOTICEABLE]
    return sum(finding.is_noticed for finding in noticeable) / len(noticeable) if noticeable else None


PRECISIONS = {
    "bert-dist4l-micro": ("fp16", "bf16"),
    "fastpitch-micro": ("fp16", "bf16"),
    "nnunet-micro": ("fp16", "bf16"),
    "resnet50-micro": ("fp16", "bf16"),
}
_MOST_ROWS = 64


def findings_of(
    model: Model, precision: str, only: Callable[[Fault], bool] = lambda _fault: True, rows: int = _MOST_ROWS
) -> list[Finding]:
    """Every fault of a model in a precision, and the right conversion, as `none`."""
    samples = model.samples("evaluation", None, None)
    count = min(rows, len(samples))
    few = dataclasses.replace(samples, ids=samples.ids[:count])
    weights = model.load(None)
    inputs = few.load(range(count))
    right = model.run(weights.network, inputs)
    # Each fault asks for the framework's answers once, and always for the first rows.
    known = dataclasses.replace(
        model,
        run=lambda network, batch: (
            _first(right, batch) if network is weights.network else model.run(network, batch)
        ),
    )
    onnx = next(format_ for format_ in all_formats() if format_.mnemonic == "onnx")
    case = Case(CPU, known, onnx, None, precision)
    training = functools.partial(model.samples, "training", None, None)
    emulated = emulated_precision(case, weights, training, count)
    assert emulated is not None, "a micro model has a network"
    rounded = emulated(inputs)
    results = []
    right_network = Fault("none", lambda _network: None)
    for fault in (right_network, *filter(only, faults_of(model, weights.network))):
        network, changed_inputs = fault.put_into(weights.network), fault.inputs(inputs)
        answers = model.run(in_precision(network, precision), changed_inputs)
        effect = _effect(model, right, model.run(network, changed_inputs), rounded)
        is_noticed = _is_noticed(case, weights, few, answers, rounded)
        results.append(Finding(model.name, precision, fault.name, effect, is_noticed))
    return results


def _first(answers: Arrays, inputs: Arrays) -> Arrays:
    """The answers to as many samples as there are inputs."""
    return {name: values[: len(next(iter(inputs.values())))] for name, values in answers.items()}


def _is_noticed(case: Case, weights: Weights, few: Samples, answers: Arrays, rounded: Arrays) -> bool:
    try:
        return not compare_conversion(
            case, weights, lambda _inputs: answers, few, len(few), emulated=functools.partial(_first, rounded)
        ).passed
    except AccuracyError:
        return True


def _effect(model: Model, right: Arrays, changed: Arrays, rounded: Arrays) -> float:
    """A fault's mean effect over the precision's, for the output with the largest ratio."""
    names = floating_outputs(right)
    if not names:
        wrong, lost = (
            float((model.decide(model.keep(outputs)) != model.decide(model.keep(right))).sum())
            for outputs in (changed, rounded)
        )
        return wrong / max(lost, 1.0)

    def mean(answers: Arrays, name: str) -> float:
        return float(np.abs(answers[name] - right[name]).mean() / (np.abs(right[name]).mean() or 1.0))

    return max(mean(changed, name) / least_cost(mean(rounded, name)) for name in names)
