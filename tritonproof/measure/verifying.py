"""Verifies answers at a load point between its passes: the same requests, as many in flight, all compared;
and checks whether answers come from a cache.

perf_analyzer cannot verify: in shared memory all requests in flight share one region for their outputs, so
its own validation fails on each, and otherwise it compares only the first row of a batch, bit by bit
(ValidateOutputs and InitInferDataOutput of its sources, r24.10). docs/reading.md says what each way detects
and costs.
"""

import dataclasses
import hashlib
import itertools
import math
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import structs

from tritonproof.accuracy.compare_answers import Answer, AnswerLimits, compare, expect
from tritonproof.accuracy.precision_cost import inferred_limits
from tritonproof.errors import ProofError
from tritonproof.measure.estimates import relative_half_width
from tritonproof.measure.job import ExpectedAnswers, Job, LoadData, PassResult, RunPass
from tritonproof.measure.measurement import marks_where
from tritonproof.measure.requests import RawAnswer, Requests, in_messages, message_of, prepared
from tritonproof.measure.stopping import is_slow
from tritonproof.record.ratio import MIN_PAIRS, paired_ratio
from tritonproof.record.schema import Estimate, Load, Mark, VerifiedAnswers
from tritonproof.serve.connection import REQUEST_S, HangsError, error_text, grpc_channel
from tritonproof.spec import Arrays, Case, LoadPoint

_SHARE = 0.1
"""Seconds of verifying for each second of a point's passes; a point's budget does not count them."""
_MIN_S = 0.1
"""The least seconds of verifying at a time."""
_IN_FLIGHT_AT_A_RATE = 8
_MAX_BYTES = 256 << 20
"""The most bytes of answers kept until they are compared, and of a batch in process of several rows."""
_SOON_S = 1.0
"""Seconds after which an answer under load is late."""


def expected_answers(
    case: Case, data: LoadData, converted: Callable[[Arrays], Arrays], batch: int, limits: AnswerLimits
) -> ExpectedAnswers:
    """The expected answers of a case: the converted model's to the load data, in batches of `batch` rows."""
    row_bytes = sum(tensor.row_bytes for tensor in (*case.model.inputs, *case.model.outputs))
    size = max(1, min(batch, _MAX_BYTES // row_bytes))
    parts = [
        converted({name: values[start : start + size] for name, values in data.rows.items()})
        for start in range(0, len(data.ids), size)
    ]
    outputs = {
        tensor.name: np.concatenate([np.asarray(part[tensor.name]) for part in parts])
        for tensor in case.model.outputs
    }
    if not case.model.as_is:
        return ExpectedAnswers(expect(data.ids, outputs), limits)
    limits = inferred_limits(limits, [outputs], case.answers_on)
    return ExpectedAnswers(expect(data.ids, outputs), limits, "alone")


def verify(expected: ExpectedAnswers, answers: Sequence[Answer], duration_s: float) -> VerifiedAnswers:
    """Compare every row of the answers, collected in `duration_s` seconds; a value must be finite."""
    comparison = compare(expected.answers, answers, expected.limits, finite=True)
    return VerifiedAnswers(
        comparison.answers,
        comparison.wrong,
        len(answers),
        round(duration_s, 3),
        comparison.first_wrong,
        expected.held_to,
        comparison.left_out,
    )


def ask_server(job: Job, seconds: float) -> list[Answer]:
    """Answers of a server to the job's requests, sent again and again for so many seconds."""
    return ask_once(job, job.data.requests(job.point.batch), seconds)


def verifying(run_pass: RunPass, ask: Callable[[Job, float], Sequence[Answer]] = ask_server) -> RunPass:
    """A `run_pass` that also verifies answers if the job says so: after the first pass of each point,
    then about once a second, for a tenth of the passes' time, which `elapsed_s` does not include. Raises the
    errors of `run_pass`, and ProofError if a request fails."""
    owed_s: dict[tuple[str, LoadPoint], float] = {}

    def run_and_verify(job: Job, window_s: float) -> PassResult:
        result = run_pass(job, window_s)
        if job.expected is None or not job.verifies:
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
        return dataclasses.replace(result, answers=verify(job.expected, answers, asked_s))

    return run_and_verify


def ask_once(job: Job, which: Sequence[np.ndarray], seconds: float | None = None) -> list[Answer]:
    """Answers of a server to requests that hold these samples, by their indices and all of one batch size,
    each sent once, or for so many seconds; as many in flight as the point has, and by the load's transport.
    Requests are made before and answers read afterwards, so that this client takes little CPU. Raises
    ProofError if a request fails or there is no room for the tensors."""
    with prepared(job, which, job.point.concurrency or _IN_FLIGHT_AT_A_RATE) as requests:
        answers = closed_loop(job, requests, seconds)
        return [Answer(which[number], requests.read(kept)) for number, kept in answers]


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


# --- are answers computed? ----------------------------------------------------------------------------------

_STRETCH_S = 0.02
"""Seconds of each stretch, if one round of requests in flight is shorter: a cache shows in far less."""
_STRETCH_BYTES = 64 << 20
"""The most bytes that the requests of a stretch take, beyond those in flight at a time."""
_MIN_MARGIN = 0.05
"""The least speed-up that counts: data that are in the processor's caches already are a little faster."""
_MAX_MISSES = 100
"""The search for new requests ends after so many draws in a row that were sent before."""
_ELEMENTS = 3
"""Elements that are taken from another sample: hardly two requests draw the same so many places."""


def with_cache_audit(job: Job, load: Load) -> Load:
    """The load point, with its repeated requests compared with new ones, as in MLPerf Inference's TEST04."""
    ratio = _repeated_speed(job, load)
    return structs.replace(load, repeated_speed=ratio, marks=(*load.marks, *marks_of_cache(load, ratio)))


def _repeated_speed(job: Job, load: Load) -> Estimate | None:
    """The speed of requests that repeat one sample over that of requests that were never sent before, at a
    measured point in a closed loop; None if requests are too slow, or there are too few different samples."""
    latency_s = load.latency_ms["avg"].value / 1e3
    fresh = fresh_inputs(job.data.rows, job.point.batch)
    if next(fresh, None) is None or is_slow(latency_s):
        return None
    repeated, in_flight = job.data.inputs([0] * job.point.batch), job.point.concurrency
    first = message_of(job, repeated)
    count = max(in_flight, min(math.ceil(_STRETCH_S / latency_s) * in_flight, _STRETCH_BYTES // len(first)))
    closed_loop(job, in_messages([first]))  # a cache knows it from here on
    generator = np.random.default_rng()
    speeds: dict[int, list[float]] = {0: [], 1: []}
    for _pair in range(MIN_PAIRS):
        # Each message has its own memory, so that the two kinds differ in nothing else.
        sides = (
            [message_of(job, repeated) for _ in range(count)],
            [message_of(job, inputs) for inputs in itertools.islice(fresh, count)],
        )
        if len(sides[1]) < count:
            return None
        for side in map(int, generator.permutation(2)):
            started = time.monotonic()
            closed_loop(job, in_messages(sides[side]))
            speeds[side].append(len(sides[side]) / (time.monotonic() - started))
    return paired_ratio(speeds[0], speeds[1])


def marks_of_cache(load: Load, ratio: Estimate | None) -> list[Mark]:
    """Whether a repeated sample is faster by more than the point's own interval."""
    if ratio is None:
        return []
    margin = max(_MIN_MARGIN, relative_half_width(load.throughput_per_s))
    return marks_where(("cached-answers", ratio.low > 1 + margin, f"{ratio.value:.2f} times as fast"))


def fresh_inputs(rows: Arrays, batch: int) -> Iterator[Arrays]:
    """Inputs of a batch that were never sent before: samples, one of which has elements of another in its
    largest input. Ends when chance finds no further ones, and is empty if all samples are alike."""
    generator, sent, misses = np.random.default_rng(), set[bytes](), 0
    name = max(rows, key=lambda input_name: rows[input_name][0].nbytes)
    flat = rows[name].reshape(len(rows[name]), -1)
    if (flat == flat[0]).all():
        return
    while misses < _MAX_MISSES:
        misses += 1
        samples = (generator.integers(len(flat)) + np.arange(batch)) % len(flat)
        other = flat[generator.integers(len(flat))]
        places = np.flatnonzero(flat[samples[0]] != other)
        if len(places) == 0:
            continue
        inputs = {key: values[samples] for key, values in rows.items()}
        chosen = generator.choice(places, max(1, min(_ELEMENTS, len(places) // 2)), replace=False)
        inputs[name].reshape(batch, -1)[0, chosen] = other[chosen]
        digest = hashlib.blake2b(inputs[name][0].tobytes(), digest_size=16).digest()
        if digest not in sent:
            sent.add(digest)
            misses = 0
            yield inputs
