"""An ONNX file as a model of the suite: its interface from the file, its data from samples or generated. The
framework is ONNX Runtime on the CPU, which runs the graph as it is in the file. Without labels the model is
right if it decides as the framework; shapes and values of outputs tell what is a decision."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import structs

from tritonproof import spec
from tritonproof.base.disk import file_digest, strict_glob
from tritonproof.base.errors import InputError
from tritonproof.frameworks import error_line, onnx_networks
from tritonproof.frameworks.onnx_networks import Interface, OnnxNetwork
from tritonproof.frameworks.pytorch import TOLERANCES
from tritonproof.record.schema import Limit
from tritonproof.safe_io.files import data_digest, readable
from tritonproof.spec import ANY, Arrays, FrameworkModel, Metric, Samples, Split, Tensor, Tolerance
from tritonproof.user_models import network_samples
from tritonproof.user_models.labels import LabelOptions, read_labels
from tritonproof.user_models.media_files import TOKENIZER, TOKENIZER_FILES
from tritonproof.user_models.metrics import class_axis, metric_of, threshold_of
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
    interface = onnx_networks.read_interface(path)
    lengths = {tensor.shape[:1] for tensor in interface.inputs}
    if lengths != {(1,)}:
        return _model_of(name, options, path, interface, "open" if lengths == {(ANY,)} else "none")
    try:
        return _model_of(name, options, path, interface, "one row")
    except BatchError:
        return _model_of(name, options, path, interface, "none")


def _model_of(
    name: str, options: OnnxOptions, path: Path, interface: Interface, batch: spec.BatchAxis
) -> spec.NetworkModel:
    from tritonclient.utils import np_to_triton_dtype

    batched = batch != "none"
    # Hugging Face's exports have it beside the graph, or above a folder onnx with the graph.
    folders = [path.parent, *([path.parent.parent] if path.parent.name == "onnx" else [])]
    tokenizer = next((folder for folder in folders if (folder / TOKENIZER).is_file()), None)
    network = onnx_networks.open_network(path, batched=batched)
    rows = tuple(row_tensor(each.name, each.dtype, each.shape[batched:], batch) for each in interface.inputs)
    if options.samples is None:
        evaluation, calibration = synthetic_samples_for(network, rows, interface), None
        every_id = evaluation.ids
    else:
        every_id, evaluation, calibration = network_samples.split_samples(
            options.samples, rows, tokenizer, calibrates=interface.has_products
        )
    no_int8 = (
        f"INT8 is calibrated on samples that are not evaluated: give {network_samples.MIN_TO_SPLIT} or more "
        f"with --samples, or some in a folder {CALIBRATION} beside them"
    )
    if not interface.has_products:
        calibration = None
        no_int8 = "INT8 has nothing to quantise: there is no matrix product and no convolution"
    inputs = sized_inputs(rows, evaluation)
    answers = sample_outputs(network, evaluation, batch)
    outputs = tuple(
        row_tensor(output, str(np_to_triton_dtype(values.dtype)), values.shape[1:], batch)
        for output, values in answers.items()
    )
    rules = {output: rule for output, values in answers.items() if (rule := _decided_by(values)) is not None}
    tolerances = _TOLERANCES
    if options.tolerance is not None:  # the share of decisions that must agree stays
        tolerances = {
            precision: user_tolerance(options.tolerance, tolerance.min_agreement)
            for precision, tolerance in {**TOLERANCES, **_TOLERANCES}.items()
        }
    metrics, kept_outputs = [_unlabelled_metric(rules, {**TOLERANCES, **tolerances})], []
    if options.labels is not None:
        labelled, its_output = metric_of(options.labels.metric, options.labels.floor, outputs)
        labels = read_labels(options.labels.file, evaluation.ids, every_id)
        evaluation = dataclasses.replace(evaluation, labels=labels)
        # Before anything runs, refuse a metric that does not fit the network.
        first = onnx_networks.infer(network, evaluation.read([0]))
        labelled.score(first, labels[:1], first)
        metrics.insert(0 if labelled.limits else 1, labelled)
        kept_outputs.append(its_output)
    profile = spec.DEFAULT_PROFILES["cpu"]
    if batch != "open":
        profile = spec.ServingProfile.batching(1, (1,), (16,), preferred=(), max_queue_delay_us=0)
    warmup = computes_zeros(network, evaluation)
    profile = dataclasses.replace(profile, deployment=structs.replace(profile.deployment, warmup=warmup))
    excluded = {
        "onnx-int8": no_int8 if calibration is None else None,
        "trt": None if batched else "TensorRT's engines are built for batches",
        "openvino": onnx_networks.left_out_by_openvino([*inputs, *outputs]),
    }
    return spec.NetworkModel(
        name=name,
        inputs=inputs,
        outputs=outputs,
        load_weights=functools.partial(_load_weights, path, options.samples, tokenizer, batched),
        infer=onnx_networks.infer,
        samples=functools.partial(_samples, evaluation, calibration),
        decide=lambda kept: kept[_DECISIONS],
        keep=functools.partial(_keep, rules, kept_outputs),
        metrics=tuple(metrics),
        defined_in=Path(__file__),
        profiles=dict.fromkeys(("cpu", "gpu"), profile),
        framework="onnx",
        excluded={format_: reason for format_, reason in excluded.items() if reason is not None},
        tolerances=tolerances,
        micro=True,
        batch_axis=batch,
    )


def user_tolerance(share: float, agreement: float) -> Tolerance:
    """The tolerance of `--tolerance`: the largest relative error, and the least share of equal decisions."""
    return Tolerance(share, agreement, "given by --tolerance", is_given=True)


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


def _load_weights(
    path: Path, samples: Path | None, tokenizer: Path | None, batched: bool, _checkpoint: Path | None
) -> FrameworkModel:
    """The network. Its digest includes the samples, some of which calibrate INT8, and the tokenizer."""
    digest = onnx_networks.digest(path)
    origin = f"{path.name}, sha256 {digest[:12]}" + ("; samples made up" if samples is None else "")
    stamps = [digest]
    if samples is not None:
        stamps.append(data_digest(samples))
        of_tokenizer = [tokenizer / name for name in TOKENIZER_FILES] if tokenizer is not None else []
        stamps += [f"{file.name} {file_digest(file)}" for file in of_tokenizer if file.is_file()]
    full_digest = hashlib.sha256("\n".join(stamps).encode(errors="surrogateescape")).hexdigest()
    network = onnx_networks.open_network(path, batched=batched)
    return FrameworkModel(network, origin, full_digest, trained=True)


def _samples(evaluation: Samples, calibration: Samples | None, split: Split, *_paths: Path | None) -> Samples:
    chosen = evaluation if split == "evaluation" else calibration
    assert chosen is not None  # without samples that calibrate it, the network has no INT8
    return chosen


_DECISIONS = ""
"""The key of the decisions beside the outputs: no output has an empty name, by which ONNX leaves one out."""
_SOME = "some of "
_MAX_ERROR = 0.1
"""The largest limit of a row's mean error, whatever that of an element: that of INT8 in such networks."""
_MAX_KEPT = 4096
"""The most elements of a row, evenly spaced, for its error; test_conversion and test_accuracy compare all."""

_Decide = Callable[[np.ndarray], np.ndarray]
"""Turns an output, [rows, ...], into decisions."""


def _decided_by(values: np.ndarray) -> _Decide | None:
    """How an output decides, judged by its values for some samples, [samples, ...]; None if it does not. An
    integer, a text or a truth value is a decision itself. A vector, [rows, classes], decides for its largest
    value; so does an output of more axes whose values along one axis are probabilities. A number decides by
    its sign; numbers, and maps of one channel, that are all from 0 to 1 decide by whether they exceed 0.5.
    Anything else decides nothing: boxes are not classes, and a number near 0 in a map has no sign."""
    if not np.issubdtype(values.dtype, np.floating):
        return np.asarray
    axis = class_axis(values.shape) if values.ndim < 3 else _axis_of_probabilities(values)
    if axis is not None:
        return lambda values: values.argmax(axis=axis)
    has_one_channel = values.ndim > 2 and 1 in (values.shape[1], values.shape[-1])
    threshold = threshold_of(values)
    if values[:1].size > 1 and not (threshold and has_one_channel):
        return None
    return lambda values: values > threshold


def _axis_of_probabilities(values: np.ndarray) -> int | None:
    """The axis along which all values are at least 0 and sum to 1: the last, or the second."""
    if (values < 0).any():
        return None
    for axis in (values.ndim - 1, 1):
        sums = values.sum(axis=axis, dtype=np.float64)
        # Half precision rounds a thousand probabilities to a sum that is off by a hundredth.
        if values.shape[axis] > 1 and (np.abs(sums - 1) <= 1e-2).all():
            return axis
    return None


def _keep(rules: Mapping[str, _Decide], kept: Sequence[str], outputs: Arrays) -> Arrays:
    """The decisions of a batch, [rows, decisions], and the outputs in `kept`, which a metric needs; if
    nothing is decided, also some elements of every output."""
    rows = len(next(iter(outputs.values())))
    parts = [rule(outputs[name]).reshape(rows, -1) for name, rule in rules.items()]
    decisions = np.concatenate(parts, axis=1) if parts else np.empty((rows, 0))
    elements = {}
    for name, values in outputs.items() if not parts else ():
        flat = values.reshape(rows, -1)
        indices = np.linspace(0, flat.shape[1] - 1, min(flat.shape[1], _MAX_KEPT)).astype(int)
        elements[f"{_SOME}{name}"] = flat[:, indices]
    return {_DECISIONS: decisions, **elements, **{name: outputs[name] for name in kept}}


def _unlabelled_metric(rules: Mapping[str, _Decide], tolerances: Mapping[str, Tolerance]) -> Metric:
    """The metric without labels: agreement with the framework's decisions, or else the mean error."""
    limits = {}
    for name in ("fp32", "fp16", "int8"):
        tolerance = tolerances[name]
        most_error = min(tolerance.max_relative_error, np.inf if tolerance.is_given else _MAX_ERROR)
        limits[name] = Limit(tolerance.min_agreement if rules else most_error, tolerance.source)
    if rules:
        return Metric("agreement", _equal, limits, labelled=False)
    return Metric("mean error", _error, limits, better="lower", labelled=False)


def _equal(kept: Arrays, _labels: object, framework: Arrays) -> np.ndarray:
    return np.asarray((kept[_DECISIONS] == framework[_DECISIONS]).mean(axis=1), float)


def _error(kept: Arrays, _labels: object, framework: Arrays) -> np.ndarray:
    """The mean difference of each row, [rows], in the worst output: divided by that output's largest
    magnitude, or by 1 if its values are from 0 to 1."""
    errors = []
    for name in (name for name in framework if name.startswith(_SOME)):
        expected = framework[name].astype(np.float64)
        magnitude = 1.0 if threshold_of(expected) else float(np.abs(expected).max())  # 1 for shares of 1
        errors.append(np.abs(kept[name] - expected).mean(axis=1) / magnitude)
    return np.asarray(np.max(errors, axis=0))


def synthetic_samples_for(network: OnnxNetwork, inputs: Sequence[Tensor], interface: Interface) -> Samples:
    """Generated samples with the first variable length that the network computes. Raises InputError."""
    is_open = any(ANY in tensor.shape for tensor in inputs)
    problems = []
    for length in VARIABLE_LENGTHS if is_open else VARIABLE_LENGTHS[:1]:
        samples = synthetic_samples(inputs, interface.indices, length)
        try:
            for index in range(MIN_SYNTHETIC):  # the few values of the first may fit by chance
                _run(network, samples.read([index]), "inputs that were made up for it")
            return samples
        except InputError as error:
            problems.append(error)
    raise problems[0]


def row_tensor(name: str, dtype: str, shape: tuple[int, ...], batch: spec.BatchAxis) -> Tensor:
    """A row of a network's tensor as clients of Triton see it, with at least one axis. A network without
    batches gets that axis when it is converted, as Triton reshapes to no axis only behind a batch."""
    return Tensor(name, dtype, shape or (1,), is_scalar=not shape and batch != "none")


def sample_outputs(network: OnnxNetwork, samples: Samples, batch: spec.BatchAxis) -> dict[str, np.ndarray]:
    """The outputs of up to 16 evenly spaced samples, [samples, ...] each, or [samples] for single numbers.
    Raises InputError if an output's first axis is not the batch, or its shape depends on the data."""
    rows: list[dict[str, np.ndarray]] = []
    for index in np.linspace(0, len(samples) - 1, min(len(samples), 16)).astype(int).tolist():
        rows.append(_run(network, samples.read([index]), "a sample"))
        _check_rows(network, rows[0], rows[-1], 1)
    if batch == "open":
        pair = _run(network, samples.read([0, len(samples) - 1]), "a batch of two samples")
        _check_rows(network, rows[0], pair, 2)
    return {name: np.concatenate([outputs[name] for outputs in rows]) for name in rows[0]}


def computes_zeros(network: OnnxNetwork, samples: Samples) -> bool:
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
    """Raise InputError unless outputs have `count` rows, in the shape of those of the sample `first`."""
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
