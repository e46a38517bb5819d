"""Sentences on correctness: the conversion, the scores, the gates, and the answers under load."""

from collections.abc import Sequence

from tritonproof.record import Record, correctness, speed
from tritonproof.record.quantities import AGREEMENT, COUNT, METRICS, RATIO, RELATIVE_ERROR, Quantity


def score_text(score: correctness.Score) -> str:
    """Scores by stage: `top-1 97.8 % served (floor 95.9 %), 97.9 % converted, 97.9 % framework`."""
    limit = f" ({tightest_text(score)})" if score.limits else ""
    stages = {f"served{limit}": score.served, "converted": score.converted, "framework": score.framework}
    texts = [f"{metric_text(score, value)} {name}" for name, value in stages.items() if value is not None]
    return f"{score.metric} {', '.join(texts)}"


def ledger_failures(ledger: correctness.Ledger) -> list[str]:
    """A sentence for each score, pair of stages and output that misses its limit; empty if all hold."""
    failures = []
    for score in ledger.scores:
        limit = score.tightest_limit  # missed if any limit is
        if limit is not None and not correctness.meets(score.better, score.served, limit.value):
            served, value = METRICS[score.better].apart(score.served, limit.value)
            side = "below its floor" if score.better == "higher" else "above its ceiling"
            failures.append(f"served {score.metric} {served} is {side} of {value} ({limit.source})")
    for pair in ledger.disagreements:
        if not pair.passed:
            agreement = _with_limit(AGREEMENT, pair.agreement, pair.agreement_limit)
            failures.append(f"{' and '.join(pair.between)} decide differently (agreement {agreement})")
    for output in ledger.outputs:
        if not output.passed:
            text = f"the served output {output.output} is not what the same file gives in process"
            failures.append(f"{text} ({_output_failure(output)})")
    return failures


def accuracy_sentence(record: Record) -> str:
    """The ledger: the scores after each stage, the number of samples, and the decisions that differ."""
    accuracy = record.accuracy
    if accuracy is None or record.main_score is None:
        return no_score_text(record)
    scores = "; ".join(score_text(score) for score in accuracy.scores)
    pairs = [
        f"{pair.count} between {' and '.join(pair.between)}"
        + (f" ({pair.lost} lost, {pair.gained} gained)" if pair.count else "")
        for pair in accuracy.disagreements
    ]
    text = f"on {accuracy.samples} samples, {scores}"
    if record.case.from_repository:
        return text  # there is no earlier stage that could decide differently
    return f"{text}; decisions that differ: {', '.join(pairs) or 'not counted'}"


def tightest_text(score: correctness.Score) -> str:
    """The strictest limit: `floor 95.9 %`, or `ceiling 0.04` for an error; empty if there is none."""
    limit = score.tightest_limit
    word = "floor" if score.better == "higher" else "ceiling"
    return "" if limit is None else f"{word} {metric_text(score, limit.value)}"


def missing_score(record: Record) -> str:
    """The words in place of a missing score."""
    if any(failure.field == "accuracy" for failure in record.failures):
        return "failed"
    if record.case.from_repository:
        return "no labels"
    return "random weights" if record.build.has_random_weights else "not measured"


def no_score_text(record: Record) -> str:
    """The words in place of a missing score in a sentence, with the reason if the record has it."""
    reason = f": {record.why_no_score.strip().rstrip('.')}" if record.why_no_score else ""
    return missing_score(record) + reason


def failed_steps(record: Record, *, hiding: bool) -> list[str]:
    """The steps that failed before they had a result, either those that prove the case or the others, as
    parts of a sentence: `batches, reload failed: Triton has ended`."""
    steps: dict[str, dict[str, None]] = {}
    for failure in record.failures:
        if failure.hides_speed == hiding:
            steps.setdefault(failure.message, {})[failure.step] = None
    return [f"{', '.join(names)} failed: {message}" for message, names in steps.items()]


def unmeasured_text(record: Record) -> str:
    """A sentence on what failed to be measured of a case whose proofs did not fail; empty if nothing did."""
    failed = [] if failed_steps(record, hiding=True) else failed_steps(record, hiding=False)
    return f"Not all was measured: {', and '.join(failed)}." if failed else ""


def conversion_failure(conversion: correctness.Conversion) -> str | None:
    """How far the converted model is from the framework; None if it is near enough."""
    if conversion.passed:
        return None
    sentence = "the converted model differs from the framework"
    if conversion.is_users_file:
        sentence = "ONNX Runtime with its optimisations differs from ONNX Runtime without them"
    outputs = [
        f"; output {difference.output}: {_output_failure(difference)}"
        for difference in conversion.outputs
        if not difference.passed
    ]
    return f"{sentence} ({conversion_text(conversion)}{''.join(outputs)})"


def conversion_text(conversion: correctness.Conversion) -> str:
    """Each comparison with its limit: `relative error 3e-07, limit 1e-05; agreement 100.0 %, limit ...`."""
    costs = " times what the precision itself costs this model"
    comparisons = [
        ("relative error", RELATIVE_ERROR, conversion.relative_error, conversion.relative_error_limit, ""),
        ("mean error", RATIO, conversion.error_in_costs, conversion.error_in_costs_limit, costs),
        ("agreement", AGREEMENT, conversion.agreement, conversion.agreement_limit, ""),
    ]
    return "; ".join(
        f"{name} {_with_limit(quantity, value, limit, suffix)}"
        for name, quantity, value, limit, suffix in comparisons
        if value is not None
    )


def _with_limit(quantity: Quantity, value: float, limit: float | None, suffix: str = "") -> str:
    """`50 % of one sample's, limit 1 %`, with enough digits to tell them apart."""
    shown, shown_limit = quantity.apart(value, value if limit is None else limit)
    return f"{shown}{suffix}" + ("" if limit is None else f", limit {shown_limit}")


def _output_failure(output: correctness.OutputDifference) -> str:
    if output.kind == "differing":
        text = _with_limit(AGREEMENT, output.mean, output.mean_limit, " of its integers differ")
        if output.largest > output.largest_limit:
            largest = _with_limit(AGREEMENT, output.largest, output.largest_limit, " of one sample's")
            text += f", and {largest}"
    else:
        mean = _with_limit(RELATIVE_ERROR, output.mean, output.mean_limit)
        largest = _with_limit(RELATIVE_ERROR, output.largest, output.largest_limit, " of the spread")
        text = f"on the mean {mean}; at most {largest}"
    if output.compared_share < output.compared_share_limit:
        share = _with_limit(AGREEMENT, output.compared_share, output.compared_share_limit, " of the samples")
        text += f"; compared on {share}, as integers in the same rows differ on the others"
    worst = f"sample {output.sample}"
    if output.expected != output.actual:  # they are equal for texts, which a record has no field for
        worst += f": expected {output.expected:.6g}; got {output.actual:.6g}"
    return f"{text}; worst in {worst}; {output.source}" if output.sample else f"{text}; {output.source}"


def metric_text(score: correctness.Score, value: float) -> str:
    return METRICS[score.better].text(value)


def wrong_answers_text(answers: correctness.AnswerComparison | None) -> str:
    """The wrong answers of a load point; empty if there are none, or none was checked."""
    if answers is None or not answers.wrong:
        return ""
    counts = f"{COUNT.text(answers.wrong)} of {COUNT.text(answers.count)}"
    return f"{counts} answers under load are wrong{answers.first_wrong_text}"


def verified_answers_text(results: Sequence[speed.PointResult]) -> str:
    """How many answers under load were compared, in a sentence; empty for none."""
    comparisons = [result.answers_under_load for result in results if result.answers_under_load is not None]
    verified, wrong = sum(each.count for each in comparisons), sum(each.wrong for each in comparisons)
    if not verified:
        return ""
    is_alone = comparisons[0].expected_from == "alone"
    basis = "the server's own to the same samples, one request at a time" if is_alone else "those in process"
    text = f"{COUNT.text(verified)} answers under load were compared with {basis}"
    if left_out := sum(each.left_out for each in comparisons):
        text += f" ({COUNT.text(left_out)} by their integers alone, as a few of these differ)"
    return f"{text}: {COUNT.text(wrong)} were wrong." if wrong else f"{text}; none was wrong."


def answer_remarks(answers: correctness.AnswerComparison) -> str:
    """Remarks on passing answers: not all compared, or all alike; may be empty."""
    texts = []
    if answers.left_out:
        left_out = COUNT.text(answers.left_out)
        texts.append(f"{left_out} compared by their integers alone, as a few of these differ")
    if not answers.tells_apart:
        texts.append("all samples have the same answer within rounding, so that swapped ones are not seen")
    return f" ({'; '.join(texts)})" if texts else ""


def difference_text(answers: correctness.AnswerComparison) -> str:
    """The difference of answers to one sample: `3e-07 of the spread`, or `0.12 % of the elements`."""
    difference, agreement = answers.relative_difference, answers.agreement
    if difference is not None and (difference > 0 or agreement == 1):
        return f"{RELATIVE_ERROR.text(difference)} of the spread"
    return f"{AGREEMENT.text(0.0 if agreement is None else 1 - agreement)} of the elements"


def gate_text(gate: correctness.GateResult) -> str:
    answers = gate.answer_comparison
    if answers is None or gate.fault:
        return gate.tried
    return f"{gate.tried}, answers differ by {difference_text(answers)}{answer_remarks(answers)}"
