"""What a record says of a case's rightness, in words: its score, its floors, and why its speed is not shown."""

from reports.record import Accuracy, Conversion, Disagreement, Record, has_passed


def why_no_speed(record: Record) -> str | None:
    """The sentence that stands in place of a case's speed, or None where its speed may be shown."""
    if has_passed(record):
        return None
    failures = [_conversion_failure(record.conversion), _accuracy_failure(record)]
    return f"No throughput is shown: {', and '.join(failure for failure in failures if failure)}."


def served_score(record: Record) -> str:
    """The served score with its highest floor, or why there is none."""
    if record.accuracy is None:
        return unscored(record)
    accuracy = record.accuracy
    score = f"{accuracy.metric} {score_text(accuracy, accuracy.served)}"
    highest = max((floor.value for floor in accuracy.floors), default=None)
    return score if highest is None else f"{score} (floor {score_text(accuracy, highest)})"


def accuracy_sentence(record: Record) -> str:
    """The ledger: the score after each stage, on how many samples, and where neighbouring stages disagree."""
    accuracy = record.accuracy
    if accuracy is None:
        return unmeasured(record)
    earlier = (
        f"{name} {score_text(accuracy, score)}"
        for name, score in (("framework", accuracy.framework), ("converted", accuracy.converted))
    )
    differ = ", ".join(_disagreement(one) for one in accuracy.disagreements)
    return (
        f"{served_score(record)} on {accuracy.samples} samples; {', '.join(earlier)}; "
        f"decisions that differ: {differ or 'not counted'}"
    )


def _disagreement(one: Disagreement) -> str:
    lost = f" ({one.lost} lost, {one.gained} gained)" if one.count else ""
    return f"{one.count} between {' and '.join(one.between)}{lost}"


def unscored(record: Record) -> str:
    """What stands in place of a score, in two words."""
    return "random weights" if record.build.weights.startswith("random") else "not measured"


def unmeasured(record: Record) -> str:
    """Why there is no score."""
    reason = f": {record.accuracy_missing.strip().rstrip('.')}" if record.accuracy_missing else ""
    return unscored(record) + reason


def _conversion_failure(conversion: Conversion | None) -> str | None:
    if conversion is None:
        return "the converted model was not compared with the framework"
    if conversion.passed:
        return None
    problem = (
        f"the converted model differs from the framework (relative error {conversion.relative_error:.2g}, "
        f"limit {conversion.relative_error_limit:.2g}"
    )
    if conversion.agreement_limit is not None:
        problem += f"; agreement {conversion.agreement:.2%}, limit {conversion.agreement_limit:.2%}"
    return problem + ")"


def _accuracy_failure(record: Record) -> str | None:
    accuracy = record.accuracy
    if accuracy is None:
        return None if record.build.weights.startswith("random") else f"accuracy was {unmeasured(record)}"
    if accuracy.passed:
        return None
    unmet = [floor for floor in accuracy.floors if accuracy.served < floor.value]
    if not unmet:
        return f"the accuracy check failed (served {served_score(record)}, framework {score_text(accuracy, accuracy.framework)})"
    highest = max(unmet, key=lambda floor: floor.value)
    served, floor = _apart(accuracy, accuracy.served, highest.value)
    return f"served {accuracy.metric} {served} is below its floor of {floor} ({highest.source})"


def score_text(accuracy: Accuracy, value: float, decimals: int = 2) -> str:
    """A value of the metric: in percent where the metric is a fraction, as every value of the ledger shows."""
    values = (accuracy.framework, accuracy.converted, accuracy.served, *(f.value for f in accuracy.floors))
    if all(0 <= v <= 1 for v in values):
        return f"{100 * value:.{decimals}f}".removesuffix("0") + " %"
    return f"{value:.{decimals + 2}g}"


def _apart(accuracy: Accuracy, one: float, other: float) -> tuple[str, str]:
    """Both values with as many decimals as it takes to tell them apart."""
    pairs = ((score_text(accuracy, one, d), score_text(accuracy, other, d)) for d in range(2, 12))
    return next((pair for pair in pairs if pair[0] != pair[1]), (str(one), str(other)))
