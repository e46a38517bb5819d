"""Checks whether answers come from a cache: requests that repeat a sample against ones never sent before."""

import functools
import hashlib
import itertools
import math
import time
from collections.abc import Iterator

import numpy as np
from msgspec import structs

from tritonproof.client.requests import closed_loop, in_messages
from tritonproof.measure.estimates import relative_half_width
from tritonproof.measure.marks import marks_where
from tritonproof.measure.passes import SLOW_REQUEST_S, LoadJob
from tritonproof.ratios import MIN_PAIRS, paired_ratio
from tritonproof.record import fields, speed
from tritonproof.serve.messages import infer_message
from tritonproof.spec import Arrays

_BURST_S = 0.02
"""The least seconds of a burst of requests; a single request may be longer. A cache shows in far less."""
_BURST_BYTES = 64 << 20
"""The most bytes of the requests of a burst, unless it is a single one."""
_MIN_MARGIN = 0.05
"""The least speed-up that counts: data that the processor has cached already are a little faster."""
_MAX_MISSES = 100
"""The search for new requests ends after this many draws in a row that were sent before."""
_ELEMENTS = 3
"""How many elements are taken from another sample: two requests hardly ever draw all the same."""


def audit_cache(job: LoadJob, result: speed.PointResult) -> speed.PointResult:
    """Compare a point's repeated requests with new ones (MLPerf's TEST04); returns its marked result."""
    ratio = _repeated_speed(job, result)
    if marks_of_cache(result, ratio):
        ratio = _repeated_speed(job, result)  # chance, in one of some hundred audits, hardly shows twice
    marks = (*result.marks, *marks_of_cache(result, ratio))
    return structs.replace(result, repeated_speed=ratio, marks=marks)


def _repeated_speed(job: LoadJob, result: speed.PointResult) -> fields.Ratio | None:
    """The speed of requests that repeat one sample over the speed of requests never sent before, at a
    measured point in a closed loop; None if requests are too slow, or too few samples differ."""
    served, point = job.served, job.point
    fresh = fresh_inputs(served.data.arrays, point.batch)
    if next(fresh, None) is None or result.request_s > SLOW_REQUEST_S:
        return None
    repeated = served.data.inputs([0] * point.batch)
    message_of = functools.partial(infer_message, served.name, served.model)
    first = message_of(repeated)
    in_burst = math.ceil(_BURST_S * result.throughput_per_s.value / point.batch)
    count = min(in_burst, max(1, _BURST_BYTES // len(first)))
    concurrency, where = point.concurrency, f"{job}, under load"
    closed_loop(served.server, in_messages([first]), concurrency, where)  # from now on a cache has its answer
    rng = np.random.default_rng()
    speeds: dict[int, list[float]] = {0: [], 1: []}
    for _pair in range(MIN_PAIRS):
        # Each message has its own memory, so that the two kinds differ in nothing else.
        kinds = (
            [message_of(repeated) for _ in range(count)],
            [message_of(inputs) for inputs in itertools.islice(fresh, count)],
        )
        if len(kinds[1]) < count:
            return None
        for kind in map(int, rng.permutation(2)):
            started = time.monotonic()
            closed_loop(served.server, in_messages(kinds[kind]), concurrency, where)
            speeds[kind].append(len(kinds[kind]) / (time.monotonic() - started))
    return paired_ratio(speeds[0], speeds[1])


def marks_of_cache(result: speed.PointResult, ratio: fields.Ratio | None) -> list[speed.Mark]:
    """A mark if a repeated sample is faster by more than the point's own interval."""
    if ratio is None:
        return []
    margin = max(_MIN_MARGIN, relative_half_width(result.throughput_per_s))
    return marks_where(("cached-answers", ratio.low > 1 + margin, f"{ratio.value:.2f} times as fast"))


def fresh_inputs(rows: Arrays, batch: int) -> Iterator[Arrays]:
    """Inputs of batches that were never sent before: samples, the first of which has elements of another
    sample in its largest varying input. Ends when chance finds no more; empty if all samples are alike."""
    rng = np.random.default_rng()
    sent, misses = set[bytes](), 0
    name = max(rows, key=lambda key: ((rows[key] != rows[key][0]).any(), rows[key][0].nbytes))
    flat = rows[name].reshape(len(rows[name]), -1)
    if (flat == flat[0]).all():
        return
    while misses < _MAX_MISSES:
        misses += 1
        samples = (rng.integers(len(flat)) + np.arange(batch)) % len(flat)
        other = flat[rng.integers(len(flat))]
        indices = np.flatnonzero(flat[samples[0]] != other)
        if len(indices) == 0:
            continue
        inputs = {key: np.ascontiguousarray(values[samples]) for key, values in rows.items()}
        chosen = rng.choice(indices, max(1, min(_ELEMENTS, len(indices) // 2)), replace=False)
        inputs[name].reshape(batch, -1)[0, chosen] = other[chosen]
        digest = hashlib.blake2b(inputs[name][0].tobytes(), digest_size=16).digest()
        if digest not in sent:
            sent.add(digest)
            misses = 0
            yield inputs
