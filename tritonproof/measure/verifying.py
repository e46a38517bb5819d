"""Verifies answers at a load point between its passes: the same requests, as many in flight, all compared.

perf_analyzer cannot verify: in shared memory all requests in flight share one region for their outputs, so
its own validation fails on each, and otherwise it compares only the first row of a batch, bit by bit
(ValidateOutputs and InitInferDataOutput of its sources, r24.10). docs/evidence/measuring.md says what each
way detects and costs.
"""

import dataclasses
import itertools
import math
import queue
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritonproof.accuracy.compare_answers import compare
from tritonproof.accuracy.expected import Answer, AnswerLimits, expect
from tritonproof.accuracy.precision_cost import inferred_limits
from tritonproof.base.errors import ProofError
from tritonproof.measure.job import AnswerCheck, Job, LoadData, PassResult, RunPass
from tritonproof.measure.requests import RawAnswer, Requests, prepared_requests
from tritonproof.record.schema import LoadPoint, VerifiedAnswers
from tritonproof.serve.connection import REQUEST_S, HangsError, error_text, grpc_channel
from tritonproof.spec import Arrays, Case

_SHARE = 0.1
"""Seconds of verifying for each second of a point's passes; a point's budget does not count them."""
_MIN_S = 0.1
"""The least seconds of verifying at a time."""
_IN_FLIGHT_AT_A_RATE = 8
_MAX_BYTES = 256 << 20
"""The most bytes of answers kept until they are compared, and of a batch in process of several rows."""
_SOON_S = 1.0
"""Seconds after which an answer under load is late."""


def answer_check(
    case: Case, data: LoadData, oracle: Callable[[Arrays], Arrays], batch: int, limits: AnswerLimits
) -> AnswerCheck:
    """The check against the converted model's answers to the load data, in batches of `batch` rows."""
    row_bytes = sum(tensor.row_bytes for tensor in (*case.model.inputs, *case.model.outputs))
    size = max(1, min(batch, _MAX_BYTES // row_bytes))
    parts = [
        oracle({name: values[start : start + size] for name, values in data.rows.items()})
        for start in range(0, len(data.ids), size)
    ]
    outputs = {
        tensor.name: np.concatenate([np.asarray(part[tensor.name]) for part in parts])
        for tensor in case.model.outputs
    }
    if not case.model.as_is:
        return AnswerCheck(expect(data.ids, outputs), limits)
    limits = inferred_limits(limits, [outputs], case.answers_on)
    return AnswerCheck(expect(data.ids, outputs), limits, "alone")


def verify(check: AnswerCheck, answers: Sequence[Answer], duration_s: float) -> VerifiedAnswers:
    """Compare every row of the answers, collected in `duration_s` seconds; a value must be finite."""
    comparison = compare(check.expected, answers, check.limits, finite=True)
    return VerifiedAnswers(
        comparison.compared,
        comparison.wrong,
        len(answers),
        round(duration_s, 3),
        comparison.first_wrong,
        check.held_to,
        comparison.left_out,
    )


def ask_server(job: Job, seconds: float) -> list[Answer]:
    """Answers of a server to the job's requests, sent again and again for so many seconds."""
    return ask_samples(job, job.data.requests(job.point.batch), seconds)


def verifying(run_pass: RunPass, ask: Callable[[Job, float], Sequence[Answer]] = ask_server) -> RunPass:
    """A `run_pass` that also verifies answers if the job says so: after the first pass of each point,
    then about once a second, for a tenth of the passes' time, which `elapsed_s` does not include. Raises the
    errors of `run_pass`, and ProofError if a request fails."""
    owed_s: dict[tuple[str, LoadPoint], float] = {}

    def run_and_verify(job: Job, window_s: float) -> PassResult:
        result = run_pass(job, window_s)
        if job.check is None or not job.verifies:
            return result
        key = (job.name, job.point)
        seconds = owed_s.get(key, 0.0) + _SHARE * result.elapsed_s
        if key in owed_s and seconds < max(_MIN_S, job.request_s / 2):
            owed_s[key] = seconds
            return result
        started = time.monotonic()
        answers = ask(job, max(_MIN_S, seconds))
        asked_s = time.monotonic() - started
        # Verifying that took too long, as even a single request may, shortens later verifying.
        owed_s[key] = min(0.0, seconds - asked_s)
        return dataclasses.replace(result, verified=verify(job.check, answers, asked_s))

    return run_and_verify


def ask_samples(job: Job, batches: Sequence[np.ndarray], seconds: float | None = None) -> list[Answer]:
    """Answers of a server to requests for these batches, by the samples' indices and all of one size,
    each sent once, or for so many seconds; as many in flight as the point has, and by the load's transport.
    Requests are made before and answers read afterwards, so that this client takes little CPU. Raises
    ProofError if a request fails or there is no room for the tensors."""
    with prepared_requests(job, batches, job.point.concurrency or _IN_FLIGHT_AT_A_RATE) as requests:
        answers = closed_loop(job, requests, seconds)
        return [Answer(batches[number], requests.read(kept)) for number, kept in answers]


def closed_loop(job: Job, requests: Requests, seconds: float | None = None) -> list[tuple[int, RawAnswer]]:
    """Each answer with its request's number, in order of arrival; each client has a place for its answers.
    Each request is sent once, or for so many seconds. Raises ProofError if one fails."""
    import grpc

    one_round = range(requests.count)
    numbers = iter(one_round) if seconds is None else itertools.cycle(one_round)
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    done: queue.SimpleQueue[tuple[int, int, Any]] = queue.SimpleQueue()
    answers: list[tuple[int, RawAnswer]] = []
    sent, size = 0, 0
    metadata = job.server.access.metadata
    with grpc_channel(job.server.address, job.server.access) as channel:
        send = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")

        def start(number: int, slot: int) -> None:
            future = send.future(requests.message(number, slot), timeout=REQUEST_S, metadata=metadata)
            future.add_done_callback(lambda call: done.put((number, slot, call)))

        for number in itertools.islice(numbers, job.point.concurrency or _IN_FLIGHT_AT_A_RATE):
            start(number, sent)
            sent += 1
        while len(answers) < sent:
            try:
                try:
                    number, slot, future = done.get(timeout=_SOON_S)
                except queue.Empty:  # looking for a server that hangs costs a thread: only if it is late
                    number, slot, future = job.server.wait_for(done.get)
                answers.append((number, requests.keep(slot, future.result())))
            except (grpc.RpcError, HangsError) as error:
                reason = error_text(error, REQUEST_S)
                raise ProofError(
                    f"a request under load failed: {reason}{job.server.log_tail()}",
                    where=f"{job.name}, {job.point}",
                    fix="the server's words, and the end of its log, tell why; where one of its processes "
                    "was killed for want of memory, use fewer instances (--deployment instances=1)",
                ) from error
            size += sum(map(len, answers[-1][1]))
            further = next(numbers, None) if time.monotonic() < deadline and size < _MAX_BYTES else None
            if further is not None:
                start(further, slot)
                sent += 1
    return answers
