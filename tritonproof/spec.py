"""The values that flow through the suite. All are frozen and plain; behaviour is functions that take them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tritonproof.record import correctness, fields
from tritonproof.record.sample_files import SamplePart
from tritonproof.record.setup import REMOTE, CaseKey, Deployment

if TYPE_CHECKING:
    import numpy as np

Device = Literal["cpu", "cuda"]
Framework = Literal["pytorch", "tensorflow", "onnx"]
Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8"]
Split = Literal["training", "evaluation"]
Exchange = Literal["single", "decoupled", "sequence"]
BatchAxis = Literal["open", "one row", "none"]
"""The first axis of a network's inputs: a batch of any length, a batch of one row, or no batch."""
Arrays = Mapping[str, "np.ndarray"]
"""Tensors by name, [rows, ...] each: the first axis is the batch."""
OnProgress = Callable[[str], None]
"""Called with what begins now, or with its progress: `96 of 500`."""

ANY = -1
"""The declared length of a dimension whose length each request chooses."""
_ELEMENT_BYTES = {
    **dict.fromkeys(("FP64", "INT64", "UINT64"), 8),
    **dict.fromkeys(("FP32", "INT32", "UINT32"), 4),
    **dict.fromkeys(("FP16", "BF16", "INT16", "UINT16"), 2),
    **dict.fromkeys(("BOOL", "INT8", "UINT8"), 1),
    "BYTES": 4,
}
"""The bytes of an element on the wire, by Triton's type; 1 for others. Of BYTES, the length before a text."""


@dataclass(frozen=True)
class Tensor:
    """One input or output of a model, as clients of Triton see it."""

    name: str
    dtype: str
    """The type of the elements, Triton's name without `TYPE_`: FP32, INT64, ..."""
    shape: tuple[int, ...]
    """A row's dimensions, without the batch; -1 for a length that each request chooses."""
    optional: bool = False
    is_scalar: bool = False
    """Whether the network's own tensor has the shape [rows], which Triton lacks: clients see [rows, 1]."""

    @property
    def row_bytes(self) -> int:
        """The bytes of a row; the smallest number if a dimension is variable or elements are texts."""
        return _ELEMENT_BYTES.get(self.dtype, 1) * math.prod(max(1, length) for length in self.shape)

    @property
    def has_fixed_size(self) -> bool:
        """Whether every row has `row_bytes`."""
        return self.dtype != "BYTES" and ANY not in self.shape


def fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    """Whether a row of this shape fits an input's declared shape, in which -1 is any length."""
    pairs = zip(shape, declared, strict=False)
    return len(shape) == len(declared) and all(allowed in (ANY, length) for length, allowed in pairs)


@dataclass(frozen=True)
class Samples:
    """A split of a data set, loaded piece by piece so that it may exceed memory."""

    ids: Sequence[str]
    """The name of each row that is sent to the model, [rows]."""
    read: Callable[[Sequence[int]], Arrays]
    """Reads rows by their indices: the model's inputs, [len(indices), ...] each, in that order."""
    labels: Any = None
    """The ground truth of all items, in the form that the model's metrics take; None if it is unknown."""
    items: "np.ndarray | None" = None
    """The index of the item that each row belongs to, ascending from 0, [rows]; None if each row is an item.
    An item is what gets a score: a question is one, and has several rows if its paragraph is long."""
    are_synthetic: bool = False
    """Whether the suite generated the samples from shapes and types."""
    other_shapes: "Sequence[Samples]" = ()
    """Samples of other shapes, grouped by shape: no batch can hold them beside these."""
    source: str = ""
    """Where the samples come from, in words for the record; empty for the model's data set."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class FrameworkModel:
    """A framework model ready for inference, and where its weights come from."""

    network: Any
    """A torch.nn.Module, a keras.Model or an OnnxNetwork: FP32, in evaluation mode, on the CPU."""
    weights_source: str
    """For the record: a checkpoint's name and digest, `trained by recipe, ...`, or `random, seed N`."""
    digest: str
    """Identifies the weights. A build is reused only if it was made from weights of the same digest."""
    trained: bool
    """Whether the weights are trained. Random ones suit tests of speed and conversion, not the metric."""


@dataclass(frozen=True)
class Tolerance:
    """How far a converted model may be from the framework."""

    max_relative_error: float
    """The largest difference of an element of a floating-point output, divided by the spread of its column
    over all samples. Applies if the suite does not measure what the precision costs the model."""
    min_agreement: float
    """The smallest mean share of equal decisions, from 0 to 1."""
    source: str
    """The source of these limits: a measurement, or the format's digits."""
    max_mean_error: float | None = None
    """The largest mean difference, divided by the mean magnitude; None if it is `max_relative_error`."""
    is_given: bool = False
    """Whether the user set this tolerance. It then also limits differences between answers of one file."""


@dataclass(frozen=True)
class Metric:
    """A measure of a model's accuracy: how an item is scored, and the limits of the mean score."""

    name: str
    """The metric's name in records and tables: top-1, F1."""
    score: Callable[[Arrays, Any, Arrays], "np.ndarray"]
    """Scores each item, [items], from a stage's kept outputs, the labels and the framework's kept outputs."""
    limits: Mapping[str, correctness.Limit]
    """The limit of the mean in each precision: a floor, or a ceiling where lower is better. A precision
    without a limit is held to the framework's score alone. FP32 with products in TF32, which have FP16's 11
    bits, has the limit of `tf32`, else of `fp16`, else of `fp32`."""
    better: fields.Better = "higher"
    """Which scores are better: with "higher" they are fractions from 0 to 1, with "lower" errors."""
    labelled: bool = True
    """Whether it needs labels. Otherwise it compares with the framework, and suits random weights."""
    keeps_framework_score: bool = True
    """Whether a labelled metric must also nearly keep the framework's score; False with a user's limit."""


_Sizes = tuple[int, ...]


@dataclass(frozen=True)
class ServingProfile:
    """How a model is deployed on a kind of hardware, and the load points measured there."""

    deployment: Deployment
    batches: _Sizes
    """The batch sizes of the offline scenario, a load point each."""
    concurrencies: _Sizes
    """The requests in flight of the online scenario, a load point each."""
    nvidia_formats: tuple[str, ...] = ()
    """The formats for which NVIDIA published figures on this hardware, such as `onnx-trt-fp16`."""

    @staticmethod
    def batching(
        largest: int, batches: _Sizes, concurrencies: _Sizes, *, preferred: _Sizes, max_queue_delay_us: int
    ) -> "ServingProfile":
        """The profile of one instance that batches dynamically, and is warmed up."""
        deployment = Deployment(largest, 1, preferred, max_queue_delay_us, cuda_graphs=False, warmup=True)
        return ServingProfile(deployment, batches, concurrencies)


DEFAULT_PROFILES: Mapping[str, ServingProfile] = dict.fromkeys(
    ("cpu", "gpu"), ServingProfile.batching(32, (1, 32), (16,), preferred=(16, 32), max_queue_delay_us=1_000)
)
"""The profiles of a model without its own: dynamic batching up to 32 within 1 ms, and a few load points."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model with its task: what clients send and get, how answers are judged, and how it is deployed. A
    model of --repository has no more than this; any other model is a `NetworkModel`."""

    name: str
    """The name in ids, options and tables. No two models share one."""
    inputs: tuple[Tensor, ...]
    """The tensors of a request, in the order in which the network takes them."""
    outputs: tuple[Tensor, ...]
    """The tensors of an answer, in the order in which the network gives them."""
    decide: Callable[[Arrays], "np.ndarray"]
    """Turns kept outputs into decisions, [rows, ...]; the agreement of stages is the share of equal ones."""
    metrics: tuple[Metric, ...]
    """Every case must keep the limits of all metrics. Tables show the first, which limits all precisions."""
    keep: Callable[[Arrays], Arrays] = lambda outputs: outputs
    """Reduces a batch's outputs to what `decide` and the metrics need; only this is kept of all samples."""
    profiles: Mapping[str, ServingProfile] = field(default_factory=lambda: DEFAULT_PROFILES)
    """The deployment and load points by a target's name; `cpu` and `gpu` are for all others of that kind."""
    batch_axis: BatchAxis = "open"
    """The first axis, which all arrays of the suite have. With "none", tensors on the wire lack it; with "one
    row", Triton does not batch, and the shapes that it is told begin with 1."""
    exchange: Exchange = "single"
    """single: one answer a request; decoupled: any number; sequence: the server keeps state between them."""
    is_ensemble: bool = False
    """Whether the model passes requests on to other models, whose configurations may change its exchange."""
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    """Replaces the formats' tolerances, by precision; FP32 in TF32 has that of `fp16`. If the suite measures
    what the precision costs, numbers are held to a multiple of that instead, and decisions to both."""
    show: Callable[[Samples, int, Arrays, Arrays], Sequence[SamplePart]] | None = None
    """Shows an item on the page, by its index and the kept outputs of the framework and of the server."""
    micro: bool = False
    """Whether the model is small enough to run on every machine without being named."""

    @property
    def from_repository(self) -> bool:
        """Whether it is served as it is in a user's repository, so that it is no `NetworkModel`."""
        return not isinstance(self, NetworkModel)

    @property
    def batched(self) -> bool:
        """Whether requests have a batch axis."""
        return self.batch_axis != "none"

    @property
    def takes_single_requests(self) -> bool:
        """Whether the model answers each request once, independently of other requests."""
        return self.exchange == "single"

    @property
    def takes_single_rows(self) -> bool:
        """Whether every request has a single row."""
        return self.batch_axis != "open"


@dataclass(frozen=True, kw_only=True)
class NetworkModel(Model):
    """A model whose network the suite has and converts. A PyTorch network takes tensors in the order of
    `inputs` and returns one, or a tuple in the order of `outputs`. Its floating-point inputs and outputs are
    FP32 whatever its own precision: it casts inside, so that `network.half()` is the FP16 model, and clients
    of all precisions send and get the same tensors."""

    framework: Framework = "pytorch"
    """Decides the formats; "onnx" for an ONNX file."""
    load_weights: Callable[[Path | None], FrameworkModel]
    """Loads a checkpoint, or the model's own weights for None. Raises InputError if it does not fit."""
    infer: Callable[[Any, Arrays], Arrays]
    """Runs the framework's network in this process: from its inputs to its outputs, by name."""
    samples: Callable[[Split, Path | None, Path | None], Samples]
    """Opens a split of a data set, or of the model's own data for None. The last argument is the checkpoint,
    which may bring a vocabulary. Raises InputError or, for a missing split, NotAvailableError."""
    defined_in: Path
    """The file, a package's `__init__.py`, that defines the model; a change of it makes builds anew."""
    packages: tuple[str, ...] = ()
    """The distributions with the network's code, besides the formats'; a new version makes builds anew."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Why the model lacks a format, by the format's `name` or by `name-precision`."""
    train: Callable[..., Mapping[str, Any]] | None = None
    """Trains the committed weights in `steps`, a number with a default; returns the state dictionary."""
    weights: Path | None = None
    """The file of the committed weights, which `python -m tritonproof train` writes."""

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions in which the suite proves the model."""
        return tuple(self.metrics[0].limits)


@dataclass(frozen=True)
class ConversionJob:
    """All that a format needs to convert a model of the framework to its artifact."""

    model: NetworkModel
    network: Any
    """The framework's network as `FrameworkModel` holds it; a format must not change it."""
    precision: str
    accelerator: str | None
    """The backend's accelerator that the artifact is for; None for the backend alone."""
    device: Device
    max_batch_size: int
    """The largest batch that the artifact must take; the smallest is 1."""
    samples: Callable[[Split], Samples]
    """Opens a split: training calibrates INT8, and evaluation has examples for tracing."""
    on_progress: OnProgress
    tf32: bool | None = None
    """Whether products of FP32 may be computed in TF32; None where there is no choice, as in Deployment."""


@dataclass(frozen=True, kw_only=True)
class NativeBackend:
    """A backend of Triton's own, which serves a format where the server has it."""

    name: str
    platform: str = ""
    """The `platform` in config.pbtxt, if the backend serves several kinds of artifacts."""
    parameters: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _of_runtime: {}
    """Turns a runtime's parameters, as in `build/runtime_files.py`, into the backend's in config.pbtxt."""
    gpu_parameters: frozenset[str] = frozenset()
    """Which of a runtime's parameters `cuda_graphs` and `prefer_nhwc` the backend obeys on a GPU."""
    reads_engines: bool = False
    """Whether the backend reads engines, which only the TensorRT that built them runs."""
    returns_freed_memory: bool = False
    """Whether the backend makes glibc return freed memory to the kernel."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """The suite's own code for a format, which runs it in process, and on Triton's Python backend where the
    native one is missing."""

    file: str
    """The file in tritonproof/runtimes/."""
    gpu_arrays: Literal["numpy", "torch"] = "numpy"
    """Its inputs and outputs on a GPU: arrays in the host's memory, or tensors in the GPU's."""
    pads_batches: bool = False
    """Whether, on a GPU, it may compute only a few batch sizes and pad other batches to the next."""
    gpu_parameters: frozenset[str] = frozenset()
    """As in `NativeBackend`."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A serving format: its names, how a model is converted to it, how that is served, and where it runs."""

    name: str
    """The format's name in ids, after NVIDIA's scripts: ts-trace, ts-script, onnx, trt."""
    label: str
    library: str
    """The library that computes, for titles of tables."""
    artifact: str
    """The converted model's file or folder in the version folder of a build."""
    convert: Callable[[ConversionJob, Path], None]
    """Writes the artifact to a path. Raises ProofError where the converter refuses the model."""
    frameworks: tuple[Framework, ...] = ("pytorch",)
    precisions: Mapping[Device, tuple[str, ...]]
    accelerators: Mapping[Device, tuple[str, ...]] = field(default_factory=dict)
    """The accelerators that the backend has on each kind of device; every case also runs without one."""
    tolerances: Mapping[str, Tolerance]
    """The tolerance in each precision, unless the model has its own; TF32 as in `Model`."""
    packages: tuple[str, ...]
    """The distributions whose versions decide the artifact; builds are made anew when one changes."""
    why_built_on_gpu: str = ""
    """Why a conversion needs the GPU itself: "TensorRT builds engines on the GPU". Empty if it does not."""
    compiles: bool = False
    """Whether the conversion compiles code, which takes half a minute: a model's cases with it come last."""
    backend: NativeBackend | None = None
    """Triton's own backend; None where only the suite's runtime serves the format."""
    runtime: Runtime
    why_missing: Callable[[Device, str | None, str], str | None] = lambda *_: None
    """Why the format cannot be built or run here (device, accelerator, precision), with the fix; or None."""
    why_left_out: Callable[[str | None, tuple[int, int] | None], str | None] = lambda *_: None
    """Why no environment runs the format with an accelerator on a compute capability; or None."""
    only_named_on_cpu: bool = False
    """Whether on a CPU its cases run only if format or model is named: another format runs the same code."""


@dataclass(frozen=True)
class Target:
    """A kind of hardware: how to recognise it, and what it can do."""

    name: str
    label: str
    device: Device
    gpu_name: str | None = None
    """A regular expression that the driver's name of the GPU matches; None for the CPU."""
    compute_capability: tuple[int, int] | None = None
    """The generation of the GPU, as CUDA numbers them; None for the CPU, and where only the driver knows."""
    has_nvidia_figures: bool = False
    """Whether NVIDIA published figures of the GPU. Then other than published cases run only if named."""


@dataclass(frozen=True)
class Case:
    """A model in a format on a target. Its name is the test id, the folder, the record and the table row."""

    target: Target
    model: Model
    format: Format
    accelerator: str | None
    precision: str
    """The precision of the conversion; "" if unknown, as of every model of --repository."""
    gpus: int = 1
    """The number of GPUs that serve the model; 1 on a CPU too."""

    @property
    def network_model(self) -> NetworkModel:
        """The model, in a case that the suite converts."""
        assert isinstance(self.model, NetworkModel)
        return self.model

    @property
    def answers_on(self) -> Device:
        """The device whose rounding answers may show: "cuda" if a remote server may have a GPU."""
        is_remote = self.model.from_repository and self.target.name == REMOTE
        return "cuda" if is_remote else self.target.device

    @property
    def key(self) -> CaseKey:
        """The case as the record names it."""
        names = (self.target.name, self.model.name, self.format.name)
        return CaseKey(*names, self.accelerator, self.precision, self.gpus)

    def __str__(self) -> str:
        return str(self.key)
