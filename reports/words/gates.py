"""What the gates that need no ground truth found, in words."""

from collections.abc import Sequence

from reports.record.quantities import COUNT
from reports.record.schema import GATES, AnswerGate
from reports.words.answers import apart_text, remarks
from reports.words.markdown import markdown


def gate_text(found: AnswerGate) -> str:
    """What one gate tried and found, for the line of its test."""
    said = [found.tried]
    if found.same is not None and not found.wrong:
        said.append(
            f"answers differ {'by' if found.same.relative_difference is not None else 'in'} at most "
            f"{apart_text(found.same)}{remarks(found.same)}"
        )
    return ", ".join(said)


def gate_failures(found: Sequence[AnswerGate]) -> list[str]:
    """What is wrong, a sentence for each gate that did not pass, in the order of GATES."""
    return [f"{one.wrong} (gate {one.gate})" for one in _ordered(found) if one.wrong]


def gates_table(found: Sequence[AnswerGate]) -> str:
    """Each gate with what it asks for, tried and found, as markdown; empty without any."""
    if not found:
        return ""
    rows = [
        [
            GATES.get(one.gate, one.gate),
            one.tried,
            COUNT.cell(one.requests),
            "-" if one.same is None else apart_text(one.same) + remarks(one.same),
            one.wrong or "passed",
        ]
        for one in _ordered(found)
    ]
    return markdown(("Without labels", "Tried", "Requests", "Apart at most", "Verdict"), rows, "llrrl")


def _ordered(found: Sequence[AnswerGate]) -> list[AnswerGate]:
    names = list(GATES)
    return sorted(found, key=lambda one: names.index(one.gate) if one.gate in names else len(names))
