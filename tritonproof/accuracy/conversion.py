"""Does a converted model compute in process what the framework's model computes?"""

from collections.abc import Sequence

from tritonproof.accuracy.expected import expect
from tritonproof.accuracy.limits import min_agreement_for, stage_limits
from tritonproof.accuracy.outputs import CHUNK_BYTES, equal_fraction
from tritonproof.accuracy.precision_cost import PrecisionCost
from tritonproof.accuracy.precisions import PRECISIONS, tolerance_of
from tritonproof.accuracy.stages import StageAnswers, StageComparison
from tritonproof.record.schema import Conversion, within_limits
from tritonproof.spec import Case, OnProgress


def compare_conversion(
    case: Case,
    precision: str,
    framework: StageAnswers,
    converted: StageAnswers,
    ids: Sequence[str],
    cost: PrecisionCost | None,
    *,
    trained: bool,
    on_progress: OnProgress = lambda _text: None,
) -> Conversion:
    """Compare all outputs of the `converted` model with those of the `framework`; both stages must have kept
    them. The limits follow from the `cost` of the precision, or if it is None from the case's tolerance.
    Decisions on floating-point outputs have no limit if weights are not `trained`: they are ties that any
    rounding breaks. Raises AccuracyError if an output is missing or has another shape."""
    assert framework.outputs is not None
    assert converted.outputs is not None
    elements = {name: values.size for name, values in framework.outputs.items()}
    limits = stage_limits(case, precision, cost, elements, len(ids), same_file=False)
    comparison = StageComparison(expect(ids, framework.outputs), limits, "converted", "the framework's")
    row_bytes = max(1, sum(values[:1].nbytes for values in framework.outputs.values()))
    step = max(1, CHUNK_BYTES // row_bytes)
    for start in range(0, len(ids), step):
        rows = range(start, min(start + step, len(ids)))
        chunk = {name: values[rows.start : rows.stop] for name, values in converted.outputs.items()}
        comparison.add(chunk, rows)
        on_progress(f"{rows.stop:,} of {len(ids):,}")
    outputs = comparison.outputs
    decided = framework.decisions.size > 0
    agreed = float(equal_fraction(converted.decisions, framework.decisions).mean())
    floating = [output for output in outputs if output.kind == "error"]
    tolerance = tolerance_of(case, precision)
    limit = tolerance.min_agreement if decided and (trained or not floating) else None
    if limit is not None and cost is not None:
        limit = max(limit, min_agreement_for(cost.agreement, framework.decisions.size))
    costs = {} if cost is None else {output.output: cost.mean[output.output] for output in floating}
    errors_in_costs = {output.output: output.mean / costs[output.output] for output in floating if costs}
    worst_in_costs = max(errors_in_costs, key=errors_in_costs.__getitem__, default="")
    worst = max(floating, key=lambda output: output.largest / (output.largest_limit or 1.0), default=None)
    return Conversion(
        samples=len(ids),
        relative_error=None if worst is None else worst.largest,
        relative_error_limit=tolerance.max_relative_error if worst is None else worst.largest_limit,
        agreement=agreed if decided else None,
        agreement_limit=limit,
        passed=all(map(within_limits, outputs)) and (limit is None or agreed >= limit),
        outputs=outputs,
        same_file=case.model.framework == case.format.name == "onnx" and case.precision == "fp32",
        precision_cost=costs.get(worst_in_costs),
        error_in_costs=errors_in_costs.get(worst_in_costs),
        error_in_costs_limit=PRECISIONS[precision].conversion_factor if errors_in_costs else None,
    )
