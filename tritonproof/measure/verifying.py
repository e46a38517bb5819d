"""Between a load point's passes, sends its requests again, as many in flight (8 at a rate), and compares
every answer with the expected one.

perf_analyzer cannot verify: in shared memory all requests in flight share one region for their outputs, so
its own validation fails on each; without shared memory it compares only a batch's first row, bit by bit
(ValidateOutputs and InitInferDataOutput of its sources, r24.10). Figures: docs/evidence/measuring.md.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from tritonproof.accuracy.answer_comparison import ExpectedAnswers
from tritonproof.accuracy.expected import expect_by_signature
from tritonproof.accuracy.limits import CaseLimits
from tritonproof.client import requests
from tritonproof.client.input_data import InputData
from tritonproof.client.requests import Answer
from tritonproof.measure.passes import LoadJob, Pass, RunPass
from tritonproof.record.speed import LoadPoint
from tritonproof.serve.messages import content_size_bytes, raw_content
from tritonproof.spec import Arrays, Tensor

_VERIFYING_SHARE = 0.1
"""Seconds of verifying for each second of a point's passes; they do not count for the point's budget."""
_MIN_S = 0.1
"""The least seconds of one verification."""
_MAX_BYTES = 256 << 20
"""The most bytes of a batch in process, unless it has a single row."""


def expect_in_process(
    outputs: Sequence[Tensor],
    data: InputData,
    infer_in_process: Callable[[Arrays], Arrays],
    batch: int,
    limits: CaseLimits,
) -> ExpectedAnswers:
    """The expected answers to all samples, with these outputs: those of the converted model in process. It
    first answers one sample, which tells how large answers are, then `batch` at once."""
    answer_bytes = sum(tensor.row_bytes for tensor in outputs)  # at least: a dimension may be open
    samples, rows = range(len(data.ids)), dict[int, Arrays]()
    while left := samples[len(rows) :]:
        fitting = _MAX_BYTES // (max(data.sample_bytes) + answer_bytes)
        part = left[: max(1, min(batch, fitting)) if rows else 1]
        answer = infer_in_process(data.inputs(part))
        arrays = {tensor.name: np.asarray(answer[tensor.name]) for tensor in outputs}
        answer_bytes = max(answer_bytes, content_size_bytes(arrays) // len(part))
        for index, sample in enumerate(part):
            rows[sample] = {name: values[index, ...] for name, values in arrays.items()}
    return ExpectedAnswers(expect_by_signature(rows, data.ids), limits.across_kernels())


def with_expected(job: LoadJob, expected: ExpectedAnswers) -> LoadJob:
    """The job with the expected answers to its samples, and with the bytes of their outputs."""
    output_bytes = [0] * len(job.served.data.ids)
    of_no_fixed_size = [tensor for tensor in job.served.model.outputs if not tensor.has_fixed_size]
    for part in expected.by_signature.values():
        for tensor in of_no_fixed_size:
            for sample, row in zip(part.samples, part.outputs[tensor.name], strict=True):
                output_bytes[sample] = max(output_bytes[sample], len(raw_content(row, tensor.dtype)))
    return dataclasses.replace(job, expected_answers=expected, output_bytes=output_bytes)


def ask_server(job: LoadJob, seconds: float) -> list[Answer]:
    """A server's answers to the job's requests, repeated for `seconds`, in flight and sent as under load."""
    batches = job.served.data.requests(job.point.batch)
    concurrency = job.point.concurrency or 8  # at a rate
    where = f"{job}, under load"
    return requests.ask_samples(job.served, batches, concurrency, where, seconds, job.shared_memory)


def verifying(run_pass: RunPass, ask: Callable[[LoadJob, float], Sequence[Answer]] = ask_server) -> RunPass:
    """A `run_pass` that also verifies answers, if the job has the expected ones: after the first pass of each
    point, then about once a second, for a tenth of the passes' time, which `elapsed_s` does not include.
    Raises the errors of `run_pass`, and ProofError if a request fails."""
    owed_s: dict[LoadPoint, float] = {}

    def run_and_verify(job: LoadJob, window_s: float) -> Pass:
        one_pass = run_pass(job, window_s)
        if job.expected_answers is None:
            return one_pass
        seconds = owed_s.get(job.point, 0.0) + _VERIFYING_SHARE * one_pass.elapsed_s
        if job.point in owed_s and seconds < max(_MIN_S, job.request_s / 2):
            owed_s[job.point] = seconds
            return one_pass
        started = time.monotonic()
        received = ask(job, max(_MIN_S, seconds))
        # Verifying that took too long, as even a single request may, shortens later verifying.
        owed_s[job.point] = min(0.0, seconds - (time.monotonic() - started))
        comparison = job.expected_answers.compare(received, only_finite=True).result
        return dataclasses.replace(one_pass, answers_under_load=comparison)

    return run_and_verify
