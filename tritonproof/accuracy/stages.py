"""The stages of a model on the way to its clients: its answers to the evaluation data at each of them, in
process and through the server, and how far each output is from that of the stage before, on all samples."""

import dataclasses
import functools
import os
import queue
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.accuracy.compare_answers import allowed_in_a_row, compare_rows
from tritonproof.accuracy.expected import Answer, ExpectedOutputs
from tritonproof.accuracy.outputs import check_finite, check_shapes
from tritonproof.accuracy.precision_cost import StageLimits
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.frameworks import pytorch
from tritonproof.host.scratch import report_full_disk
from tritonproof.record.schema import OutputDifference
from tritonproof.serve.connection import REQUEST_S, HangsError, error_text
from tritonproof.serve.messages import inputs_of, read_output, undeclared
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Case, Device, FrameworkModel, Model, OnProgress, Samples


@dataclass
class OutputTotals:
    """The differences of one output in the rows compared so far."""

    sum_of_errors: float = 0.0
    """The absolute differences of floating-point numbers; of others the number of elements that differ."""
    sum_of_values: float = 0.0
    """The magnitudes of the expected numbers, or the number of elements."""
    largest: float = 0.0
    """The largest difference as a share of its column's scale, or the largest share of a row's elements that
    differ: of a wrong row, if there is one."""
    is_wrong: bool = False
    """Whether integers of any row differ by more than ties."""
    sample: str = ""
    expected: float = 0.0
    given: float = 0.0

    @property
    def mean(self) -> float:
        """The mean difference as a share of the mean magnitude, or the share of elements that differ."""
        return self.sum_of_errors / (self.sum_of_values or 1)


@dataclass
class StageComparison:
    """How far the outputs of two stages are apart. `add` compares rows as they come in, in any order."""

    expected: ExpectedOutputs
    """All rows of the other stage's outputs."""
    limits: StageLimits
    stage: str
    """The name of the stage whose outputs come in, for errors."""
    expected_from: str
    """The other stage, for errors: `in process`, `the framework's`."""
    by_output: dict[str, OutputTotals] = field(default_factory=dict)
    """The differences so far of each output, by its name."""
    rows: int = 0
    left_out: int = 0
    """Rows without a comparison of floating-point outputs, as integers beside them differ."""

    def add(self, outputs: Arrays, rows: Sequence[int]) -> None:
        """Compare some rows. Raises AccuracyError if an output is missing or has another shape."""
        chosen = np.asarray(rows)
        expected_outputs = {name: values[chosen] for name, values in self.expected.outputs.items()}
        check_shapes(expected_outputs, outputs, self.stage, self.expected_from)
        compared = compare_rows(
            self.expected, Answer(chosen, outputs), self.limits.per_answer, identity=False
        )
        is_kept = ~compared.left_out
        self.rows += len(chosen)
        self.left_out += int(compared.left_out.sum())
        for name, values in expected_outputs.items():
            totals = self.by_output.setdefault(name, OutputTotals())
            is_floating = name in self.expected.spreads
            elements = (compared.shares if is_floating else compared.unequal).get(name)
            magnitudes = np.abs(values[is_kept].astype(np.float64)).sum() if is_floating else values.size
            totals.sum_of_values += float(magnitudes)
            if elements is None:
                continue
            if is_floating:
                totals.sum_of_errors += float(compared.means[name][is_kept].sum()) * elements.shape[1]
                is_wrong = np.zeros(len(chosen), bool)
                row_shares = np.where(is_kept, elements.max(axis=1, initial=0.0), 0.0)
            else:
                totals.sum_of_errors += float(elements.sum())
                is_wrong, row_shares = compared.wrong_rows[name], elements.mean(axis=1)
            row = int(np.lexsort((-row_shares, ~is_wrong))[0])
            worst = bool(is_wrong[row]), float(row_shares[row])
            if worst > (totals.is_wrong, totals.largest):
                place = int(elements[row].argmax())
                totals.is_wrong, totals.largest = worst
                totals.sample = str(self.expected.ids[chosen[row]])
                if values.dtype != object:  # the record has no place for texts
                    totals.expected = float(np.ravel(values[row])[place])
                    totals.given = float(np.ravel(outputs[name][row])[place])

    @property
    def outputs(self) -> tuple[OutputDifference, ...]:
        """The differences of each output, with its limits."""
        return tuple(self._difference(name, totals) for name, totals in self.by_output.items())

    def _difference(self, name: str, totals: OutputTotals) -> OutputDifference:
        limits, per_answer = self.limits, self.limits.per_answer
        spread, besides = self.expected.spreads.get(name), 0.0
        if spread is None:
            size = self.expected.outputs[name][:1].size
            allowed = 0.0 if name in self.expected.scores else allowed_in_a_row(size, per_answer.agreement)
            largest_limit = allowed / size if totals.is_wrong else 1.0
        else:
            largest_limit = per_answer.of_output(name)[0]
            besides = limits.mean_rounding * spread.magnitude / (spread.mean or 1.0)
        return OutputDifference(
            output=name,
            kind="differing" if spread is None else "error",
            largest=totals.largest,
            largest_limit=largest_limit,
            mean=totals.mean,
            mean_limit=limits.all_rows[name] + besides,
            sample=totals.sample,
            expected=totals.expected,
            given=totals.given,
            source=limits.source,
            compared=1.0 if spread is None else 1 - self.left_out / max(self.rows, 1),
            compared_limit=1.0 if spread is None else per_answer.least_compared_share,
        )


@dataclass(frozen=True)
class StageAnswers:
    """A model's answers to all rows of the evaluation data at one stage on the way to its clients."""

    name: str
    """The stage: framework, converted or served."""
    kept: Arrays
    """What the model keeps of the outputs for its metrics, [rows, ...] each."""
    decisions: np.ndarray
    """What the model decides for each row, [rows, ...]: the comparison of two stages counts equal ones."""
    requests: int = 0
    """The number of requests behind the answers; 0 in process."""
    outputs: Arrays | None = None
    """All outputs as they came, [rows, ...] each, in unnamed files that are gone after use; None if no
    comparison needs them."""
    comparison: StageComparison | None = None
    """How far all rows of the outputs are from the stage before; None if only decisions are compared."""


Stages = tuple[StageAnswers, StageAnswers, StageAnswers]
"""The answers of the framework, of the converted model in process, and of the served one."""


def framework_model_on(device: Device, model: Model, weights: FrameworkModel) -> FrameworkModel:
    """The framework's model, with which converted ones are compared, in FP32 without TF32 on a device; the
    given weights stay in place. A GPU takes minutes for volumes that take a CPU hours. A Keras network stays
    where TensorFlow has put it."""
    if model.framework != "pytorch":
        return weights
    return dataclasses.replace(weights, network=pytorch.in_precision(weights.network, "fp32", device))


def evaluate_in_process(
    name: str,
    model: Model,
    run: Callable[[Arrays], Arrays],
    samples: Samples,
    batch: int,
    on_progress: OnProgress = lambda _text: None,
    *,
    with_outputs: bool = False,
) -> StageAnswers:
    """Run all samples through a model in this process, in batches; the last may be partial. `with_outputs`
    keeps all outputs for later. Raises AccuracyError unless each row has one finite result."""
    parts = []
    everything: dict[str, np.ndarray] = {}
    for start in range(0, len(samples), batch):
        indices = range(start, min(start + batch, len(samples)))
        outputs = run(samples.read(indices))
        parts.append(_keep_outputs(name, model, outputs, samples, indices))
        if with_outputs:
            everything = everything or temporary_arrays(outputs, len(samples))
            places = {output: values[indices.start : indices.stop] for output, values in everything.items()}
            check_shapes(places, outputs, name, f"before {samples.ids[indices[0]]} it")
            for output, place in places.items():
                place[:] = outputs[output]
        on_progress(f"{indices.stop:,} of {len(samples):,}")
    return _answers_at(name, model, parts, outputs=everything or None)


def temporary_arrays(outputs: Arrays, rows: int) -> dict[str, np.ndarray]:
    """Arrays for these outputs of so many rows, in temporary files that are gone once the arrays are no
    longer used. Raises ProofError if the folder for temporary files has no room."""
    arrays: dict[str, np.ndarray] = {}
    for name, values in outputs.items():
        shape = (rows, *values.shape[1:])
        with report_full_disk(Path(tempfile.gettempdir())), tempfile.TemporaryFile() as file:
            # A file with holes would end the process by a signal once the disk is full.
            os.posix_fallocate(file.fileno(), 0, max(1, int(np.prod(shape)) * values.dtype.itemsize))
            arrays[name] = np.memmap(file, values.dtype, "r+", shape=shape)
    return arrays


def _keep_outputs(
    stage: str, model: Model, outputs: Arrays, samples: Samples, indices: Sequence[int]
) -> Arrays:
    """What the model keeps of a batch's outputs. Raises AccuracyError unless each has one finite result per
    row."""
    if missing := [tensor.name for tensor in model.outputs if tensor.name not in outputs]:
        raise AccuracyError(f"the {stage} outputs lack {', '.join(missing)}", where=model.name)
    for name, values in outputs.items():
        if len(values) != len(indices):
            what = f"the {stage} outputs are {len(values)} results for {len(indices)} samples"
            raise AccuracyError(what, where=f"output {name}")
    check_finite(stage, outputs, [samples.ids[i] for i in indices])
    return model.keep(outputs)


def _answers_at(name: str, model: Model, parts: Sequence[Arrays], **more: Any) -> StageAnswers:
    """The stage whose kept outputs come in these parts, in the order of the rows."""
    kept = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return StageAnswers(name, kept, model.decide(kept), **more)


IN_FLIGHT = 64
"""The most requests outstanding at once; the published scripts allow 128."""
IN_FLIGHT_BYTES = 1 << 28
"""The most bytes that all outstanding requests' tensors take; volumes of 50 MB go out a few at a time."""

_Replies = queue.SimpleQueue[tuple[range, Arrays | Exception]]
"""From tritonclient's threads to the evaluating one: a request's samples, and its outputs or the error."""


def evaluate_through_server(
    server: Server,
    case: Case,
    samples: Samples,
    max_batch_size: int,
    on_progress: OnProgress = lambda _text: None,
    comparison: StageComparison | None = None,
) -> StageAnswers:
    """Send all samples through the server once, in mixed batch sizes and with many requests in flight. Every
    output enters the `comparison` with that of the same file in process. Raises ProofError on the first
    request that fails or gets no answer in time."""
    replies: _Replies = queue.SimpleQueue()
    tensors = (*case.model.inputs, *case.model.outputs)
    most_rows = max(1, IN_FLIGHT_BYTES // sum(tensor.row_bytes for tensor in tensors))
    parts: dict[int, Arrays] = {}
    batches = list(mixed_batches(len(samples), min(max_batch_size, most_rows)))
    sent = set[range]()
    done = 0

    def take(wait: bool) -> None:
        nonlocal done
        while wait or not replies.empty():
            wait = False
            indices, outputs = _next(replies, case, server)
            sent.remove(indices)
            for tensor in case.model.outputs:
                if (problem := undeclared(tensor, outputs.get(tensor.name))) is not None:
                    raise AccuracyError(f"an answer is not as the model's outputs are: {problem}", where=case)
            parts[indices[0]] = _keep_outputs("served", case.model, outputs, samples, indices)
            if comparison is not None:
                comparison.add(outputs, indices)
            done += len(indices)
            on_progress(f"{done:,} of {len(samples):,}")

    for indices in batches:
        while len(sent) >= IN_FLIGHT or sum(map(len, sent)) + len(indices) > most_rows:
            take(wait=True)
        sent.add(indices)
        _send(server, case, samples.read(indices), indices, replies)
        take(wait=False)
    while sent:
        take(wait=True)
    in_order = [parts[start] for start in sorted(parts)]
    return _answers_at("served", case.model, in_order, requests=len(batches), comparison=comparison)


def mixed_batches(count: int, max_batch_size: int) -> Iterator[range]:
    """Consecutive ranges that cover `count` samples, of seeded sizes from 1 to `max_batch_size`, drawn by
    their logarithm, so that small and large ones meet in the server's batcher."""
    generator = np.random.default_rng(0)
    start = 0
    while start < count:
        size = int(np.exp(generator.uniform(0, np.log(max_batch_size + 1))))
        stop = min(start + max(1, min(size, max_batch_size)), count)
        yield range(start, stop)
        start = stop


def _next(replies: _Replies, case: Case, server: Server) -> tuple[range, Arrays]:
    """The next answer, with its samples. Raises ProofError if the request failed, or none comes in time."""
    try:
        wait = functools.partial(replies.get, timeout=REQUEST_S)
        indices, answer = server.wait_for(wait) if replies.empty() else replies.get()
        if not isinstance(answer, Exception):
            return indices, answer
        problem = f"a request failed: {error_text(answer, REQUEST_S)}"
    except queue.Empty:
        problem = f"requests are left unanswered: Triton gave no answer for {REQUEST_S:.0f} s"
    except HangsError as error:
        problem = f"requests are left unanswered: {error.what}"
    raise ProofError(f"{problem}{server.log_tail()}", where=str(case))


def _send(server: Server, case: Case, arrays: Arrays, indices: range, replies: _Replies) -> None:
    from tritonclient.grpc import InferRequestedOutput

    names, request_id = [tensor.name for tensor in case.model.outputs], str(indices.start)

    def receive(result: Any, error: Exception | None) -> None:
        try:
            if error is not None:
                raise error
            if (answered := result.get_response().id) != request_id:
                raise ProofError(f"Triton gave the answer to the request {answered!r}")
            outputs = {name: values for name in names if (values := read_output(result, name)) is not None}
            if not case.model.batched:
                outputs = {name: values[None] for name, values in outputs.items()}
            replies.put((indices, outputs))
        except Exception as problem:  # noqa: BLE001 - the thread that waits raises it
            replies.put((indices, problem))

    server.client.async_infer(
        server.name_of(case),
        inputs_of(case.model, arrays),
        receive,
        outputs=[InferRequestedOutput(name) for name in names],
        request_id=request_id,
        client_timeout=REQUEST_S,
    )
