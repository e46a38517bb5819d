"""Does a model of sequences, or with any number of answers, give the same answers to the same messages, and
those of another server?"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from tritonproof.accuracy.compare_answers import MIN_NOISE, NOISE_FACTOR, compare, typical_difference
from tritonproof.accuracy.expected import Answer, AnswerLimits, expect_by_signature, single_answer
from tritonproof.base.errors import AccuracyError
from tritonproof.gates.declared import fault_in
from tritonproof.record.schema import Conversation, GateResult
from tritonproof.serve.messages import Answers, Message, converse, sequence_of, undeclared
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Model, Samples

_STEPS = {"decoupled": 64, "sequence": 16}
"""How many requests are sent one after the other, or as one sequence."""
_MAX_NOISE = 2e-3
"""The most noise of answers to the same messages, as a share of the spread: twice what a half rounds."""

_Replies = Mapping[tuple[int, int], Arrays]
"""The answers by the numbers of their request and of themselves, from 0."""


def compare_conversations(
    server: Server,
    model: Model,
    samples: Samples,
    at_once: int = 2,
    send: Callable[[Server, Model, Sequence[Message]], Sequence[Answers]] = converse,
) -> Conversation:
    """Send the same messages three times, and those of a sequence a fourth time in turns with another
    sequence's, unless the model takes one alone `at_once`. Every output must repeat within the third time's
    noise. Raises ProofError if a request is refused, and AccuracyError if an output is not as declared."""
    is_sequence = model.exchange == "sequence"
    messages = _messages(model, samples)
    first, second, third = [_replies(send(server, model, messages)) for _time in range(3)]
    noise = _noise(second, third)
    difference = _difference(first, second, noise, "when it was asked again")
    difference = difference or _difference(first, third, noise, "when it was asked a third time")
    alone = is_sequence and at_once < 2
    if is_sequence and not alone and not difference:
        others = [samples.read([(number + 1) % len(samples)]) for number in range(len(messages))]
        pairs = zip(messages, sequence_of(others, 8), strict=True)
        in_turns = send(server, model, list(itertools.chain.from_iterable(pairs)))[::2]
        difference = _difference(first, _replies(in_turns), noise, "beside another sequence")
    if not difference:
        _check_declared(model, first)
    if not first:
        difference = "no request got any answer"
    kind: Literal["sequence", "decoupled"] = "sequence" if is_sequence else "decoupled"
    return Conversation(kind, len(messages), len(first), difference, not difference, alone)


def compare_server_conversations(
    server: Server, other: Server, model: Model, samples: Samples, baseline_name: str
) -> GateResult:
    """Send the same messages to both servers, and hold answers to the other's within its noise. What the
    first time leaves in a model is no noise, so this compares the second times."""
    messages = _messages(model, samples)
    _, here = [_replies(converse(server, model, messages)) for _time in range(2)]
    _, second, third = [_replies(converse(other, model, messages)) for _time in range(3)]
    difference = _difference(second, here, _noise(second, third), "here")
    return GateResult(
        "baseline", 5 * len(messages), f"{len(second)} answers beside {baseline_name}", difference
    )


def _messages(model: Model, samples: Samples) -> list[Message]:
    """The messages to send again and again: one sequence, or requests one after the other."""
    steps = [samples.read([number % len(samples)]) for number in range(_STEPS[model.exchange])]
    return sequence_of(steps, 7)  # always the same number, as a model may answer with it


def _replies(answers: Sequence[Answers]) -> _Replies:
    return {(number, place): row for number, rows in enumerate(answers) for place, row in enumerate(rows)}


def _check_declared(model: Model, replies: _Replies) -> None:
    """Raise AccuracyError for an output that is not as declared. Answers may have any number of rows, and
    lack some outputs."""
    declared = {tensor.name: tensor for tensor in model.outputs}
    for place, outputs in replies.items():
        for name, values in outputs.items():
            problem = undeclared(declared[name], values if model.batched else values[None])
            if problem := problem or fault_in(name, values, _answer_name(place)):
                what = f"{_answer_name(place)} is not as declared: {problem}"
                raise AccuracyError(what, where=model.name)


def _difference(first: _Replies, again: _Replies, noise: Mapping[object, float], when: str) -> str:
    """The first difference from the first answers to the same requests, in words; empty if there is none."""
    if unpaired := first.keys() ^ again.keys():
        return f"request {min(unpaired)[0] + 1} got another number of answers {when}"
    for key, (places, expected) in expect_by_signature(first, _answer_name).items():
        allowed = min(NOISE_FACTOR * noise.get(key, 0.0), _MAX_NOISE)
        limits = AnswerLimits(max(MIN_NOISE, allowed), np.inf, 1.0)
        wrong = compare(expected, _answers_at(again, places), limits).first_wrong
        if wrong is not None:
            change = f"{wrong.output} is {wrong.given}, and was {wrong.expected}"
            return f"{wrong.sample} is another {when}: {change}"
    return ""


def _noise(second: _Replies, third: _Replies) -> dict[object, float]:
    """How far the third answers typically are from the second, by their signature. Both follow the same
    messages; what the first time leaves in the model is no noise."""
    return {
        key: typical_difference(expected, _answers_at(third, places))
        for key, (places, expected) in expect_by_signature(second, _answer_name).items()
    }


def _answer_name(place: tuple[int, int]) -> str:
    return f"answer {place[1] + 1} to request {place[0] + 1}"


def _answers_at(replies: _Replies, places: Sequence[tuple[int, int]]) -> list[Answer]:
    """The answers at these places, each as the row of its place, without missing ones."""
    return [single_answer(row, replies[place]) for row, place in enumerate(places) if place in replies]
