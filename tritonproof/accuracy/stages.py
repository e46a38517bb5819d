"""The stages of a model on its way to clients: its answers to the evaluation data at each stage, and how far
each output is from that of the stage before, on all rows."""

import dataclasses
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tritonproof.accuracy.answer_comparison import allowed_ties_per_row, compare_rows
from tritonproof.accuracy.expected import expect
from tritonproof.accuracy.limits import CaseArithmetic
from tritonproof.accuracy.outputs import (
    CHUNK_BYTES,
    check_finite,
    check_shapes,
    equal_fraction,
    why_undeclared,
)
from tritonproof.accuracy.precisions import PRECISIONS
from tritonproof.base.errors import AccuracyError, InputError
from tritonproof.client.requests import Answer
from tritonproof.frameworks import pytorch
from tritonproof.host.scratch import report_full_disk
from tritonproof.record.correctness import Conversion, OutputDifference
from tritonproof.spec import Arrays, Device, FrameworkModel, Model, NetworkModel, OnProgress, Samples


@dataclass
class _OutputTotals:
    """The differences of one output, over the rows compared so far."""

    sum_of_errors: float = 0.0
    """The absolute differences of floating-point numbers, or the number of other elements that differ."""
    sum_of_values: float = 0.0
    """The sum of the expected magnitudes; for other outputs the number of elements."""
    largest: float = 0.0
    """The largest difference, as a share of its column's scale; for other outputs the largest share of
    unequal elements in a row. A wrong row comes before any other."""
    is_wrong: bool = False
    """Whether the integers of any row differ by more than ties."""
    sample: str = ""
    expected: float = 0.0
    actual: float = 0.0


@dataclass
class StageComparison:
    """Compares the outputs of a stage with those of the stage before: of the converted model with the
    framework's, of the served with the converted one's. `add` takes rows as they come in, in any order."""

    stage: Literal["converted", "served"]
    ids: Sequence[str]
    earlier_outputs: Arrays
    """All outputs of the stage before, a row for each of `ids`."""
    arithmetic: CaseArithmetic
    """How the case computes, from which the limits follow."""
    by_output: dict[str, _OutputTotals] = field(default_factory=dict)
    """The differences so far, by the name of the output."""
    rows: int = 0
    left_out: int = 0
    """Rows whose floating-point outputs were not compared, because integers beside them differ."""

    def __post_init__(self) -> None:
        self.expected = expect(self.ids, self.earlier_outputs)
        elements = {name: values.size for name, values in self.earlier_outputs.items()}
        limits = self.arithmetic.case_limits(elements, len(self.ids))
        self.limits = limits.kernels if self.stage == "served" else limits.conversion

    def add(self, outputs: Arrays, row_indices: Sequence[int]) -> None:
        """Compare these rows' outputs. Raises AccuracyError if one is missing or has another shape."""
        chosen = np.asarray(row_indices)
        expected_outputs = {name: values[chosen] for name, values in self.expected.outputs.items()}
        expected_from = "in process" if self.stage == "served" else "in the framework"
        check_shapes(expected_outputs, outputs, self.stage, expected_from)
        answer = Answer(chosen, outputs)
        compared = compare_rows(self.expected, answer, self.limits, checks_identity=False)
        is_kept = ~compared.left_out
        self.rows += len(chosen)
        self.left_out += int(compared.left_out.sum())
        for name, values in expected_outputs.items():
            totals = self.by_output.setdefault(name, _OutputTotals())
            is_floating = name in self.expected.spreads
            elements = (compared.shares if is_floating else compared.unequal).get(name)
            magnitudes = np.abs(values[is_kept].astype(np.float64)).sum() if is_floating else values.size
            totals.sum_of_values += float(magnitudes)
            if elements is None:
                continue
            if is_floating:
                totals.sum_of_errors += float(compared.means[name][is_kept].sum()) * elements.shape[1]
                is_wrong, row_shares = np.zeros(len(chosen), bool), compared.largest[name]
            else:
                totals.sum_of_errors += float(elements.sum())
                is_wrong, row_shares = compared.wrong_rows[name], elements.mean(axis=1)
            row = int(np.lexsort((-row_shares, ~is_wrong))[0])
            worst = bool(is_wrong[row]), float(row_shares[row])
            if worst > (totals.is_wrong, totals.largest):
                index = int(elements[row].argmax())
                totals.is_wrong, totals.largest = worst
                totals.sample = str(self.expected.ids[chosen[row]])
                if values.dtype != object:  # the record has no field for texts
                    totals.expected = float(np.ravel(values[row])[index])
                    totals.actual = float(np.ravel(outputs[name][row])[index])

    @property
    def differences(self) -> tuple[OutputDifference, ...]:
        """The differences of each output, with its limits."""
        return tuple(self._difference(name, totals) for name, totals in self.by_output.items())

    def _difference(self, name: str, totals: _OutputTotals) -> OutputDifference:
        limits, spread = self.limits, self.expected.spreads.get(name)
        if spread is None:
            size = self.expected.outputs[name][:1].size
            agreement = limits.agreement_of(name)
            mean_limit = 1 - agreement
            of_row = 1.0 if name in self.expected.score_output_of else agreement
            largest_limit = allowed_ties_per_row(size, of_row) / size if totals.is_wrong else 1.0
            compared_share = compared_share_limit = 1.0
        else:
            largest_limit, max_mean = limits.of_output(name)
            rounding = limits.mean_rounding * spread.max_magnitude / (spread.mean_magnitude or 1.0)
            mean_limit = max_mean + rounding
            compared_share = (self.rows - self.left_out) / self.rows
            # At least one row, where the precision itself changes integers in nearly all.
            compared_share_limit = max(limits.min_compared_share, 1 / self.rows)
        return OutputDifference(
            output=name,
            kind="differing" if spread is None else "error",
            largest=totals.largest,
            largest_limit=largest_limit,
            mean=totals.sum_of_errors / (totals.sum_of_values or 1),
            mean_limit=mean_limit,
            sample=totals.sample,
            expected=totals.expected,
            actual=totals.actual,
            source=limits.source,
            compared_share=compared_share,
            compared_share_limit=compared_share_limit,
        )


@dataclass(frozen=True)
class StageAnswers:
    """A model's answers to all rows of the evaluation data at one stage."""

    name: str
    """The stage: framework, converted or served."""
    kept: Arrays
    """What the model's metrics need of the outputs, [rows, ...] each."""
    decisions: np.ndarray
    """What the model decides for each row, [rows, ...]; two stages agree where these are equal."""
    requests: int = 0
    """The number of requests behind the answers; 0 in process."""
    outputs: Arrays = field(default_factory=dict)
    """All outputs, [rows, ...] each, in unnamed files that vanish after use; none of the served model, whose
    answers are compared as they come."""
    differences: tuple[OutputDifference, ...] = ()
    """How far each output is from the stage before, over all rows; empty if only decisions are compared."""


@dataclass(frozen=True, kw_only=True)
class Stages:
    """A model's answers at each stage; a model of --repository is known only as it is served."""

    framework: StageAnswers | None = None
    converted: StageAnswers | None = None
    served: StageAnswers

    @property
    def known(self) -> list[StageAnswers]:
        """The stages whose answers are known, in order."""
        return [stage for stage in (self.framework, self.converted, self.served) if stage is not None]


def framework_model_on(device: Device, model: NetworkModel, on_cpu: FrameworkModel) -> FrameworkModel:
    """The framework's model moved to a device, in FP32 without TF32, to compare converted models with: for
    volumes a GPU takes minutes, a CPU hours. Networks of ONNX and Keras stay where they are."""
    if model.framework != "pytorch":
        return on_cpu
    network = pytorch.in_precision(on_cpu.network, "fp32", device)
    return dataclasses.replace(on_cpu, network=network)


def evaluate_in_process(
    name: str,
    model: Model,
    infer: Callable[[Arrays], Arrays],
    samples: Samples,
    batch: int,
    on_progress: OnProgress = lambda _text: None,
) -> StageAnswers:
    """Run all rows through a model in this process, in batches; the last may be partial. The stage keeps
    all outputs. Raises AccuracyError unless each row has one finite result."""
    parts = []
    everything: dict[str, np.ndarray] = {}
    for start in range(0, len(samples), batch):
        indices = range(start, min(start + batch, len(samples)))
        outputs = infer(samples.read(indices))
        parts.append(keep_outputs(name, model, outputs, samples, indices))
        everything = everything or temporary_arrays(outputs, len(samples))
        slices = {output: values[indices.start : indices.stop] for output, values in everything.items()}
        check_shapes(slices, outputs, name, f"before {samples.ids[indices[0]]}")
        for output, rows in slices.items():
            rows[:] = outputs[output]
        on_progress(f"{indices.stop:,} of {len(samples):,}")
    return answers_at(name, model, parts, outputs=everything)


def temporary_arrays(outputs: Arrays, row_count: int) -> dict[str, np.ndarray]:
    """Arrays for `row_count` rows of these outputs, in temporary files that vanish once the arrays are no
    longer used. Raises ProofError if the folder for temporary files has no room."""
    arrays: dict[str, np.ndarray] = {}
    for name, values in outputs.items():
        shape = (row_count, *values.shape[1:])
        with report_full_disk(Path(tempfile.gettempdir())), tempfile.TemporaryFile() as file:
            # A file with holes would end the process by a signal once the disk is full.
            os.posix_fallocate(file.fileno(), 0, max(1, int(np.prod(shape)) * values.dtype.itemsize))
            arrays[name] = np.memmap(file, values.dtype, "r+", shape=shape)
    return arrays


def keep_outputs(
    stage: str, model: Model, outputs: Arrays, samples: Samples, indices: Sequence[int]
) -> Arrays:
    """What the model keeps of a batch's outputs. Raises InputError if the framework's are not as the model
    declares them, and AccuracyError unless each row has a finite result."""
    if missing := [tensor.name for tensor in model.outputs if tensor.name not in outputs]:
        raise AccuracyError(f"the {stage} outputs lack {', '.join(missing)}", where=model.name)
    for tensor in model.outputs if stage == "framework" else ():
        assert isinstance(model, NetworkModel)
        if (problem := why_undeclared(tensor, outputs[tensor.name])) is not None:
            fix = f"correct the outputs of the model {model.name}"
            raise InputError(f"the network's output {problem}", where=model.defined_in, fix=fix)
    for name, values in outputs.items():
        if len(values) != len(indices):
            what = f"the {stage} outputs are {len(values)} results for {len(indices)} samples"
            raise AccuracyError(what, where=f"output {name}")
    check_finite(stage, outputs, [samples.ids[i] for i in indices])
    return model.keep(outputs)


def answers_at(name: str, model: Model, parts: Sequence[Arrays], **more: Any) -> StageAnswers:
    """The stage with these `parts` of its kept outputs, in order. Raises AccuracyError if shapes differ."""
    first, *others = ({key: values[:1] for key, values in part.items()} for part in parts)
    for other in others:
        check_shapes(first, other, name, "for the first sample")
    kept = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return StageAnswers(name, kept, model.decide(kept), **more)


def compare_conversion(
    framework: StageAnswers,
    converted: StageAnswers,
    ids: Sequence[str],
    arithmetic: CaseArithmetic,
    *,
    trained: bool,
    on_progress: OnProgress = lambda _text: None,
) -> Conversion:
    """Compare all outputs of the `converted` model with those of the `framework`. Decisions on floating-point
    outputs have no limit if weights are not `trained`: they are ties that any rounding breaks. Raises
    AccuracyError if an output is missing or has another shape."""
    case, cost, tolerance = arithmetic.case, arithmetic.cost, arithmetic.tolerance
    comparison = StageComparison("converted", ids, framework.outputs, arithmetic)
    row_bytes = max(1, sum(values[:1].nbytes for values in framework.outputs.values()))
    step = max(1, CHUNK_BYTES // row_bytes)
    for start in range(0, len(ids), step):
        rows = range(start, min(start + step, len(ids)))
        chunk = {name: values[rows.start : rows.stop] for name, values in converted.outputs.items()}
        comparison.add(chunk, rows)
        on_progress(f"{rows.stop:,} of {len(ids):,}")
    decisions = framework.decisions.size
    agreed = float(equal_fraction(converted.decisions, framework.decisions).mean())
    differences = comparison.differences
    floating = [output for output in differences if output.kind == "error"]
    limit = arithmetic.decision_limit(decisions) if decisions and (trained or not floating) else None
    costs = {} if cost is None else {output.output: cost.mean[output.output] for output in floating}
    errors_in_costs = {output.output: output.mean / costs[output.output] for output in floating if costs}
    worst_in_costs = max(errors_in_costs, key=errors_in_costs.__getitem__, default="")
    worst = max(floating, key=lambda output: output.largest / (output.largest_limit or 1.0), default=None)
    return Conversion(
        samples=len(ids),
        relative_error=None if worst is None else worst.largest,
        relative_error_limit=tolerance.max_relative_error if worst is None else worst.largest_limit,
        agreement=agreed if decisions else None,
        agreement_limit=limit,
        outputs=differences,
        is_users_file=case.network_model.framework == case.format.name == "onnx" and case.precision == "fp32",
        precision_cost=costs.get(worst_in_costs),
        error_in_costs=errors_in_costs.get(worst_in_costs),
        error_in_costs_limit=PRECISIONS[arithmetic.precision].conversion_factor if errors_in_costs else None,
    )
