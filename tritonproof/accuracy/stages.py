"""The stages of a model on its way to clients: its answers to the evaluation data in the framework and, once
converted, in this process and through the server."""

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.accuracy.answer_comparison import StageComparison
from tritonproof.accuracy.limits import CaseArithmetic
from tritonproof.accuracy.outputs import check_finite, check_shapes, equal_fraction, why_undeclared
from tritonproof.accuracy.precisions import PRECISIONS
from tritonproof.base.errors import AccuracyError, InputError, ProofError
from tritonproof.client.requests import IN_FLIGHT, IN_FLIGHT_BYTES, send_messages
from tritonproof.frameworks import pytorch
from tritonproof.host.scratch import report_full_disk
from tritonproof.record.correctness import Conversion, OutputDifference
from tritonproof.serve.messages import content_size_bytes, infer_message, response_outputs
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Case, Device, FrameworkModel, Model, NetworkModel, OnProgress, Samples


@dataclass(frozen=True)
class StageAnswers:
    """A model's answers to all rows of the evaluation data at one stage."""

    name: str
    """The stage: framework, converted or served."""
    kept: Arrays
    """What the model's metrics need of the outputs, [rows, ...] each."""
    decisions: np.ndarray
    """What the model decides for each row, [rows, ...]; two stages agree where these are equal."""
    requests: int = 0
    """The number of requests behind the answers; 0 in process."""
    outputs: Arrays = field(default_factory=dict)
    """All outputs, [rows, ...] each, in unnamed files that vanish after use; empty for the served model,
    whose answers are compared as they come."""
    differences: tuple[OutputDifference, ...] = ()
    """How far each output is from that of the stage before, over all rows; empty if only decisions count."""


@dataclass(frozen=True, kw_only=True)
class Stages:
    """A model's answers at each stage; of a --repository model only the answers as served are known."""

    framework: StageAnswers | None = None
    converted: StageAnswers | None = None
    served: StageAnswers

    @property
    def known(self) -> list[StageAnswers]:
        """The stages whose answers are known, in order."""
        return [stage for stage in (self.framework, self.converted, self.served) if stage is not None]


def framework_model_on(device: Device, model: NetworkModel, on_cpu: FrameworkModel) -> FrameworkModel:
    """The framework's model moved to a device, in FP32 without TF32, to compare converted models with: for
    volumes a GPU takes minutes, a CPU hours. Networks of ONNX and Keras stay where they are."""
    if model.framework != "pytorch":
        return on_cpu
    network = pytorch.in_precision(on_cpu.network, "fp32", device)
    return dataclasses.replace(on_cpu, network=network)


def evaluate_in_process(
    name: str,
    model: Model,
    infer: Callable[[Arrays], Arrays],
    samples: Samples,
    batch: int,
    on_progress: OnProgress = lambda _text: None,
) -> StageAnswers:
    """Run all rows through a model in this process, in batches; the last may be partial. The stage keeps
    all outputs. Raises AccuracyError unless each row has one finite result."""
    parts = []
    everything: dict[str, np.ndarray] = {}
    for start in range(0, len(samples), batch):
        indices = range(start, min(start + batch, len(samples)))
        outputs = infer(samples.read(indices))
        parts.append(keep_outputs(name, model, outputs, samples, indices))
        everything = everything or temporary_arrays(outputs, len(samples))
        slices = {output: values[indices.start : indices.stop] for output, values in everything.items()}
        check_shapes(slices, outputs, name, f"before {samples.ids[indices[0]]}")
        for output, rows in slices.items():
            rows[:] = outputs[output]
        on_progress(f"{indices.stop:,} of {len(samples):,}")
    return answers_at(name, model, parts, outputs=everything)


def evaluate_through_server(
    server: Server,
    case: Case,
    samples: Samples,
    max_batch_size: int,
    on_progress: OnProgress = lambda _text: None,
    comparison: StageComparison | None = None,
) -> StageAnswers:
    """Send all rows to the server once, the first alone, then in mixed batch sizes, many in flight; compare
    all outputs with those of the same file in process. Raises ProofError if a request fails or is late."""
    model, name, parts, done = case.model, server.name_of(case), dict[int, Arrays](), 0
    answer_bytes = sum(tensor.row_bytes for tensor in model.outputs)  # at least: a dimension may be open

    def take(indices: range, answer: bytes) -> None:
        nonlocal done, answer_bytes
        outputs = _served_outputs(case, indices, answer)
        answer_bytes = max(answer_bytes, content_size_bytes(outputs) // len(indices))
        parts[indices.start] = keep_outputs("served", model, outputs, samples, indices)
        if comparison is not None:
            comparison.add(outputs, indices)
        done += len(indices)
        on_progress(f"{done:,} of {len(samples):,}")

    def request(indices: range) -> tuple[range, bytes, int]:
        inputs = samples.read(indices)
        size = content_size_bytes(inputs) + len(indices) * answer_bytes
        return indices, infer_message(name, model, inputs, str(indices.start)), size

    def send(batches: Iterable[range]) -> None:
        send_messages(server, map(request, batches), take, IN_FLIGHT, where=case, max_bytes=IN_FLIGHT_BYTES)

    send([range(1)])  # alone: its answer shows how many rows fit
    most_rows = max(1, IN_FLIGHT_BYTES // (content_size_bytes(samples.read([0])) + answer_bytes))
    send(mixed_batches(len(samples), min(max_batch_size, most_rows), start=1))
    in_order = [parts[start] for start in sorted(parts)]
    differences = () if comparison is None else comparison.differences
    return answers_at("served", model, in_order, requests=len(parts), differences=differences)


def mixed_batches(count: int, max_batch_size: int, start: int = 0) -> Iterator[range]:
    """Consecutive ranges from `start` to `count`, of seeded random sizes from 1 to `max_batch_size`. Their
    logarithm is uniform, so that small and large batches meet in the server's batcher."""
    generator = np.random.default_rng(0)
    while start < count:
        size = int(np.exp(generator.uniform(0, np.log(max_batch_size + 1))))
        stop = min(start + max(1, min(size, max_batch_size)), count)
        yield range(start, stop)
        start = stop


def _served_outputs(case: Case, indices: range, answer: bytes) -> Arrays:
    """An answer's outputs. Raises ProofError if it is another request's, AccuracyError if not as declared."""
    from tritonclient.grpc import service_pb2

    response = service_pb2.ModelInferResponse.FromString(answer)
    if response.id != str(indices.start):
        raise ProofError(f"Triton gave the answer to the request {response.id!r}", where=case)
    outputs = response_outputs(response, batched=case.model.batched)
    for tensor in case.model.outputs:
        if (problem := why_undeclared(tensor, outputs.get(tensor.name))) is not None:
            raise AccuracyError(f"an answer is not as the model's outputs are: {problem}", where=case)
    return outputs


def temporary_arrays(outputs: Arrays, row_count: int) -> dict[str, np.ndarray]:
    """Arrays for `row_count` rows of these outputs, in temporary files that vanish once the arrays are no
    longer used. Raises ProofError if the folder for temporary files has no room."""
    arrays: dict[str, np.ndarray] = {}
    for name, values in outputs.items():
        shape = (row_count, *values.shape[1:])
        with report_full_disk(Path(tempfile.gettempdir())), tempfile.TemporaryFile() as file:
            # A file with holes would end the process by a signal once the disk is full.
            os.posix_fallocate(file.fileno(), 0, max(1, int(np.prod(shape)) * values.dtype.itemsize))
            arrays[name] = np.memmap(file, values.dtype, "r+", shape=shape)
    return arrays


def keep_outputs(
    stage: str, model: Model, outputs: Arrays, samples: Samples, indices: Sequence[int]
) -> Arrays:
    """What the model keeps of a batch's outputs. Raises InputError if the framework's are not as the model
    declares them, and AccuracyError unless each row has a finite result."""
    if missing := [tensor.name for tensor in model.outputs if tensor.name not in outputs]:
        raise AccuracyError(f"the {stage} outputs lack {', '.join(missing)}", where=model.name)
    for tensor in model.outputs if stage == "framework" else ():
        assert isinstance(model, NetworkModel)
        if (problem := why_undeclared(tensor, outputs[tensor.name])) is not None:
            fix = f"correct the outputs of the model {model.name}"
            raise InputError(f"the network's output {problem}", where=model.defined_in, fix=fix)
    for name, values in outputs.items():
        if len(values) != len(indices):
            what = f"the {stage} outputs are {len(values)} results for {len(indices)} samples"
            raise AccuracyError(what, where=f"output {name}")
    check_finite(stage, outputs, [samples.ids[i] for i in indices])
    return model.keep(outputs)


def answers_at(name: str, model: Model, parts: Sequence[Arrays], **more: Any) -> StageAnswers:
    """The stage whose kept outputs are these `parts`, in order. Raises AccuracyError if shapes differ."""
    first, *others = ({key: values[:1] for key, values in part.items()} for part in parts)
    for other in others:
        check_shapes(first, other, name, "for the first sample")
    kept = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return StageAnswers(name, kept, model.decide(kept), **more)


def compare_conversion(
    framework: StageAnswers,
    converted: StageAnswers,
    ids: Sequence[str],
    arithmetic: CaseArithmetic,
    *,
    trained: bool,
    on_progress: OnProgress = lambda _text: None,
) -> Conversion:
    """Compare all outputs of the `converted` model with those of the `framework`. Decisions on floating-point
    outputs have no limit if weights are not `trained`: they are ties that any rounding breaks. Raises
    AccuracyError if an output is missing or has another shape."""
    case, cost, tolerance = arithmetic.case, arithmetic.cost, arithmetic.tolerance
    comparison = StageComparison("converted", ids, framework.outputs, arithmetic)
    comparison.add_all(converted.outputs, on_progress)
    decisions = framework.decisions.size
    agreed = float(equal_fraction(converted.decisions, framework.decisions).mean())
    differences = comparison.differences
    floating = [output for output in differences if output.kind == "error"]
    limit = arithmetic.decision_limit(decisions) if decisions and (trained or not floating) else None
    costs = {} if cost is None else {output.output: cost.mean[output.output] for output in floating}
    errors_in_costs = {output.output: output.mean / costs[output.output] for output in floating if costs}
    worst_in_costs = max(errors_in_costs, key=errors_in_costs.__getitem__, default="")
    worst = max(floating, key=lambda output: output.largest / (output.largest_limit or 1.0), default=None)
    return Conversion(
        samples=len(ids),
        relative_error=None if worst is None else worst.largest,
        relative_error_limit=tolerance.max_relative_error if worst is None else worst.largest_limit,
        agreement=agreed if decisions else None,
        agreement_limit=limit,
        outputs=differences,
        is_users_file=case.network_model.framework == case.format.name == "onnx" and case.precision == "fp32",
        precision_cost=costs.get(worst_in_costs),
        error_in_costs=errors_in_costs.get(worst_in_costs),
        error_in_costs_limit=PRECISIONS[arithmetic.precision].conversion_factor if errors_in_costs else None,
    )
