"""Is a model what its configuration declares? Every output is there and finite, and has its type and shape;
batches are answered up to the declared size, and refused above it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tritonproof.accuracy.answer_comparison import AnswerFinding
from tritonproof.client.input_data import remaining_data
from tritonproof.client.requests import ServedModel
from tritonproof.gates.context import GateContext, rows_of
from tritonproof.record.correctness import GateResult
from tritonproof.serve.messages import response_outputs
from tritonproof.spec import Arrays, fits


def declared_gate(context: GateContext) -> AnswerFinding[GateResult]:
    """Send four samples alone, and two in one batch if the model takes batches. Every output must be there
    and finite, with the declared type and shape. The earlier answers to samples alone, and answers to the
    samples not sent so far, must have every output with finite numbers: some input may lead to NaN."""
    served, single_rows = context.served, context.single_answers.by_sample
    batches = [[sample] for sample in range(len(served.data.ids))][:4]
    if context.takes_batches:
        batches.append([0, served.data.batchable_count - 1])
    problems = [_violation(served, *pair) for pair in zip(batches, served.responses(batches), strict=True)]
    problems += _all_as_declared(served, single_rows)
    remaining_count = 0
    samples = context.evaluation_samples
    for data in () if samples is None else remaining_data(served.model, samples):
        served_part = replace(served, data=data)
        in_flight = replace(context, served=served_part).most_in_flight(1)
        answers = served_part.ask([[sample] for sample in range(len(data.ids))], in_flight)
        problems += _all_as_declared(served_part, rows_of(answers))
        remaining_count += len(answers)
    names = ", ".join(f"{tensor.name} ({tensor.dtype})" for tensor in served.model.outputs)
    tried = f"outputs as declared: {names}; finite for {len(single_rows) + remaining_count} samples"
    fault = next(filter(None, problems), "")
    return AnswerFinding(GateResult("declared", len(batches) + remaining_count, tried=tried, fault=fault))


def _all_as_declared(served: ServedModel, rows: Mapping[int, Arrays]) -> Iterator[str]:
    """What is wrong with each output of the answers `rows`, as a sentence; empty for right outputs."""
    for sample, outputs in rows.items():
        for tensor in served.model.outputs:
            answer = f"the answer to sample {served.data.ids[sample]}"
            yield fault_in(tensor.name, outputs.get(tensor.name), answer)


def _violation(served: ServedModel, sample_indices: list[int], reply: Any) -> str:
    """The first difference of a reply from the declaration, as a sentence; empty if there is none."""
    count, first = len(sample_indices), served.data.ids[sample_indices[0]]
    batch_shape = [count] if served.model.batched else []
    query = f"{count} samples in a batch" if count > 1 else f"sample {first}"
    if isinstance(reply, str):
        return f"the request of {query} was refused: {reply}"
    answer = f"the answer to {query}"
    answered, arrays = {tensor.name: tensor for tensor in reply.outputs}, response_outputs(reply)
    for tensor in served.model.outputs:
        out, shape = answered.get(tensor.name), [*batch_shape, *tensor.shape]
        if out is not None and (out.datatype != tensor.dtype or not fits(out.shape, shape)):
            form = f"{out.datatype} {list(out.shape)}"
            return f"{tensor.name} is declared as {tensor.dtype} {shape}, and {answer} has {form}"
        if fault := fault_in(tensor.name, arrays.get(tensor.name), answer):
            return fault
    return ""


def fault_in(output: str, values: np.ndarray | None, answer: str) -> str:
    """What is wrong with an output of an answer, as a sentence; empty if it is there and finite."""
    if values is None:
        return f"{answer} lacks the output {output}, or bytes of it"
    values = np.asarray(values)
    if not np.issubdtype(values.dtype, np.floating) or np.isfinite(values).all():
        return ""
    bad = ~np.isfinite(values)
    count = f"{int(bad.sum())} of {bad.size}"
    return f"{output} holds {values[bad].flat[0]} in {answer} ({count} elements are not finite)"


def largest_batch_gate(context: GateContext) -> AnswerFinding[GateResult]:
    """Send batches of the declared sizes that decide which kernels run: the server must answer them. Then
    send a batch with one row more than the largest size: the server must refuse it."""
    served = context.served
    if not served.model.batched:
        return AnswerFinding(GateResult("largest-batch", 0, "no batch axis, so no batch sizes"))
    sizes, largest, count = context.kernel_sizes, context.largest_batch, served.data.batchable_count
    one_more = [largest + 1] if largest < context.most_rows else []
    replies = served.responses(np.arange(size) % count for size in (*sizes, *one_more))
    problems = [
        f"a batch of {size}, of {largest} declared, was refused: {reply}"
        for size, reply in zip(sizes, replies, strict=False)
        if isinstance(reply, str)
    ]
    if one_more and not isinstance(replies[-1], str):
        problems.append(f"a batch of {largest + 1} was answered, and {largest} is declared")
    limit = "which has to be refused" if one_more else "larger than a request may be, is not sent"
    text = f"{len(sizes)} of the {largest} batch sizes, and a batch of {largest + 1}, {limit}"
    return AnswerFinding(GateResult("largest-batch", len(replies), text, fault=next(iter(problems), "")))
