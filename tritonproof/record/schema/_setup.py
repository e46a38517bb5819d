"""What the figures of a record depend on: the case, the machine, the server and the build. Also the types of
all fields of records, among them an estimate with its interval."""

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, field

# --- what fields may hold -----------------------------------------------------------------------------------


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A part of a record. It is immutable, and an unknown field in a file is an error."""


_Value = TypeVar("_Value")
MAX_NUMBER = 1e30
"""The largest value of any quantity, in any unit: far above real ones, but products do not overflow."""
_MAX_WHOLE_NUMBER = 2**53
"""A double represents every whole number up to here."""
MAX_TEXT_CHARS = 20_000
"""The most characters of a text; the longest are servers' errors."""

Count = Annotated[int, Meta(ge=0, le=_MAX_WHOLE_NUMBER)]
PositiveCount = Annotated[int, Meta(ge=1, le=_MAX_WHOLE_NUMBER)]
Axis = Annotated[int, Meta(ge=-1, le=_MAX_WHOLE_NUMBER)]
"""The length of an axis; -1 if it is variable, as in Triton's `dims: [ -1 ]`."""
Number = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
NotNegative = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]
Positive = Annotated[float, Meta(ge=1 / MAX_NUMBER, le=MAX_NUMBER)]
"""A quantity that is a divisor, such as a speed."""
Share = Annotated[float, Meta(ge=0, le=1)]
Confidence = Annotated[float, Meta(ge=0.01, le=0.999999)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_CHARS)]
LongText = Annotated[str, Meta(max_length=2**25)]
ByName = Annotated[Mapping[Annotated[str, Meta(max_length=200)], _Value], Meta(max_length=200)]
"""An object whose keys are names, such as those of percentiles or libraries."""
FilePart = Annotated[str, Meta(max_length=250, pattern=r"\A(?!\.\.?\Z)[A-Za-z0-9._-]+\Z")]
"""A part of a file's name, which cannot lead to another folder."""
Scenario = Literal["offline", "online"]
"""offline: whole batches, without dynamic batching; online: with dynamic batching."""
Arrivals = Literal["constant", "poisson"]
"""The distribution in time of requests at a rate."""
Name = Annotated[str, Meta(max_length=100, pattern=r"\A[A-Za-z0-9._-]+\Z")]
"""A word of the suite, such as the name of a percentile."""
SPEED = Meta(extra={"is_speed": True})
"""Marks a field that has or reveals a speed: `publishable` empties it in a case not proven right."""
MAX_ENTRIES = Meta(max_length=500)
"""The most entries of a list: several times the longest sweep; pages of thousands would take minutes."""

Better = Literal["higher", "lower"]
Verdict = Literal["passed", "failed", "inconclusive"]
"""Whether a measurement shows that a demand is met (passed) or missed (failed), or neither."""

CONFIDENCE = 0.95
"""The confidence of every interval that states no other."""
CERTIFIED_CONFIDENCE = 0.99
"""The confidence of a certified bound: the default of MLPerf LoadGen, with a tolerance of zero."""


class Estimate(Struct, frozen=True):
    """A measured number, and the interval that contains the true one with this confidence."""

    value: Number
    low: Number
    high: Number
    confidence: Confidence = CONFIDENCE
    open_above: bool = False
    """Whether too few observations give no upper bound: `high` is then the largest observation."""

    def verdict(self, limit: float, certified_bound: float | None) -> Verdict:
        """Whether the number is at most `limit`: passed if the whole interval is, and if it is open above, a
        certified bound too; failed if the whole interval is above; inconclusive otherwise."""
        is_bounded = not self.open_above or (certified_bound is not None and certified_bound <= limit)
        if self.high <= limit and is_bounded:
            return "passed"
        return "failed" if self.low > limit else "inconclusive"


class Ratio(Estimate, frozen=True):
    """One speed, or one latency, over another. It is shown only if its interval is narrow: see `is_shown`."""


class Slope(Estimate, frozen=True):
    """A change per request or loading; it alone of all estimates may be negative."""


# --- what the figures depend on -----------------------------------------------------------------------------


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
    """Whether it is only the client of a server that somebody else runs, on unknown hardware."""


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


class ConfigVariant(NamedTuple):
    """A variant of a model's configuration, as Model Analyzer calls it. Those of one build differ in the
    scenario, which decides whether the server's batcher joins requests, and in the deployment."""

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
