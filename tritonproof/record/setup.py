"""What the figures of a record depend on: the case, the machine, the server and the build."""

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, field

from tritonproof.record.fields import Axis, ByName, Count, NotNegative, Number, PositiveCount, Struct, Text

FilePart = Annotated[str, Meta(max_length=250, pattern=r"\A(?!\.\.?\Z)[A-Za-z0-9._-]+\Z")]
"""A part of a file's name, which cannot lead to another folder."""


class CaseKey(Struct, frozen=True):
    """What was measured: the parts of its name."""

    target: FilePart
    model: FilePart
    format: FilePart
    accelerator: FilePart | None
    precision: Annotated[str, Meta(max_length=100, pattern=r"\A[A-Za-z0-9._-]*\Z")]
    """The precision of the conversion; empty for a model that is served as it is."""
    gpus: PositiveCount = 1
    """The number of GPUs, each with the instances of the deployment; 1 on a CPU."""

    @property
    def from_repository(self) -> bool:
        """Whether the model is served as it is: nothing is converted, and its own answers are expected."""
        return self.precision == ""

    def __str__(self) -> str:
        """The case's name everywhere: test id, folder, record file and table row."""
        several = f"{self.gpus}gpus" if self.gpus > 1 else None
        parts = (self.target, self.model, self.format, self.accelerator, self.precision, several)
        return "-".join(part for part in parts if part)


REMOTE = "remote"
"""The target of a case on somebody else's server, whose hardware nobody has named."""


class Machine(Struct, frozen=True):
    """All facts about the machine that figures depend on: a machine's stamp. A record has a single one."""

    cpu: Text
    cores: Count
    memory_gib: Count
    gpu: Text | None
    gpu_driver: Text | None
    system: Text
    versions: ByName[Text]
    gpu_uuids: tuple[Text, ...] = ()
    is_client: bool = False
    """Whether the machine is only the client of a server that somebody else runs, on unknown hardware."""


class Origin(Struct, frozen=True):
    """The run, the machine and the code that a measurement comes from. The recorder adds it."""

    run: Text
    """The id of the run, which all machines of a fleet share."""
    host: Text
    """The machine's network name; empty in an anonymous record."""
    gpu_uuids: tuple[Text, ...]
    commit: Text | None
    """The commit of the suite's checkout, 40 hexadecimal digits; None outside a repository."""
    clean: bool | None
    """Whether the checkout had no changes on top of the commit."""
    started: Text
    """When the run began, in UTC, ISO 8601."""


class Serving(Struct, frozen=True):
    """Which server answered, and how the model was served."""

    kind: Text
    """embedded, local, docker or remote."""
    triton: Text
    """The version of Triton, as the server reports it."""
    backend: Text
    """onnxruntime, pytorch, tensorrt and so on; python for the runtimes of the suite."""
    shared_memory: Text
    """How tensors reach the server under load: system, cuda or none."""
    image: Text | None = None
    image_digest: Text | None = None
    """The registry's digest of the image, sha256:...; None for an image that was never in a registry."""
    versions: ByName[Text] = field(default_factory=dict)
    """The known versions of native backends' libraries, by the names of their distributions on PyPI."""


class Deployment(Struct, frozen=True):
    """How a server loads the model: batch sizes, instances, batching, and what a GPU may do."""

    max_batch_size: Count
    instances: Count
    preferred_batch_sizes: tuple[Count, ...]
    max_queue_delay_us: Count
    cuda_graphs: bool
    warmup: bool
    tf32: bool | None = None
    """Whether FP32 products may use TF32, whose operands have 11 bits instead of 24. None if there is no
    choice: on a CPU, on a GPU older than compute capability 8.0, in other precisions."""
    prefer_nhwc: bool = False
    """Whether ONNX Runtime puts the channels last in convolutions on a GPU."""


Scenario = Literal["offline", "online"]
"""offline: whole batches, without dynamic batching; online: with dynamic batching."""


class ConfigVariant(NamedTuple):
    """A variant of a model's configuration, as Model Analyzer calls it. The variants of one build differ in
    the scenario, which decides whether the server's batcher joins requests, and in the deployment."""

    scenario: Scenario
    deployment: Deployment

    @property
    def joins_requests(self) -> bool:
        return self.scenario == "online"


class BuildFacts(Struct, frozen=True):
    """What a build's build.json and the case's record both state."""

    digest: Text
    """SHA-256, in hexadecimal, of all that decides what is served; empty if unknown."""
    weights_source: Text
    """A checkpoint's name and SHA-256, `trained by recipe`, or `random, seed N`."""
    build_time_s: NotNegative
    """Seconds of the conversion, perhaps in an earlier run."""
    size_mib: NotNegative


class Build(BuildFacts, frozen=True):
    """The build of a case and, in words for readers, what it is."""

    format: Text
    """The format as readers know it: `TorchScript Trace`."""
    library: Text
    """The library that computes, as readers know it: `PyTorch`."""
    inputs: ByName[tuple[Axis, ...]]
    """The model's inputs and their shapes without the batch dimension."""
    requests_note: Text = ""
    """What the requests contain, if not the model's data set."""

    @property
    def has_random_weights(self) -> bool:
        """Whether weights are random, so that no decision can be right or wrong."""
        return self.weights_source.startswith("random")


class Start(Struct, frozen=True):
    """How long it takes to start the server, to load the model, and to answer the first request."""

    scenario: Scenario
    server_start_s: Number | None
    """Seconds until the server was ready, without a model; None for one that already ran."""
    loading_s: Number
    """Seconds of loading the model, with the server's own warm-up requests."""
    first_request_ms: Number
    origin: Origin | None = None
