"""Gates that send samples in several ways, or to two servers, and compare with the answers given alone."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import structs

from tritonproof.accuracy.answer_comparison import AnswerFinding, ExpectedAnswers, merge_findings
from tritonproof.accuracy.expected import ExpectedGroup, expect, signature
from tritonproof.accuracy.limits import limits_between_servers
from tritonproof.accuracy.outputs import Spread, inferred_precision
from tritonproof.client.input_data import InputData
from tritonproof.client.requests import Answer, ServedModel, single_answer
from tritonproof.gates.context import GateContext, SingleAnswers, gate_finding
from tritonproof.record.correctness import AnswerComparison, GateResult
from tritonproof.serve.messages import content_size_bytes
from tritonproof.spec import Arrays

_KEPT_BYTES = 256 << 20
"""Bytes of answers to keep before they are compared."""


def repeated_gate(context: GateContext) -> AnswerFinding[GateResult]:
    """Send each sample again alone, in the same and in the reverse order. A request then follows another one
    than before, so its answer shows what the request before left in the model. The first answer after a
    loading, and answers to requests without optional inputs, show this too."""
    served, singles = context.served, context.single_answers
    backwards = served.ask([[sample] for sample in sorted(singles.by_sample, reverse=True)])
    findings = [singles.within_noise.compare([*singles.repeats, *backwards])]
    text = "each sample again alone, in the same and in reverse order"
    if first := _first_answer(context):
        findings.append(_expected_after_load(context).compare(first))
        text += ", the first request after the model was loaded"
    if (lacking := _without_optional(served, singles)) is not None:
        findings.append(lacking)
        text += ", and requests without the optional inputs"
    whole = merge_findings(findings)
    return gate_finding("repeated", context, whole, whole.result.count, text)


def reload_gate(context: GateContext) -> AnswerFinding[GateResult]:
    """Send samples alone again, to a model that was loaded anew after the answers given alone."""
    served, singles = context.served, context.single_answers
    answers = [*_first_answer(context), *served.ask([[sample] for sample in sorted(singles.by_sample)])]
    text = "each sample again alone, after the model was loaded again"
    finding = _expected_after_load(context).compare(answers)
    return gate_finding("reload", context, finding, len(answers), text)


def in_flight_gate(context: GateContext) -> AnswerFinding[GateResult]:
    """Send samples of all shapes, each in its own request, up to 64 in flight, so that the server joins
    requests to batches and spreads them over its instances."""
    served, singles = context.served, context.single_answers
    in_flight = context.most_in_flight(1)
    requests = served.data.requests(1)
    count = max(len(requests), in_flight)
    is_joined = context.loaded.joins_requests and context.takes_batches
    expected = singles.across_kernels if is_joined else singles.within_noise
    answers = served.ask(list(np.resize(requests, (count, 1))), in_flight)
    text = f"{count} requests of one sample each, {in_flight} in flight"
    return gate_finding("in-flight", context, expected.compare(answers), count, text)


def batches_gate(context: GateContext) -> AnswerFinding[GateResult]:
    """Send samples in batches of every size up to 64, and of larger sizes that decide which kernels run.
    Batches of two sizes may round differently. In batches of one size, the answer at a position may depend
    neither on the samples beside it nor, in the largest batch, on the instance that computes it."""
    served, singles = context.served, context.single_answers
    answers: list[Answer] = []
    with_alone: list[AnswerFinding[AnswerComparison]] = []
    by_position: list[AnswerFinding[AnswerComparison]] = []
    sent = varied = 0

    def compare_kept() -> None:
        nonlocal sent
        with_alone.append(singles.across_kernels.compare(answers))
        sent += len(answers)
        answers.clear()

    count = served.data.batchable_count
    sizes, chosen = context.batch_sizes, context.kernel_sizes
    for size in sizes:
        base = (size + np.arange(size)) % count
        with_others = _neighbour_variants(base, count) if size in chosen else []
        first, *others = served.ask([base, *with_others])
        varied += bool(others)
        answers += [first, *others]
        by_position += [_compare_positions(served, singles, first, answer) for answer in others]
        if sum(content_size_bytes(answer.outputs) for answer in answers) > _KEPT_BYTES:
            compare_kept()
    largest = sizes[-1]
    requests = [  # enough at once for each instance to compute some
        (shift + np.arange(largest)) % count
        for shift in range(min(8, context.most_in_flight(largest), count))
    ]
    before = {tuple(answer.sample_indices): answer for answer in served.ask(requests)}
    answers_at_once = served.ask(requests, len(requests))
    answers += [*before.values(), *answers_at_once]
    if not context.loaded.joins_requests or 2 * largest > context.largest_batch:
        pairs = ((before[tuple(answer.sample_indices)], answer) for answer in answers_at_once)
        by_position += [_compare_positions(served, singles, *pair) for pair in pairs]
    compare_kept()
    text = (
        f"{len(sizes)} of {context.largest_batch} batch sizes, {sizes[0]} to "
        f"{largest}, {varied} of them beside other neighbours, {len(requests)} of {largest} in flight"
    )
    # Answers that differ from those given alone come first: they are wrong by themselves.
    finding = merge_findings([*with_alone, *by_position])
    return gate_finding("batches", context, finding, sent, text)


def _first_answer(context: GateContext) -> list[Answer]:
    """The answer to the first request since the model was loaded; empty if unknown."""
    first = context.loaded.first_answer
    return [] if first is None else [Answer(np.array([0]), first)]


def _expected_after_load(context: GateContext) -> ExpectedAnswers:
    singles = context.single_answers
    return singles.across_kernels if context.kernels_may_change else singles.within_noise


def _neighbour_variants(base: np.ndarray, count: int) -> list[np.ndarray]:
    """The batch with other samples at its odd positions, and with other samples at its even positions."""
    others = (base + max(1, count // 2)) % count
    even = np.arange(len(base)) % 2 == 0
    return [np.where(even, base, others), np.where(even, others, base)] if len(base) > 1 and count > 1 else []


def _compare_positions(
    served: ServedModel, singles: SingleAnswers, before: Answer, after: Answer
) -> AnswerFinding[AnswerComparison]:
    """Compare the answers to two batches of one size, within the noise, at positions where both have the same
    sample. The finding names a wrong answer with the whole batch of `after`."""
    spreads = _spreads_like(singles, before.outputs)
    if spreads is None:  # comparing with the answers given alone reports this signature
        return merge_findings([])
    rows = np.flatnonzero(before.sample_indices == after.sample_indices)
    batch = [str(served.data.ids[sample]) for sample in after.sample_indices]
    outputs, actual = ({name: out[rows] for name, out in side.outputs.items()} for side in (before, after))
    expected = ExpectedGroup([batch[row] for row in rows], outputs, spreads, range(len(rows)))
    earlier = ExpectedAnswers({"": expected}, singles.within_noise.limits, "in an earlier batch of this size")
    finding = earlier.compare([Answer(np.arange(len(rows)), actual)])
    if (mismatch := finding.mismatch) is not None:
        mismatch = dataclasses.replace(mismatch, batch=batch, row=int(rows[mismatch.row]))
    return dataclasses.replace(finding, mismatch=mismatch)


def _without_optional(served: ServedModel, singles: SingleAnswers) -> AnswerFinding[AnswerComparison] | None:
    """Compare the answers to four equal requests without optional inputs, each sent after a request of
    another sample with all inputs: the answers must be the same. None if no input is optional, or all are."""
    optional = {tensor.name for tensor in served.model.inputs if tensor.optional} & served.data.arrays.keys()
    if not optional or optional == served.data.arrays.keys() or not served.model.takes_single_requests:
        return None
    name = f"{served.data.ids[0]} without {', '.join(sorted(optional))}"
    rows = {key: values[:1] for key, values in served.data.arrays.items() if key not in optional}
    data = dataclasses.replace(served.data, ids=[name], arrays=rows, others=())
    lacking = dataclasses.replace(served, data=data)
    answers: list[Answer] = []
    for sample in range(min(4, len(served.data.ids))):
        served.ask([[sample]])
        answers += lacking.ask([[0]])
    # The answer with the most outputs: one that lacks an output says nothing about it.
    expected = expect([name], max((answer.outputs for answer in answers), key=len))
    spreads = _spreads_like(singles, expected.outputs) or expected.spreads
    expected = dataclasses.replace(expected, spreads=spreads)
    return ExpectedAnswers({"": expected}, singles.within_noise.limits, "alone").compare(answers)


def _spreads_like(singles: SingleAnswers, outputs: Arrays) -> Mapping[str, Spread] | None:
    """The spreads of the answers alone that have the signature of `outputs`, [rows, ...] each; or None."""
    row = {name: values[0, ...] for name, values in outputs.items()}
    expected = singles.within_noise.by_signature.get(signature(row))
    return None if expected is None else expected.spreads


def compare_servers(
    current: GateContext, baseline: GateContext, parts: Iterable[InputData], baseline_name: str
) -> AnswerFinding[GateResult]:
    """Compare a server's answers to the samples of all `parts` with its baseline's answers. Each sample is
    sent twice alone to each server; the load data of `current` was sent before."""
    findings = []
    samples = 0
    singles = (current.single_answers, baseline.single_answers)
    for data in parts:
        is_asked = data is current.served.data
        ours, theirs = singles if is_asked else (current.answers_to(data), baseline.answers_to(data))
        our_answers = [*(single_answer(sample, row) for sample, row in ours.by_sample.items()), *ours.repeats]
        repeated = [side.within_noise.limits for side in (ours, theirs)]
        precisions = [inferred_precision(side.by_sample.values()) for side in (ours, theirs)]
        limits = limits_between_servers(repeated, [ours.noise, theirs.noise], precisions)
        expected = ExpectedAnswers(theirs.within_noise.by_signature, limits, f"by {baseline_name}")
        findings.append(expected.compare(our_answers))
        samples += len(theirs.by_sample)
    whole = merge_findings(findings)
    tried = f"{samples} samples, each twice alone, beside {baseline_name}"
    finding = gate_finding("baseline", baseline, whole, 4 * samples, tried)
    here, there = (inferred_precision(answers.by_sample.values()) or "fp32" for answers in singles)
    if whole.result.wrong and here != there:
        fault = f"{finding.result.fault}; its answers show {here.upper()}, and {there.upper()} there"
        finding = dataclasses.replace(finding, result=structs.replace(finding.result, fault=fault))
    return finding
