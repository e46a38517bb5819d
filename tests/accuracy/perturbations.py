"""Which faults of a conversion the gates notice: `python -m tests.accuracy.perturbations` makes
docs/evidence/perturbations.md.

Each fault is put into a micro model's network, which is then converted as far as a CPU can: FP16 and BF16 are
PyTorch's own, and of FP32, INT8 and TensorFlow the fault's effect is added to the answers of the right ONNX
file. The gates are those of the conversion test, and of served outputs beside those in process.
"""

import argparse
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fixtures.accuracy.all_outputs import differences_of
from fixtures.accuracy.outputs import equal_fraction, floating_outputs
from fixtures.accuracy.precision_cost import (
    PrecisionCost,
    emulated_precision,
    least_cost,
    measure_cost,
    output_limits,
)
from fixtures.build import runtimes
from fixtures.errors import AccuracyError
from fixtures.formats import all_formats
from fixtures.frameworks.pytorch import in_precision
from fixtures.host.scratch import scratch_folder
from fixtures.host.targets import CPU
from fixtures.models import all_models
from fixtures.spec import Arrays, Case, ConversionJob, Deployment, Model, Samples, Weights
from reports.record.schema import within_limits
from tests.accuracy.network_faults import Fault, faults_of
from tests.accuracy.perturbation_table import Finding, page
from tests.toy import compare_conversion

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "perturbations.md"
PRECISIONS = {
    "bert-dist4l-micro": ("fp32", "fp16", "bf16"),
    "fastpitch-micro": ("fp32", "fp16", "bf16"),
    "nnunet-micro": ("fp32", "fp16", "bf16"),
    "resnet50-micro": ("fp32", "fp16", "bf16", "int8"),
    "resnet50-tf-micro": ("fp32", "fp16", "int8"),
}
_MOST_ROWS = 64


def findings_of(
    model: Model,
    precision: str,
    only: Callable[[Fault], bool] = lambda _fault: True,
    rows: int = _MOST_ROWS,
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
    cost = measure_cost(case, weights, few, training, count, emulated=functools.partial(_first, rounded))
    with _converted(case, weights, training()) as convert:
        results = []
        in_process: Arrays | None = None
        for fault in (
            Fault("none", lambda _network: None),
            *filter(only, faults_of(model, weights.network, precision)),
        ):
            faulty, changed = _with(fault, model, weights, inputs)
            answers = convert(faulty, inputs, right, changed)
            in_process = answers if in_process is None else in_process  # the first has no fault
            results.append(
                Finding(
                    model=model.name,
                    precision=precision,
                    fault=fault.name,
                    effect=_effect(model, right, changed, rounded),
                    is_noticed=_is_noticed(case, weights, few, answers, rounded),
                    is_noticed_served=_is_noticed_served(case, cost, few, in_process, answers),
                )
            )
    return results


def _first(answers: Arrays, inputs: Arrays) -> Arrays:
    """The answers to as many samples as there are inputs."""
    return {name: values[: len(next(iter(inputs.values())))] for name, values in answers.items()}


def _with(fault: Fault, model: Model, weights: Weights, inputs: Arrays) -> tuple[Any, Arrays]:
    """The faulty network, and what it answers in FP32."""
    network = fault.put_into(weights.network)
    answers = model.run(network, fault.inputs(inputs))
    return functools.partial(_answer, model, network, fault), answers


def _answer(model: Model, network: Any, fault: Fault, precision: str, inputs: Arrays) -> Arrays:
    return model.run(in_precision(network, precision), fault.inputs(inputs))


def _is_noticed(case: Case, weights: Weights, few: Samples, answers: Arrays, rounded: Arrays) -> bool:
    try:
        return not compare_conversion(
            case, weights, lambda _inputs: answers, few, len(few), emulated=functools.partial(_first, rounded)
        ).passed
    except AccuracyError:
        return True


def _is_noticed_served(
    case: Case, cost: PrecisionCost | None, few: Samples, in_process: Arrays, served: Arrays
) -> bool:
    model = case.model
    decided = (model.decide(model.keep(outputs)) for outputs in (in_process, served))
    if equal_fraction(*decided).mean() < case.tolerance().agreement:
        return True
    elements = {name: values.size for name, values in in_process.items()}
    limits = output_limits(case, cost, elements, len(few), None, same_file=True)
    differences = differences_of(in_process, few.ids, limits, "served", "in process it")
    try:
        differences.add(served, range(len(few)))
        return not all(map(within_limits, differences.outputs))
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


@contextlib.contextmanager
def _converted(
    case: Case, weights: Weights, training: Samples
) -> Iterator[Callable[[Any, Arrays, Arrays, Arrays], Arrays]]:
    """A function that takes a faulty network, the inputs, the right answers and the faulty ones in FP32, and
    returns the answers of that network's conversion."""
    if case.precision in ("fp16", "bf16") and case.model.framework == "pytorch":
        yield lambda faulty, inputs, _right, _changed: faulty(case.precision, inputs)
        return
    with scratch_folder("conversion") as folder:
        (folder / "1").mkdir()
        artifact = folder / "1" / case.format.artifact
        calibration = training if case.precision == "int8" else None
        job = ConversionJob(
            case.model, weights.network, case.precision, None, "cpu", 64, calibration, lambda _step: None
        )
        case.format.convert(job, artifact)
        run = runtimes.open_in_process(case, artifact, Deployment(64, 1, (), 0, False, False))
        computed: dict[str, np.ndarray] = {}

        def answers(_faulty: Any, inputs: Arrays, right: Arrays, changed: Arrays) -> Arrays:
            computed.update({} if computed else run(inputs))
            floating = floating_outputs(right)
            return {
                name: computed[name] + (changed[name] - right[name]) if name in floating else changed[name]
                for name in right
            }

        yield answers


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    models = {model.name: model for model in all_models() if model.name in PRECISIONS}
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.perturbations", description=__doc__)
    parser.add_argument(
        "--model",
        choices=sorted(models),
        help="try the faults of this model only, and print the result instead of writing the page",
    )
    options = parser.parse_args(arguments)
    chosen = [options.model] if options.model else sorted(models)
    findings = [
        finding
        for name in chosen
        for precision in PRECISIONS[name]
        for finding in findings_of(models[name], precision)
    ]
    if options.model:
        print(page(findings), end="")
    else:
        PAGE.write_text(page(findings))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
