"""What a case is, and what its figures depend on: the machine, the server, the deployment, the artifact, the run."""

from msgspec import field

from reports.record.schema._base import Axis, ByName, Count, Counted, NotNegative, Struct, Text


class Case(Struct, frozen=True):
    """What was measured, by the parts of its name."""

    target: Text
    model: Text
    format: Text
    accelerator: Text | None
    precision: Text
    gpus: Counted = 1
    """How many GPUs the model is served on, each with as many instances as the deployment says; 1 on a CPU too."""


class Machine(Struct, frozen=True):
    """Everything about the machine that a number depends on; two stamps never share a record."""

    cpu: Text
    cores: Count
    memory_gib: Count
    gpu: Text | None
    gpu_driver: Text | None
    system: Text
    versions: ByName[Text]
    gpu_uuids: tuple[Text, ...] = ()
    """The UUIDs of the GPUs, or MIG slices, that were used; empty without one."""


class Origin(Struct, frozen=True):
    """Where a measurement comes from: which run made it, on which machine, with which code."""

    run: Text
    """The id of the run; one for all machines of a fleet."""
    host: Text
    """The machine's network name; empty where it was left out for readers elsewhere."""
    gpu_uuids: tuple[Text, ...]
    """The UUIDs of the GPUs, or MIG slices, that were used; empty on a CPU, and where they were left out."""
    commit: Text | None
    """The commit of the suite's checkout, 40 hexadecimal digits; None where it is in no repository."""
    clean: bool | None
    """Whether the checkout's files were those of the commit; None where there is none."""
    started: Text
    """When the run began, in UTC, ISO 8601."""


class Serving(Struct, frozen=True):
    """Which server answered, and how the model was served."""

    kind: Text
    """The kind of server: embedded, local, docker or remote."""
    triton: Text
    """The version of Triton, as the server reports it."""
    backend: Text
    """The Triton backend that ran the model: onnxruntime, pytorch, tensorrt, or python for the suite's runtimes."""
    shared_memory: Text
    """How tensors reached the server under load: system, cuda or none."""
    image: Text | None = None
    """The container's image, as it was asked for; None for a server that is not in one."""
    image_digest: Text | None = None
    """The registry's digest of the image, sha256:...; None where the image was never in a registry."""
    versions: ByName[Text] = field(default_factory=dict)
    """The versions of the libraries in the server's native backends, by their distributions' names on PyPI; those that
    are not known are left out. Empty where the model ran on this machine's own."""


class Deployment(Struct, frozen=True):
    """The settings of the model on the server."""

    max_batch_size: Count
    instances: Count
    preferred_batch_sizes: tuple[Count, ...]
    max_queue_delay_us: Count
    cuda_graphs: bool
    warmup: bool
    tf32: bool | None = None
    """Whether products of FP32 may be computed in TF32, whose operands hold 11 bits in place of 24. None where that means
    nothing: on a CPU, on a GPU older than compute capability 8.0, in other precisions."""


class Artifact(Struct, frozen=True):
    """The converted artifact: what it was made from, and what making it cost."""

    digest: Text
    """A digest of everything that the artifact was made from."""
    weights: Text
    """Where the weights come from: a checkpoint's name and SHA-256, `trained by recipe`, or `random, seed N`."""
    build_time_s: NotNegative
    """Seconds that converting the model took."""
    size_mib: NotNegative
    """The size of the artifact on disk."""
    format: Text
    """The format as a reader knows it: `TorchScript Trace`."""
    engine: Text
    """The library that computes, as a reader knows it: `PyTorch`."""
    inputs: ByName[tuple[Axis, ...]]
    """The model's inputs and their shapes without the batch dimension."""
    as_found: bool = False
    """Whether the model was served as it was found in a repository: nothing was converted, and its answers are held to
    those that it gives to one request at a time."""
    requests: Text = ""
    """What the requests were made of, where that is no data set of the model's; empty where it is."""


def case_id(case: Case) -> str:
    """The case's name everywhere: test id, folder, record file and table row."""
    several = f"{case.gpus}gpus" if case.gpus > 1 else None
    parts = (case.target, case.model, case.format, case.accelerator, case.precision, several)
    return "-".join(part for part in parts if part)
