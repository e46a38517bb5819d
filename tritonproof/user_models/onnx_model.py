"""An ONNX file as a model of the suite: its interface from the file, its data from samples or generated. The
framework is ONNX Runtime on the CPU, which runs the graph as it is in the file."""

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import structs

from tritonproof import spec
from tritonproof.base.disk import file_digest, strict_glob
from tritonproof.base.errors import InputError
from tritonproof.frameworks import error_line, onnx_networks
from tritonproof.frameworks.onnx_networks import OnnxNetwork
from tritonproof.frameworks.pytorch import TOLERANCES
from tritonproof.safe_io.files import data_digest, readable
from tritonproof.spec import ANY, Arrays, BatchAxis, FrameworkModel, Samples, Split, Tensor, Tolerance
from tritonproof.user_models import network_samples
from tritonproof.user_models.labels import LabelOptions, read_labels
from tritonproof.user_models.media_files import TOKENIZER, TOKENIZER_FILES
from tritonproof.user_models.metrics import DECISIONS, metric_of, unlabelled_metric
from tritonproof.user_models.network_samples import MIN_SYNTHETIC, VARIABLE_LENGTHS, synthetic_samples
from tritonproof.user_models.samples import CALIBRATION, sized_inputs
from tritonproof.user_models.value_files import shape_text

_TOLERANCES = {
    "int8": Tolerance(
        2.0,
        0.9,
        "chosen: 8 bits per activation in a network that nobody has prepared for them, a fifth on the mean, "
        "one decision of ten",
        max_mean_error=0.2,
    )
}


class BatchError(InputError):
    """The first axis of an output is not the batch axis of the inputs."""


@dataclass(frozen=True)
class OnnxOptions:
    """What the command line says about one network."""

    file: Path
    """The ONNX file, or a folder with one, such as Hugging Face's exports."""
    samples: Path | None = None
    """The folder of samples; None for generated inputs."""
    labels: LabelOptions | None = None
    tolerance: float | None = None
    """The largest difference of outputs as a share of their spread; None for the suite's tolerances."""


def model_of(name: str, options: OnnxOptions) -> spec.NetworkModel:
    """The model of an ONNX file, which is run once for the shapes of its outputs. Raises InputError if the
    file, the samples or the labels are unusable, or do not fit one another."""
    with readable("the ONNX file", options.file, "name the file itself"):
        path = _graph_in(options.file)
    network = onnx_networks.open_network(path)
    lengths = {tensor.shape[:1] for tensor in network.inputs}
    if lengths == {(1,)}:  # a batch of one, unless an output's first axis is another
        with contextlib.suppress(BatchError):
            return _model_of(name, options, dataclasses.replace(network, batch_axis="one row"))
    batch_axis: BatchAxis = "open" if lengths == {(ANY,)} else "none"
    return _model_of(name, options, dataclasses.replace(network, batch_axis=batch_axis))


def _model_of(name: str, options: OnnxOptions, network: OnnxNetwork) -> spec.NetworkModel:
    from tritonclient.utils import np_to_triton_dtype

    axes = int(network.batched)
    rows = tuple(_row(network, each.name, each.dtype, each.shape[axes:]) for each in network.inputs)
    if options.samples is None:
        evaluation, calibration = _synthetic_samples(network, rows), None
        every_id = evaluation.ids
    else:
        tokenizer = _tokenizer_beside(network.path)
        every_id, evaluation, calibration = network_samples.split_samples(
            options.samples, rows, tokenizer, calibrates=network.has_products
        )
    inputs = sized_inputs(rows, evaluation)
    answers = _sample_outputs(network, evaluation)
    outputs = tuple(
        _row(network, output, str(np_to_triton_dtype(values.dtype)), values.shape[1:])
        for output, values in answers.items()
    )
    tolerances = _tolerances(options.tolerance)
    metric, keep_decisions = unlabelled_metric(answers, {**TOLERANCES, **tolerances})
    metrics, labelled_outputs = [metric], list[str]()
    if options.labels is not None:
        labelled, output = metric_of(options.labels.metric, options.labels.floor, outputs)
        labels = read_labels(options.labels.file, evaluation.ids, every_id)
        evaluation = dataclasses.replace(evaluation, labels=labels)
        # Before anything runs, refuse a metric that does not fit the network.
        first = onnx_networks.infer(network, evaluation.read([0]))
        labelled.score(first, labels[:1], first)
        metrics.insert(0 if labelled.limits else 1, labelled)
        labelled_outputs.append(output)

    def keep(outputs: Arrays) -> Arrays:
        return {**keep_decisions(outputs), **{output: outputs[output] for output in labelled_outputs}}

    return spec.NetworkModel(
        name=name,
        inputs=inputs,
        outputs=outputs,
        load_weights=functools.partial(_load_weights, network.path, network.batch_axis, options.samples),
        infer=onnx_networks.infer,
        samples=functools.partial(_samples, evaluation, calibration),
        decide=lambda kept: kept[DECISIONS],
        keep=keep,
        metrics=tuple(metrics),
        defined_in=Path(__file__),
        profiles=dict.fromkeys(("cpu", "gpu"), _profile(network, evaluation)),
        framework="onnx",
        excluded=_excluded(network, [*inputs, *outputs], is_calibrated=calibration is not None),
        tolerances=tolerances,
        micro=True,
        batch_axis=network.batch_axis,
    )


def user_tolerance(share: float, agreement: float) -> Tolerance:
    """The tolerance of `--tolerance`: the largest relative error, and the least share of equal decisions."""
    return Tolerance(share, agreement, "given by --tolerance", is_given=True)


def _tolerances(share: float | None) -> Mapping[str, Tolerance]:
    """The tolerances that replace the formats', by precision. A user's `share` changes no least agreement."""
    if share is None:
        return _TOLERANCES
    known = {**TOLERANCES, **_TOLERANCES}
    return {precision: user_tolerance(share, known[precision].min_agreement) for precision in known}


def _profile(network: OnnxNetwork, samples: Samples) -> spec.ServingProfile:
    profile = spec.DEFAULT_PROFILES["cpu"]
    if network.batch_axis != "open":
        profile = spec.ServingProfile.batching(1, (1,), (16,), preferred=(), max_queue_delay_us=0)
    deployment = structs.replace(profile.deployment, warmup=_computes_zeros(network, samples))
    return dataclasses.replace(profile, deployment=deployment)


def _excluded(network: OnnxNetwork, tensors: Sequence[Tensor], *, is_calibrated: bool) -> dict[str, str]:
    """Why a network of these inputs and outputs lacks formats, by format."""
    excluded = {}
    if not network.has_products:
        excluded["onnx-int8"] = "INT8 has nothing to quantise: there is no matrix product and no convolution"
    elif not is_calibrated:
        excluded["onnx-int8"] = (
            f"INT8 is calibrated on samples that are not evaluated: give {network_samples.MIN_TO_SPLIT} or "
            f"more with --samples, or some in a folder {CALIBRATION} beside them"
        )
    if not network.batched:
        excluded["trt"] = "TensorRT's engines are built for batches"
    if (reason := onnx_networks.left_out_by_openvino(tensors)) is not None:
        excluded["openvino"] = reason
    return excluded


def onnx_description(model: spec.NetworkModel, options: OnnxOptions) -> str:
    """The network for a run's header: its file, inputs, samples, and what the run leaves out."""
    inputs = ", ".join(f"{tensor.name} {tensor.dtype} {shape_text(tensor.shape)}" for tensor in model.inputs)
    origin = f"of {options.samples}" if options.samples else "made up (no --samples)"
    samples = f"{len(model.samples('evaluation', None, None))} samples {origin}"
    parts = [f"{model.name}: {options.file}", inputs, samples, *model.excluded.values()]
    if model.batch_axis == "one row":
        parts.append("a batch is one row, as the file has it")
    if not model.batched:
        parts.append("no batches, as the first axis of its inputs and outputs is not one for all of them")
    return "; ".join(parts)


def _graph_in(path: Path) -> Path:
    """The graph's file: `path`, or if it is a folder, model.onnx, onnx/model.onnx or the only .onnx in it."""
    if not path.is_dir():
        return path
    for file in (path / onnx_networks.GRAPH, path / "onnx" / onnx_networks.GRAPH):
        if file.is_file():
            return file
    graphs = [*strict_glob(path, "*.onnx"), *strict_glob(path / "onnx", "*.onnx")]
    if len(graphs) != 1:
        names = ", ".join(graph.name for graph in graphs[:5]) or "no ONNX file"
        what = f"the folder holds {names}, and not {onnx_networks.GRAPH}"
        raise InputError(what, where=path, fix="name the file itself")
    return graphs[0]


def _tokenizer_beside(path: Path) -> Path | None:
    """The folder of the tokenizer: in Hugging Face's exports beside the graph, or above its folder onnx."""
    folders = [path.parent, *([path.parent.parent] if path.parent.name == "onnx" else [])]
    return next((folder for folder in folders if (folder / TOKENIZER).is_file()), None)


def _load_weights(
    path: Path, batch_axis: BatchAxis, samples: Path | None, _checkpoint: Path | None
) -> FrameworkModel:
    """The network. Its digest includes the samples, some of which calibrate INT8, and the tokenizer."""
    digest = onnx_networks.digest(path)
    origin = f"{path.name}, sha256 {digest[:12]}" + ("; samples made up" if samples is None else "")
    stamps = [digest]
    if samples is not None:
        stamps.append(data_digest(samples))
        tokenizer = _tokenizer_beside(path)
        of_tokenizer = [tokenizer / name for name in TOKENIZER_FILES] if tokenizer is not None else []
        stamps += [f"{file.name} {file_digest(file)}" for file in of_tokenizer if file.is_file()]
    full_digest = hashlib.sha256("\n".join(stamps).encode(errors="surrogateescape")).hexdigest()
    network = onnx_networks.open_network(path, batch_axis)
    return FrameworkModel(network, origin, full_digest, trained=True)


def _samples(evaluation: Samples, calibration: Samples | None, split: Split, *_paths: Path | None) -> Samples:
    chosen = evaluation if split == "evaluation" else calibration
    assert chosen is not None  # without samples that calibrate it, the network has no INT8
    return chosen


def _synthetic_samples(network: OnnxNetwork, inputs: Sequence[Tensor]) -> Samples:
    """Generated samples with the first variable length that the network computes. Raises InputError."""
    is_open = any(ANY in tensor.shape for tensor in inputs)
    problems = []
    for length in VARIABLE_LENGTHS if is_open else VARIABLE_LENGTHS[:1]:
        samples = synthetic_samples(inputs, network.indices, length)
        try:
            for index in range(MIN_SYNTHETIC):  # the few values of the first sample may fit by chance
                _run(network, samples.read([index]), "inputs that were made up for it")
            return samples
        except InputError as error:
            problems.append(error)
    raise problems[0]


def _row(network: OnnxNetwork, name: str, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A row of a network's tensor as clients of Triton see it, with at least one axis. A network without
    batches gets that axis when it is converted, as Triton reshapes to no axis only behind a batch."""
    return Tensor(name, dtype, shape or (1,), is_scalar=not shape and network.batched)


def _sample_outputs(network: OnnxNetwork, samples: Samples) -> dict[str, np.ndarray]:
    """The outputs of up to 16 evenly spaced samples, [samples, ...] each, or [samples] for single numbers.
    Raises InputError if an output's first axis is not the batch, or its shape depends on the data."""
    rows: list[dict[str, np.ndarray]] = []
    for index in np.linspace(0, len(samples) - 1, min(len(samples), 16)).astype(int).tolist():
        rows.append(_run(network, samples.read([index]), "a sample"))
        _check_rows(network, rows[0], rows[-1], 1)
    if network.batch_axis == "open":
        pair = _run(network, samples.read([0, len(samples) - 1]), "a batch of two samples")
        _check_rows(network, rows[0], pair, 2)
    return {name: np.concatenate([outputs[name] for outputs in rows]) for name in rows[0]}


def _computes_zeros(network: OnnxNetwork, samples: Samples) -> bool:
    """Whether the network accepts zeros and empty texts, which Triton's warm-up sends: an encoder of
    categories may not, as scikit-learn's by default refuses unknown categories."""
    first = samples.read([0]).items()
    zeros = {name: np.full_like(row, b"" if row.dtype == object else 0) for name, row in first}
    try:
        _run(network, zeros, "zeros")
    except InputError:
        return False
    return True


def _check_rows(network: OnnxNetwork, first: Arrays, outputs: Arrays, count: int) -> None:
    """Raise InputError unless outputs have `count` rows, in the shape of the `first` sample's rows."""
    for name, values in outputs.items():
        if values.ndim == 0 or len(values) != count:
            what = f"the first axis of the output {name}, {shape_text(values.shape)}, is no batch of {count}"
            fix = "export the network without that output, or with a batch axis of all inputs and outputs"
            raise BatchError(what, where=network.path, fix=fix)
        if values.shape[1:] != first[name].shape[1:]:
            shapes = first[name].shape[1:], values.shape[1:]
            raise onnx_networks.shape_depends_on_data(network.path, name, *shapes)


def _run(network: OnnxNetwork, inputs: Arrays, what: str) -> dict[str, np.ndarray]:
    """The network's outputs for `inputs`, which `what` names in the InputError if the network fails."""
    try:
        return onnx_networks.run_as_exported(network, inputs)
    except InputError:
        raise
    except Exception as error:  # ONNX Runtime has a type of its own for each status
        shapes = ", ".join(f"{name} {shape_text(values.shape)}" for name, values in inputs.items())
        problem = f"the network does not compute {what} ({shapes}): {error_line(str(error))[:300]}"
        fix = "give samples that it computes: --samples DIR; if two at a time fail, export a dynamic batch"
        raise InputError(problem, where=network.path, fix=fix) from error
