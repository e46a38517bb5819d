"""Verifies answers at a load point between its passes: its requests, as many in flight (eight at a request
rate), all compared; those of each shape in turn.

perf_analyzer cannot verify: in shared memory all requests in flight share one region for their outputs, so
its own validation fails on each, and otherwise it compares only the first row of a batch, bit by bit
(ValidateOutputs and InitInferDataOutput of its sources, r24.10). docs/evidence/measuring.md says what each
way detects and costs.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from tritonproof.accuracy.expected import expect
from tritonproof.accuracy.limits import AnswerLimits, inferred_limits
from tritonproof.accuracy.sameness import AnswerCheck, Oracle, compare_answers
from tritonproof.client.input_data import InputData
from tritonproof.client.requests import Answer, ask_samples
from tritonproof.measure.load_job import LoadJob, RunPass
from tritonproof.measure.passes import Pass
from tritonproof.record.schema import LoadPoint, VerifiedAnswers
from tritonproof.spec import Case

_SHARE = 0.1
"""Seconds of verifying for each second of a point's passes; a point's budget does not count them."""
_IN_FLIGHT_AT_A_RATE = 8
_MIN_S = 0.1
"""The least seconds of verifying at a time."""
_MAX_BYTES = 256 << 20
"""The most bytes of a batch in process of several rows."""


def make_answer_check(
    case: Case, data: InputData, oracle: Oracle, batch: int, limits: AnswerLimits
) -> AnswerCheck:
    """The check against the oracle's answers to the load data, in batches of `batch` rows; those of other
    shapes are of one row."""
    row_bytes = sum(tensor.row_bytes for tensor in (*case.model.inputs, *case.model.outputs))
    size = max(1, min(batch, _MAX_BYTES // row_bytes))
    parts = [
        oracle.answer({name: values[start : start + size] for name, values in data.arrays.items()})
        for start in range(0, len(data.ids), size)
    ]
    outputs = {
        tensor.name: np.concatenate([np.asarray(part[tensor.name]) for part in parts])
        for tensor in case.model.outputs
    }
    others = tuple(make_answer_check(case, other, oracle, 1, limits) for other in data.other_shapes)
    inferred = inferred_limits(limits, [outputs])
    return AnswerCheck(expect(data.ids, outputs), inferred, oracle.expected_from, others)


def verify(check: AnswerCheck, answers: Sequence[Answer], duration_s: float) -> VerifiedAnswers:
    """Compare every row of the answers, collected in `duration_s` seconds; a value must be finite."""
    comparison = compare_answers(check.expected, answers, check.limits, only_finite=True)
    return VerifiedAnswers(
        verified=comparison.same.answers,
        wrong=comparison.wrong_count,
        requests=len(answers),
        duration_s=round(duration_s, 3),
        first_wrong=None if comparison.mismatch is None else comparison.mismatch.wrong,
        expected_from=check.expected_from,
        left_out=comparison.same.left_out,
    )


def ask_server(job: LoadJob, seconds: float) -> list[Answer]:
    """Answers of a server to the job's requests, as many in flight as the point has and by the load's own
    transport, sent again and again for so many seconds."""
    requests, clients = job.served.data.requests(job.point.batch), job.point.concurrency
    where, clients = f"{job}, under load", clients or _IN_FLIGHT_AT_A_RATE
    return ask_samples(job.served, requests, clients, where, seconds, job.shared_memory)


def verifying(run_pass: RunPass, ask: Callable[[LoadJob, float], Sequence[Answer]] = ask_server) -> RunPass:
    """A `run_pass` that also verifies answers if the job says so: after the first pass of each point,
    then about once a second, for a tenth of the passes' time, which `elapsed_s` does not include. Raises the
    errors of `run_pass`, and ProofError if a request fails."""
    owed_s: dict[LoadPoint, float] = {}

    def run_and_verify(job: LoadJob, window_s: float) -> Pass:
        result = run_pass(job, window_s)
        if job.check is None or not job.verifies:
            return result
        seconds = owed_s.get(job.point, 0.0) + _SHARE * result.elapsed_s
        if job.point in owed_s and seconds < max(_MIN_S, job.request_s / 2):
            owed_s[job.point] = seconds
            return result
        parts, answers = _by_shape(job, job.check), []
        for part, check in parts:
            started = time.monotonic()
            given = ask(part, max(_MIN_S, seconds) / len(parts))
            answers.append(verify(check, given, time.monotonic() - started))
        total = summed(answers)
        assert total is not None
        # Verifying that took too long, as even a single request may, shortens later verifying.
        owed_s[job.point] = min(0.0, seconds - total.duration_s)
        return dataclasses.replace(result, answers=total)

    return run_and_verify


def _by_shape(job: LoadJob, check: AnswerCheck) -> list[tuple[LoadJob, AnswerCheck]]:
    """The job with its check, and the same with the samples of each other shape."""
    data = job.served.data
    shapes = zip((data, *data.other_shapes_for(job.point.batch)), (check, *check.other_shapes), strict=False)
    served = ((dataclasses.replace(job.served, data=one), of_shape) for one, of_shape in shapes)
    return [(dataclasses.replace(job, served=one), of_shape) for one, of_shape in served]


def summed(results: Sequence[VerifiedAnswers]) -> VerifiedAnswers | None:
    """Join the results of several verifications of one point; returns None if there are none."""
    if not results:
        return None
    return VerifiedAnswers(
        verified=sum(result.verified for result in results),
        wrong=sum(result.wrong for result in results),
        requests=sum(result.requests for result in results),
        duration_s=round(sum(result.duration_s for result in results), 3),
        first_wrong=next((result.first_wrong for result in results if result.first_wrong is not None), None),
        expected_from=results[0].expected_from,
        left_out=sum(result.left_out for result in results),
    )
