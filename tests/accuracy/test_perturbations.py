"""The conversion test notices nine in ten faults of a conversion of at least twice the precision's own cost. Each
is put into a micro model's network, which then computes in FP16 or BF16 by PyTorch's own cast."""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.helpers import present
from tests.toy import compare_conversion
from tritonproof.accuracy.outputs import floating_outputs
from tritonproof.accuracy.precision_cost import MIN_COST, emulated_precision
from tritonproof.base.errors import AccuracyError
from tritonproof.formats.onnx import ONNX
from tritonproof.frameworks.pytorch import in_precision
from tritonproof.host.targets import CPU
from tritonproof.models import all_models
from tritonproof.spec import Arrays, Case, FrameworkModel, NetworkModel, Samples

NOTICEABLE = 2.0
"""The gates have to notice faults of at least this effect, in units of the precision's cost."""
SHARE = 0.9
"""The share of such faults that they have to notice, at least."""
_OF_A_KIND = 7
"""The most faults of one kind, spread over the network's layers."""
_SHIFT = 0.2
_EPSILONS = (1e-3, 1e-2)
_SCALE = 1.05
"""The factor of a layer's weights."""
_MAX_ROWS = 64


# --- the faults of a network ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """One fault, and how a network gets it."""

    name: str
    change: Callable[[Any], object]
    """Puts the fault into a copy of the network."""
    inputs: Callable[[Arrays], Arrays] = lambda inputs: inputs
    """How the faulty graph changes its inputs first."""

    def put_into(self, network: Any) -> Any:
        """A copy of the network, with the fault."""
        copied = copy.deepcopy(network)
        self.change(copied)
        return copied


def faults_of(model: NetworkModel, network: Any) -> list[Fault]:
    """The faults of a model's network, in the order of their kinds."""
    faults = list(_of_layers(network))
    floating = [tensor.name for tensor in model.inputs if tensor.dtype.startswith("FP")]

    def shifted(inputs: Arrays) -> Arrays:
        return {
            name: values + np.float32(_SHIFT) if name in floating else values
            for name, values in inputs.items()
        }

    if floating:
        faults.append(Fault(f"inputs shifted by {_SHIFT:g}", lambda _network: None, shifted))
    return faults


def _spread(names: Sequence[str]) -> list[str]:
    """At most `_OF_A_KIND` names, evenly spaced from the first to the last."""
    indices = np.linspace(0, len(names) - 1, min(_OF_A_KIND, len(names))).round().astype(int)
    return [names[index] for index in indices]


def _of_layers(network: Any) -> Iterator[Fault]:
    import torch
    from torch import nn

    modules = dict(network.named_modules())

    def with_a(kind: Callable[[Any], bool]) -> list[str]:
        return _spread([name for name, module in modules.items() if kind(module)])

    def edit(name: str, change: Callable[[Any], object]) -> Callable[[Any], object]:
        def run(copied: Any) -> None:
            with torch.no_grad():
                change(copied.get_submodule(name))

        return run

    def zero_channel(module: Any) -> None:
        axis = 1 if getattr(module, "transposed", False) else 0
        module.weight.select(axis, 0).zero_()
        if module.bias is not None:
            module.bias[0] = 0

    layers = with_a(lambda layer: isinstance(layer, (nn.Linear, nn.modules.conv._ConvNd)))
    for name in with_a(lambda layer: isinstance(getattr(layer, "bias", None), torch.Tensor)):
        yield Fault(f"bias dropped: `{name}`", edit(name, lambda layer: layer.bias.zero_()))
    for name in layers:
        yield Fault(f"channel zeroed: `{name}`", edit(name, zero_channel))
    for name in layers:
        scaled = edit(name, lambda layer: layer.weight.mul_(_SCALE))
        yield Fault(f"weights times {_SCALE:g}: `{name}`", scaled)
    for epsilon in _EPSILONS:

        def change_epsilons(copied: Any, epsilon: float = epsilon) -> None:
            for module in copied.modules():
                if hasattr(module, "eps"):
                    module.eps = epsilon

        yield Fault(f"all epsilons {epsilon:g}", change_epsilons)
    activations = {type(layer) for layer in modules.values()} & {nn.ReLU, nn.LeakyReLU}
    for slope in (0.0, 0.001, 0.02) if activations else ():

        def change_slopes(copied: Any, slope: float = slope) -> None:
            for module in list(copied.modules()):
                for name, child in module.named_children():
                    if isinstance(child, (nn.ReLU, nn.LeakyReLU)):
                        setattr(module, name, nn.LeakyReLU(slope))

        if slope or nn.LeakyReLU in activations:
            yield Fault(f"activations of slope {slope:g}", change_slopes)


# --- whether they are noticed --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """The gates' verdict on one fault."""

    fault: str
    effect: float
    """The mean effect on the output that it changes most, in units of the precision's cost."""
    is_noticed: bool
    """Whether the conversion test fails."""


def findings_of(
    model: NetworkModel,
    precision: str,
    only: Callable[[Fault], bool] = lambda _fault: True,
    rows: int = _MAX_ROWS,
) -> list[Finding]:
    """Every fault of a model in a precision, and the right conversion, as `none`."""
    samples = model.samples("evaluation", None, None)
    count = min(rows, len(samples))
    few = dataclasses.replace(samples, ids=samples.ids[:count])
    weights = model.load_weights(None)
    inputs = few.read(range(count))
    right = model.infer(weights.network, inputs)
    # Each fault asks for the framework's answers once, and always for the first rows.
    known = dataclasses.replace(
        model,
        infer=lambda network, batch: (
            _first(right, batch) if network is weights.network else model.infer(network, batch)
        ),
    )
    case = Case(CPU, known, ONNX, None, precision)
    training = functools.partial(model.samples, "training", None, None)
    rounded = present(emulated_precision(known, precision, weights, training, count))(inputs)
    results = []
    for fault in (Fault("none", lambda _network: None), *filter(only, faults_of(model, weights.network))):
        network, changed_inputs = fault.put_into(weights.network), fault.inputs(inputs)
        answers = model.infer(in_precision(network, precision), changed_inputs)
        effect = _effect(model, right, model.infer(network, changed_inputs), rounded)
        results.append(Finding(fault.name, effect, _is_noticed(case, weights, few, answers, rounded)))
    return results


def _first(answers: Arrays, inputs: Arrays) -> Arrays:
    """The answers to as many samples as there are inputs."""
    return {name: values[: len(next(iter(inputs.values())))] for name, values in answers.items()}


def _is_noticed(case: Case, weights: FrameworkModel, few: Samples, answers: Arrays, rounded: Arrays) -> bool:
    try:
        return not compare_conversion(
            case, weights, lambda _inputs: answers, few, len(few), emulated=functools.partial(_first, rounded)
        ).passed
    except AccuracyError:
        return True


def _effect(model: NetworkModel, right: Arrays, changed: Arrays, rounded: Arrays) -> float:
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

    return max(mean(changed, name) / max(mean(rounded, name), MIN_COST) for name in names)


MODELS = {model.name: model for model in all_models()}
MICRO = [model.name for model in MODELS.values() if model.micro and model.framework == "pytorch"]


def held(found: list[Finding]) -> None:
    """The right conversion passes, and enough of the faults fail."""
    right, *faults = found
    assert not right.is_noticed, "the right conversion does not pass"
    noticeable = [fault for fault in faults if fault.effect >= NOTICEABLE]
    assert noticeable, "no fault is large enough to be noticed"
    missed = [fault for fault in noticeable if not fault.is_noticed]
    assert len(noticeable) - len(missed) >= SHARE * len(noticeable), missed


def test_dropped_biases_of_fastpitch_micro_are_noticed() -> None:
    findings = findings_of(MODELS["fastpitch-micro"], "fp16", lambda fault: fault.name.startswith("bias"), 6)
    assert len(findings) > 5
    held(findings)


@pytest.mark.campaign
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", MICRO)
def test_faults_of_every_micro_model_are_noticed(name: str, precision: str) -> None:
    held(findings_of(MODELS[name], precision))
