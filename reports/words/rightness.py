"""What a record says of a case's rightness, in words: its scores, their limits, and why its speed is not shown."""

from reports.record.schema import (
    Accuracy,
    Comparison,
    Disagreement,
    Limit,
    Load,
    Parity,
    Record,
    Score,
    has_passed,
    meets,
)


def why_no_speed(record: Record) -> str | None:
    """The sentence that stands in place of a case's speed, or None where its speed may be shown."""
    if has_passed(record):
        return None
    failures = [conversion_failure(record.conversion), *_accuracy_failures(record)]
    return f"No throughput is shown: {', and '.join(failure for failure in failures if failure)}."


def comparison_text(one: Comparison) -> str:
    """The ratio with its interval, to what, and what that shows: `ratio 0.94 (0.92 to 0.96) to HEAD~1: slower ...`."""
    return f"ratio {ratio_text(one)} to {one.reference}: {comparison_verdict(one)}"


def ratio_text(one: Comparison) -> str:
    """The ratio with its interval, with as many decimals as tell its bounds and the limit apart."""
    ratio, limit = one.ratio, 1 - one.allowed_slowdown
    texts = [f"{value:.2f}" for value in (ratio.value, ratio.low, ratio.high, limit)]
    if len({*texts[1:]}) < 3:
        texts = [f"{value:.3f}" for value in (ratio.value, ratio.low, ratio.high)]
    return f"{texts[0]} ({texts[1]} to {texts[2]})"


def comparison_verdict(one: Comparison) -> str:
    """What a comparison shows, and where it shows nothing how long it would take."""
    if one.verdict == "slower":
        return f"slower than the {100 * one.allowed_slowdown:g} % allowed, shown at {100 * one.ratio.confidence:g} %"
    if one.verdict == "not shown" and one.seconds_to_settle is not None:
        seconds = one.seconds_to_settle
        more = f"about {seconds:.0f} s" if seconds < 3600 else "an hour or"
        return f"not shown, {more} more would settle it"
    return one.verdict


def main_score(record: Record) -> Score | None:
    """The score that tables show; None where the task's metric was not measured."""
    if record.accuracy is None or record.accuracy_missing or not record.accuracy.scores:
        return None
    return record.accuracy.scores[0]


def score_text(score: Score) -> str:
    """One metric after each stage, the served one first."""
    stages = (("served", score.served), ("converted", score.converted), ("framework", score.framework))
    return f"{score.metric} " + ", ".join(f"{number(score, value)} {name}" for name, value in stages)


def limit_text(score: Score, limit: Limit) -> str:
    """On which side of a limit the served score lies, both with as many decimals as tell them apart."""
    served, value = _apart(score, score.served, limit.value)
    higher = score.better == "higher"
    place = (
        ("below its floor" if higher else "above its ceiling")
        if limit in unmet(score)
        else "within its limit"
    )
    return f"served {score.metric} {served} is {place} of {value} ({limit.source})"


def unmet(score: Score) -> list[Limit]:
    """The limits that the served score does not keep."""
    return [limit for limit in score.limits if not meets(score.better, score.served, limit.value)]


def ledger_failures(accuracy: Accuracy) -> list[str]:
    """What a ledger does not keep, a sentence for each score and pair of stages; empty where it holds."""
    failures = []
    for score in accuracy.scores:
        worst = tightest(score, unmet(score))
        failures += [limit_text(score, worst)] if worst else []
    failures += [_agreement_failure(one) for one in accuracy.disagreements if _is_unmet(one)]
    if failures or accuracy.passed:
        return failures
    return [f"the accuracy check failed ({_scores(accuracy)})"]


def accuracy_sentence(record: Record) -> str:
    """The ledger: the scores after each stage, on how many samples, and where neighbouring stages disagree."""
    accuracy = record.accuracy
    if accuracy is None or main_score(record) is None:
        return unmeasured(record)
    scores = "; ".join(_ledger_of(score) for score in accuracy.scores)
    differ = ", ".join(_disagreement(one) for one in accuracy.disagreements)
    return f"on {accuracy.samples} samples, {scores}; decisions that differ: {differ or 'not counted'}"


def _ledger_of(score: Score) -> str:
    earlier = (("framework", score.framework), ("converted", score.converted))
    return f"{_served(score)}, " + ", ".join(f"{name} {number(score, value)}" for name, value in earlier)


def _served(score: Score) -> str:
    text = f"{score.metric} {number(score, score.served)}"
    limit = tightest(score)
    word = "floor" if score.better == "higher" else "ceiling"
    return text if limit is None else f"{text} ({word} {number(score, limit.value)})"


def tightest(score: Score, among: list[Limit] | None = None) -> Limit | None:
    """The limit that is hardest to keep, of all or of some; None where there is none."""
    choose = max if score.better == "higher" else min
    limits = list(score.limits) if among is None else among
    return choose(limits, key=lambda limit: limit.value, default=None)


def _disagreement(one: Disagreement) -> str:
    lost = f" ({one.lost} lost, {one.gained} gained)" if one.count else ""
    share = f", {1 - one.agreement:.2%} of their parts" if one.count and one.agreement > 1 - one.count else ""
    return f"{one.count} between {' and '.join(one.between)}{lost or share}"


def unscored(record: Record) -> str:
    """What stands in place of a score, in two words."""
    return "random weights" if record.build.weights.startswith("random") else "not measured"


def unmeasured(record: Record) -> str:
    """Why there is no score."""
    reason = f": {record.accuracy_missing.strip().rstrip('.')}" if record.accuracy_missing else ""
    return unscored(record) + reason


def conversion_failure(conversion: Parity | None) -> str | None:
    """How far the converted model is from the framework; None where it is near enough."""
    if conversion is None:
        return "the converted model was not compared with the framework"
    if conversion.passed:
        return None
    parts = []
    if conversion.relative_error is not None:
        parts.append(
            f"relative error {conversion.relative_error:.2g}, limit {conversion.relative_error_limit:.2g}"
        )
    if conversion.agreement_limit is not None:
        parts.append(f"agreement {conversion.agreement:.2%}, limit {conversion.agreement_limit:.2%}")
    return f"the converted model differs from the framework ({'; '.join(parts)})"


def _accuracy_failures(record: Record) -> list[str]:
    """What is wrong with the ledger; empty where nothing is."""
    accuracy = record.accuracy
    missing = main_score(record) is None and not record.build.weights.startswith("random")
    failures = [f"accuracy was {unmeasured(record)}"] if missing else []
    if accuracy is None or accuracy.passed:
        return failures
    return failures + ledger_failures(accuracy)


def _scores(accuracy: Accuracy) -> str:
    return "; ".join(_ledger_of(score) for score in accuracy.scores)


def _is_unmet(one: Disagreement) -> bool:
    return one.agreement_limit is not None and one.agreement < one.agreement_limit


def _agreement_failure(one: Disagreement) -> str:
    return (
        f"{' and '.join(one.between)} decide differently "
        f"(agreement {one.agreement:.2%}, limit {one.agreement_limit:.2%})"
    )


def number(score: Score, value: float, decimals: int = 2) -> str:
    """A value of the metric: in percent where it is a fraction."""
    if score.better == "higher":
        return f"{100 * value:.{decimals}f}".removesuffix("0") + " %"
    return f"{value:.{decimals + 2}g}"


def _apart(score: Score, one: float, other: float) -> tuple[str, str]:
    """Both values with as many decimals as it takes to tell them apart."""
    pairs = ((number(score, one, d), number(score, other, d)) for d in range(2, 12))
    return next((pair for pair in pairs if pair[0] != pair[1]), (str(one), str(other)))


def notes(load: Load) -> str:
    """What a reader should know about a load point, in words; empty where there is nothing."""
    return "; ".join(mark.text for mark in load.marks)
