"""Describes a model of an existing repository as a `Model`, by its configuration."""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from tritonproof import spec
from tritonproof.record import correctness, setup
from tritonproof.safe_io.files import MAX_REQUEST_BYTES
from tritonproof.spec import Arrays, Format, Metric, Model, Runtime, ServingProfile, Tensor, Tolerance
from tritonproof.user_models.labels import LabelOptions
from tritonproof.user_models.metrics import metric_of
from tritonproof.user_models.model_repository import RepositoryEntry

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

_SOME_BATCH, _CLIENTS = 8, 16
"""A batch size between 1 and the largest, and the requests in flight: few points, as models are many."""
_MAX_ROWS = 4096
"""The most rows of a measured request, since a configuration may allow any number."""
_COMPLETED_BATCH = 4
"""The largest batch if Triton completes the configuration: tritonserver's `default-max-batch-size`."""
_UNKNOWN = 2**31 - 1
"""Stands for the largest batch of a model until the server says it."""


def _unused(*_arguments: object) -> Any:
    """Stands for what only a conversion needs, and for how answers are judged until outputs are known."""
    raise NotImplementedError("nothing is converted, nor scored before the server has loaded it")


AS_IS = Format(
    name="asis",
    label="As it is",
    library="Triton",
    artifact="",
    runtime=Runtime(file=""),
    convert=_unused,
    precisions={},
    tolerances={
        "": Tolerance(
            2e-3,
            1.0,
            "what FP32's kernels differ by in public models; more where all answers show a lesser precision; "
            "integers and texts are equal",
            max_mean_error=2e-5,
        )
    },
    packages=(),
)
"""The format of a model of --repository, which is served as it is."""


def as_model(entry: RepositoryEntry) -> Model:
    """The model as its files describe it; without config.pbtxt its inputs and outputs are unknown."""
    from tritonclient.grpc import model_config_pb2 as pb

    plain = Model(name=entry.name, inputs=(), outputs=(), decide=_unused, metrics=())
    return with_config(plain, entry.config or pb.ModelConfig())


def is_complete(config: "ModelConfig | None") -> bool:
    """Whether a configuration declares inputs and outputs, so that the server completes nothing."""
    return config is not None and bool(config.input and config.output)


def with_config(model: Model, config: "ModelConfig", called: Sequence[RepositoryEntry] = ()) -> Model:
    """The model with a configuration's settings; `called` models decide on an ensemble's exchange too."""
    largest = max(1, config.max_batch_size)
    inputs = tuple(_tensor(tensor, optional=tensor.optional) for tensor in config.input)
    row = sum(tensor.row_bytes for tensor in inputs)
    sent = max(1, min(largest, _MAX_ROWS, MAX_REQUEST_BYTES // max(1, row)))
    batches = tuple(sorted({1, min(_SOME_BATCH, sent), sent}))
    deployment = configured_deployment(config)
    exchange: spec.Exchange = "decoupled" if config.model_transaction_policy.decoupled else "single"
    parts = [config]
    for part in parts:  # `parts` grows in the loop: a step may be an ensemble too
        steps = {step.model_name for step in part.ensemble_scheduling.step}
        parts += [inner.config for inner in called if inner.name in steps and inner.config is not None]
    # An iterative sequence is one request, which the server passes to the model again and again.
    batchings = [part.sequence_batching for part in parts if part.HasField("sequence_batching")]
    if not all(batching.iterative_sequence for batching in batchings):
        exchange = "sequence"
    is_unknown = not is_complete(config) and not config.max_batch_size
    if is_unknown:
        deployment, batches = structs.replace(deployment, max_batch_size=_UNKNOWN), (1, _COMPLETED_BATCH)
    return dataclasses.replace(
        model,
        inputs=inputs,
        outputs=tuple(_tensor(tensor) for tensor in config.output),
        profiles=dict.fromkeys(("cpu", "gpu"), ServingProfile(deployment, batches, (_CLIENTS,))),
        batch_axis="open" if is_unknown or config.max_batch_size > 0 else "none",
        exchange=exchange,
        is_ensemble=bool(config.ensemble_scheduling.step),
    )


def configured_deployment(config: "ModelConfig") -> setup.Deployment:
    """The deployment in a model's configuration; a model without batches takes one row at a time."""
    batching = config.dynamic_batching
    return setup.Deployment(
        max_batch_size=max(1, config.max_batch_size),
        instances=sum(group.count for group in config.instance_group) or 1,
        preferred_batch_sizes=tuple(batching.preferred_batch_size),
        max_queue_delay_us=batching.max_queue_delay_microseconds,
        cuda_graphs=config.optimization.cuda.graphs,
        warmup=bool(config.model_warmup),
    )


def sequences_at_once(config: "ModelConfig") -> int:
    """The number of sequences that the model takes at once; others wait until one ends or times out."""
    batching, deployment = config.sequence_batching, configured_deployment(config)
    instances = sum(max(1, group.count) * max(1, len(group.gpus)) for group in config.instance_group) or 1
    oldest = batching.oldest.max_candidate_sequences if batching.HasField("oldest") else None
    return instances * max(1, deployment.max_batch_size if oldest is None else oldest)


def why_not_here(entry: RepositoryEntry, device: spec.Device) -> str | None:
    """Why a device cannot run the model according to its configuration; None if it can."""
    from tritonclient.grpc import model_config_pb2 as pb

    kinds = set() if entry.config is None else {group.kind for group in entry.config.instance_group}
    if device == "cpu" and kinds == {pb.ModelInstanceGroup.KIND_GPU}:
        return f"{entry.name} needs a GPU: its configuration has instances of KIND_GPU alone"
    return None


def gpus_used(configs: "Iterable[ModelConfig]") -> int | None:
    """The number of GPUs of all instances, by completed configurations; None if models choose or use none."""
    groups = [group for config in configs for group in config.instance_group]
    chooses = any(group.kind == group.KIND_MODEL for group in groups)
    return None if chooses or not groups else len({gpu for group in groups for gpu in group.gpus})


def with_labels(model: Model, options: LabelOptions) -> Model:
    """The model with its labels' metric, which scores once outputs are known. Raises InputError."""
    limits = {} if options.floor is None else {"": correctness.Limit(options.floor, "given by --floor")}
    if not model.outputs:
        name = re.split("[@:]", options.metric)[0]
        # Which direction is better is unknown yet: as an error, the metric may have any limit.
        return dataclasses.replace(model, metrics=(Metric(name, _unused, limits, better="lower"),))
    metric, output = metric_of(options.metric, options.floor, model.outputs)
    return dataclasses.replace(
        model,
        metrics=(dataclasses.replace(metric, limits=limits),),
        decide=lambda kept: kept[output],
        keep=lambda outputs: {output: outputs[output]},
    )


def _tensor(declared: Any, *, optional: bool = False) -> Tensor:
    from tritonclient.grpc import model_config_pb2 as pb

    name = pb.DataType.Name(declared.data_type).removeprefix("TYPE_")
    return Tensor(declared.name, "BYTES" if name == "STRING" else name, tuple(declared.dims), optional)


def warmup_batch(config: "ModelConfig", rows: Arrays) -> int | None:
    """The model's smallest warm-up batch whose rows have the shapes of `rows`; None if there is none."""
    shapes = {name: values.shape[1:] for name, values in rows.items()}
    sizes = [
        max(1, warmup.batch_size)
        for warmup in config.model_warmup
        if all(shapes.get(name) == tuple(tensor.dims) for name, tensor in warmup.inputs.items())
    ]
    return min(sizes, default=None)
