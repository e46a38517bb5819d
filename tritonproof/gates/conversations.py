"""Does a sequence model, or a decoupled one, give the same answers again, and on another server?"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from tritonproof.accuracy.answer_comparison import ExpectedAnswers
from tritonproof.accuracy.expected import ExpectedGroup, expect_by_signature
from tritonproof.accuracy.limits import AnswerLimits, conversation_limits
from tritonproof.accuracy.outputs import why_undeclared
from tritonproof.base.errors import AccuracyError
from tritonproof.client.requests import Answer, single_answer
from tritonproof.client.streams import StreamedAnswers, StreamedRequest, converse, sequence_of
from tritonproof.gates.context import typical_difference
from tritonproof.gates.declared import fault_in
from tritonproof.record.correctness import GateResult
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Model, Samples

_REQUEST_COUNTS = {"decoupled": 64, "sequence": 16}
"""The number of requests in a round, sent one after the other or as one sequence, by kind of exchange."""

_ByNumber = Mapping[tuple[int, int], Arrays]
"""Answers by two numbers from 0: the request's, and the answer's among all answers to that request."""


def compare_conversations(
    server: Server,
    model: Model,
    samples: Samples,
    max_sequences: int = 2,
    send: Callable[[Server, Model, Sequence[StreamedRequest]], Sequence[StreamedAnswers]] = converse,
) -> GateResult:
    """Send the same requests three times, and those of a sequence also in turns with another sequence's,
    unless the model takes one at a time. Each output must be in an answer; the noise of times two and three
    is allowed. Raises ProofError for a refused request, AccuracyError for undeclared answers."""
    is_sequence = model.exchange == "sequence"
    requests = _requests(model, samples)
    first, second, third = [_by_number(send(server, model, requests)) for _time in range(3)]
    allowed = _allowed(model, second, third)
    difference = _difference(first, second, allowed, "when it was asked again")
    difference = difference or _difference(first, third, allowed, "when it was asked a third time")
    rounds, one = 3, "a sequence of " if is_sequence else ""
    tried = f"{len(first)} answers to {one}{len(requests)} requests, sent again"
    if is_sequence and max_sequences < 2:
        tried += ", alone as the model takes one at a time"
    elif is_sequence and not difference:
        rounds += 2
        others = [samples.read([(number + 1) % len(samples)]) for number in range(len(requests))]
        pairs = zip(requests, sequence_of(others, 8), strict=True)
        in_turns = send(server, model, list(itertools.chain.from_iterable(pairs)))[::2]
        difference = _difference(first, _by_number(in_turns), allowed, "beside another sequence")
    if not difference:
        _require_declared(model, first)
    lacking = ", ".join(sorted({tensor.name for tensor in model.outputs}.difference(*first.values())))
    fault = f"no answer has the output {lacking}, which is declared" if lacking else ""
    if difference:
        fault = f"the same requests got different answers: {difference}"
    return GateResult("conversation", rounds * len(requests), tried, fault, compares_conversations=True)


def compare_server_conversations(
    server: Server, other: Server, model: Model, samples: Samples, baseline_name: str
) -> GateResult:
    """Send the same requests to both servers in rounds, and compare the second rounds within the noise of
    `other`. A first round does not count: it may change what a model keeps, which is no noise."""
    requests = _requests(model, samples)
    _, current = [_by_number(converse(server, model, requests)) for _time in range(2)]
    _, second, third = [_by_number(converse(other, model, requests)) for _time in range(3)]
    difference = _difference(second, current, _allowed(model, second, third), "here")
    tried = f"{len(second)} answers beside {baseline_name}"
    return GateResult("baseline", 5 * len(requests), tried, difference, compares_conversations=True)


def _requests(model: Model, samples: Samples) -> list[StreamedRequest]:
    """The requests of each round: one sequence, or requests one after the other."""
    inputs = [samples.read([number % len(samples)]) for number in range(_REQUEST_COUNTS[model.exchange])]
    return sequence_of(inputs, 7)  # always the same number, as a model may answer with it


def _by_number(answers: Sequence[StreamedAnswers]) -> _ByNumber:
    return {(number, index): row for number, rows in enumerate(answers) for index, row in enumerate(rows)}


def _require_declared(model: Model, replies: _ByNumber) -> None:
    """Raise AccuracyError for an output not as declared, or not finite; an answer may lack outputs."""
    declared = {tensor.name: tensor for tensor in model.outputs}
    for key, outputs in replies.items():
        for name, values in outputs.items():
            problem = why_undeclared(declared[name], values if model.batched else values[None])
            if problem := problem or fault_in(name, values, _answer_name(key)):
                raise AccuracyError(f"{_answer_name(key)} is not as declared: {problem}", where=model.name)


def _difference(first: _ByNumber, again: _ByNumber, allowed: Mapping[object, AnswerLimits], when: str) -> str:
    """In words, the first difference of `again` from `first`, or that neither has answers; else empty."""
    if not first and not again:
        return "no request got any answer"
    if unpaired := first.keys() ^ again.keys():
        return f"request {min(unpaired)[0] + 1} got another number of answers {when}"
    answers = _answers_at(again, first)
    for signature, expected in _expected(first).items():
        limits = allowed.get(signature, conversation_limits())
        result = ExpectedAnswers({signature: expected}, limits).compare(answers).result
        if (wrong := result.first_wrong) is not None:
            change = f"{wrong.output} is {wrong.actual}, and was {wrong.expected}"
            return f"{wrong.sample} is another {when}: {change}"
    return ""


def _allowed(model: Model, second: _ByNumber, third: _ByNumber) -> dict[object, AnswerLimits]:
    """The limits of answers by their signature: the user's tolerances, and the noise between the `second` and
    `third` round. The first round does not count: it may change what the model keeps."""
    answers, tolerances = _answers_at(third, second), model.tolerances.values()
    return {
        signature: conversation_limits(tolerances, typical_difference(expected, answers))
        for signature, expected in _expected(second).items()
    }


def _expected(replies: _ByNumber) -> Mapping[object, ExpectedGroup]:
    """By signature, the `replies` as expected answers: each counts as the answer to a sample of its own."""
    return expect_by_signature(dict(enumerate(replies.values())), [_answer_name(key) for key in replies])


def _answer_name(key: tuple[int, int]) -> str:
    return f"answer {key[1] + 1} to request {key[0] + 1}"


def _answers_at(replies: _ByNumber, keys: Iterable[tuple[int, int]]) -> list[Answer]:
    """The replies with one of these `keys`; a key's position is the sample index of its answer."""
    return [single_answer(row, replies[key]) for row, key in enumerate(keys) if key in replies]
