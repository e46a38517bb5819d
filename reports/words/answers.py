"""What is said of answers: of those that were verified under load, of conversations, and of the ways in which a sample is sent."""

from collections.abc import Sequence

from reports.record.quantities import AGREEMENT, COUNT, RELATIVE_ERROR
from reports.record.schema import (
    Conversation,
    Load,
    SameAnswers,
    VerifiedAnswers,
)

NOISY = 1e-4
"""The share of the spread between samples beyond which answers that pass are marked: those of right models in FP32 were
measured to be 0 to 1.5e-6 apart."""
ALL_ALIKE = "all samples get one answer, so that nothing shows whose answer one is"


def wrong_answers(load: Load) -> str:
    """What was wrong with the answers of a load point, in a sentence; empty where nothing was, or none was looked at."""
    return wrong_text(load.answers, "under load")


def wrong_text(found: VerifiedAnswers | None, where: str) -> str:
    """What was wrong with some answers, `where` saying when they were given; empty where nothing was, or none was looked
    at."""
    if found is None or not found.wrong:
        return ""
    text = f"{COUNT.text(found.wrong)} of {COUNT.text(found.verified)} answers {where} are wrong"
    first = found.first_wrong
    if first is None:
        return text
    return f"{text}, the first to sample {first.sample}: {first.output} is {first.given}, and {first.expected} {found.held_to}"


def verified_answers(loads: Sequence[Load]) -> str:
    """How many answers under load were compared with those in process, in a sentence; empty where none were."""
    found = [load.answers for load in loads if load.answers is not None]
    verified, wrong = sum(one.verified for one in found), sum(one.wrong for one in found)
    if not verified:
        return ""
    alone = found[0].held_to == "alone"
    those = "the server's own to the same samples, one request at a time" if alone else "those in process"
    seen = f"{COUNT.text(verified)} answers under load were compared with {those}"
    left_out = sum(one.left_out for one in found)
    if left_out:
        seen += f" ({COUNT.text(left_out)} by their integers alone, as a few of these differ)"
    if wrong:
        return f"{seen}: {COUNT.text(wrong)} were wrong."
    # Of so many right ones in a row: 1 - 0.05 ** (1 / n) is less than 3 / n (the rule of three).
    rare = (
        f": with 95 % confidence fewer than one in {COUNT.text(verified // 3)} is" if verified >= 30 else ""
    )
    return f"{seen}, none was wrong{rare}."


def conversation_text(found: Conversation) -> str:
    """The number of requests and answers of a conversation with a model that does not give one answer to each request."""
    asked = (
        f"a sequence of {found.requests} requests{', alone as the model takes one at a time' if found.alone else ''}"
        if found.kind == "sequence"
        else f"{found.requests} requests"
    )
    answers = f"{COUNT.text(found.answers)} answers to {asked}"
    return f"{answers}, {'the same again' if found.passed else found.difference}"


def conversation_failure(found: Conversation | None) -> str:
    """The difference between two conversations with the same requests; empty where there was none."""
    return (
        f"answers depend on more than what is asked: {found.difference}" if found and not found.passed else ""
    )


def same_answers_text(found: SameAnswers) -> str:
    """How far answers to one sample are apart, however it is sent."""
    size = apart_text(found)
    if found.passed:
        return f"answers to one sample differ by {size} at most, however it is sent{remarks(found)}"
    given = "no numbers" if found.relative_difference is None and found.agreement == 1 else f"{size} apart"
    return (
        f"answers depend on how a sample is sent: alone, in a batch and with many requests in flight those to "
        f"{found.sample} are {given}"
    )


def remarks(found: SameAnswers) -> str:
    """What a reader has to know of answers that are near enough: that they are noisy, that some were not compared, or that
    nothing tells them apart. Empty where there is nothing of that kind."""
    said = []
    if is_noisy(found):
        said.append(f"noisy: most models stay below {NOISY:g}")
    if found.left_out:
        said.append(
            f"{COUNT.text(found.left_out)} compared by their integers alone, as a few of these differ"
        )
    if not found.tells_apart:
        said.append(ALL_ALIKE)
    return f" ({'; '.join(said)})" if said else ""


def is_noisy(found: SameAnswers) -> bool:
    """Whether answers that pass are further apart than those of most models."""
    return found.relative_difference is not None and found.relative_difference > NOISY


def apart_text(found: SameAnswers) -> str:
    """By how much answers to one sample differ: `3e-07 of the spread`, or `0.12 % of the elements`."""
    if found.relative_difference is not None:
        return f"{RELATIVE_ERROR.text(found.relative_difference)} of the spread"
    return f"{AGREEMENT.text(1 - found.agreement)} of the elements"
