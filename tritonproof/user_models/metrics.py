"""How the outputs of a user's model are scored. With labels, by a metric that the user names: top-1 and its
like, F1, or a class of torchmetrics, each of which gives every sample a score, even F1. Without labels, by
whether it decides as the framework; shapes and values of outputs tell what is a decision."""

import contextlib
import functools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.record.correctness import Limit
from tritonproof.safe_io.files import parse_json, readable, reason
from tritonproof.spec import Arrays, Metric, Tensor, Tolerance

_PRECISIONS = ("fp32", "fp16", "int8")
"""The precisions of an ONNX file."""
_ScoreSamples = Callable[[np.ndarray, np.ndarray, float], np.ndarray]
"""Takes an output, [samples, ...], the labels and `_threshold_of` the output; returns scores, [samples]."""


def _top_k(count: int, values: np.ndarray, labels: np.ndarray, threshold: float) -> np.ndarray:
    """The share of each sample's decisions for which the right class is among the `count` likeliest."""
    labels, decided, scores = _classes(values, labels, threshold)
    if count > 1 and (scores is None or scores.shape[-1] <= count):
        raise ValueError(f"top-{count} takes the scores of more than {count} classes")
    if scores is None:
        return (decided == labels).reshape(len(labels), -1).mean(axis=1)
    right = np.take_along_axis(scores, labels[..., None], axis=-1)
    # Of equal scores the first counts as the likelier, as in argmax.
    is_likelier = (scores > right) | ((scores == right) & (np.arange(scores.shape[-1]) < labels[..., None]))
    return (is_likelier.sum(axis=-1) < count).reshape(len(labels), -1).mean(axis=1)


def _f1(values: np.ndarray, labels: np.ndarray, threshold: float) -> np.ndarray:
    """Each sample's part in the data set's F1, the mean over all classes that occur. It is that F1 plus what
    the sample changes of it, to the first order (the infinitesimal jackknife); the mean change is 0."""
    pairs = np.stack([part.reshape(len(labels), -1) for part in _classes(values, labels, threshold)[:2]])
    # Number the classes that occur, since a label may be any whole number.
    classes, inverse = np.unique(pairs, return_inverse=True)
    right, decided = inverse.reshape(pairs.shape)
    is_hit = decided == right
    sizes = np.bincount(inverse.reshape(-1), minlength=len(classes))  # decisions and labels of each class
    of_class = 2 * np.bincount(decided[is_hit], minlength=len(classes)) / sizes
    losses = (of_class / sizes)[decided] + (of_class / sizes)[right]
    return of_class.mean() + len(labels) / len(classes) * (2 * is_hit / sizes[right] - losses).sum(axis=1)


def _class_axis(shape: Sequence[int]) -> int | None:
    """The axis of classes in an output of this shape: the second of vectors and pictures, [rows, classes,
    ...], the last of sequences, [rows, positions, classes]; None for single values."""
    if len(shape) < 2:
        return None
    axis = 2 if len(shape) == 3 else 1
    return axis if shape[axis] > 1 else None


def _threshold_of(framework: np.ndarray) -> float:
    """The number that a single value has to exceed to mean class 1: 0.5 if all values of the framework are
    from 0 to 1, apart from rounding, which is a hundredth in FP16 sums of a thousand; else 0."""
    least, largest = float(framework.min(initial=0)), float(framework.max(initial=0))
    return 0.5 if largest <= 1.01 and least >= -0.01 * largest else 0.0


def _classes(
    values: np.ndarray, labels: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The labels and the decisions as classes, [samples, ...] each, and the classes' scores along a last
    axis, or None if the output has none. The decision is the likeliest class; for single values, 1 above the
    threshold. Raises ValueError for labels that are no classes."""
    axis = _axis_of_classes(values, labels)
    if axis is None and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
        axis = _axis_of_classes(values, labels)
    # Above 2**53 JSON and FP64 cannot represent every integer.
    if (labels != np.floor(labels)).any() or labels.min() < 0 or labels.max() > 2**53:
        raise ValueError("the labels are not classes, which are whole numbers from 0")
    labels = labels.astype(np.int64)
    if axis is not None:
        scores = np.moveaxis(values, axis, -1)
        if labels.max() >= scores.shape[-1]:
            raise ValueError(f"a label is class {labels.max()}, and the output has {scores.shape[-1]}")
        return labels, scores.argmax(axis=-1), scores
    decided = _like(values, labels)
    if not np.issubdtype(decided.dtype, np.integer):
        decided = decided > threshold
    return labels, decided.astype(np.int64), None


def _like(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The output in the labels' shape. Raises ValueError if they differ in more than axes of length 1."""
    if [side for side in values.shape if side != 1] != [side for side in labels.shape if side != 1]:
        raise ValueError("their axes are of other lengths, or in another order")
    return values.reshape(labels.shape)


def _axis_of_classes(values: np.ndarray, labels: np.ndarray) -> int | None:
    """The output's axis that the labels lack; None if there is none, or it has length 1."""
    if values.ndim != labels.ndim + 1:
        return None
    axes = dict.fromkeys((_class_axis(values.shape), 1, values.ndim - 1))
    possible = [axis for axis in axes if axis is not None and values.shape[axis] > 1]
    return next((axis for axis in possible if tuple(np.delete(values.shape, axis)) == labels.shape), None)


_TORCHMETRICS_NAMES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "mse": ("MeanSquaredError", {}),
    "mae": ("MeanAbsoluteError", {}),
    "cosine": ("CosineSimilarity", {}),
    "ssim": ("StructuralSimilarityIndexMeasure", {}),
    # As in medical segmentation: each class counts as much, and the background, class 0, does not.
    "dice": ("DiceScore", {"average": "macro", "include_background": False}),
    "iou": ("MeanIoU", {"include_background": False}),
}
"""Short names of torchmetrics' classes, with their settings."""


def metric_of(text: str, floor: float | None, outputs: Sequence[Tensor]) -> tuple[Metric, str]:
    """The metric that `text`, NAME[@OUTPUT][:KEY=VALUE,...], names, and the name of its output, by default
    the first. `floor` limits the mean, from below or above; with None only the framework's score does. Raises
    InputError for an unknown name, output or setting."""
    where = f"--metric {excerpt(text)}"
    name, _, rest = text.partition(":")
    name, _, output_name = name.partition("@")
    by_name = {output.name: output for output in outputs}
    if output_name and output_name not in by_name:
        what = f"the network has no output {output_name!r}"
        raise InputError(what, where=where, fix=f"use one of {', '.join(by_name)}")
    output = by_name.get(output_name, outputs[0])
    settings = {}
    for part in rest.split(",") if rest else ():
        key, equals, value = part.strip().partition("=")
        if not (key.isidentifier() and equals):
            fix = "write --metric NAME:key=value,key=value"
            raise InputError("a setting is not written as KEY=VALUE", where=where, fix=fix)
        settings[key] = value
        with contextlib.suppress(ValueError, RecursionError):
            settings[key] = parse_json(value)
    better: Any = "higher"
    score: _ScoreSamples | None = {"f1": _f1}.get(name.lower())
    if top := re.fullmatch(r"top-([1-9]\d{0,3})", name.lower()):
        score = functools.partial(_top_k, int(top[1]))
    if score is None:
        score, better = _of_torchmetrics(name, settings, where)
    elif settings:
        raise InputError(f"{name} has no settings", where=where, fix=f"write --metric {name}")
    limits = {}
    if floor is not None:
        limits = dict.fromkeys(_PRECISIONS, Limit(floor, "given by --floor"))
    checked = functools.partial(_score, score, output.name, where)
    return Metric(name, checked, limits, better, keeps_framework_score=floor is None), output.name


def _score(
    score: _ScoreSamples, output: str, where: str, kept: Arrays, labels: np.ndarray, framework: Arrays
) -> np.ndarray:
    try:
        return np.asarray(score(kept[output], labels, _threshold_of(framework[output])), float)
    except Exception as error:  # torchmetrics and PyTorch raise many types
        shapes = f"{output}, {kept[output].shape}, with labels {labels.shape}"
        what = f"the metric does not take the output {shapes}: {reason(error)}"
        fix = "give classes from 0, or numbers of the output's shape; NAME@OUTPUT takes another output"
        raise InputError(what, where=where, fix=fix) from error


def _of_torchmetrics(name: str, settings: Mapping[str, Any], where: str) -> tuple[_ScoreSamples, str]:
    """A torchmetrics class as a function that scores each sample alone, and which scores are better."""
    import importlib

    class_name, preset = _TORCHMETRICS_NAMES.get(name.lower(), (name, {}))
    with readable("torchmetrics", where, "pip install torchmetrics; top-1 and f1 do not need it"):
        parts = ("", ".segmentation", ".image", ".regression")
        modules = [importlib.import_module(f"torchmetrics{part}") for part in parts]
    classes = (getattr(module, class_name) for module in modules if hasattr(module, class_name))
    metric_class: Any = next(classes, None)
    higher = getattr(metric_class, "higher_is_better", None)
    is_fraction = higher is False or getattr(metric_class, "plot_upper_bound", None) == 1.0
    # torchmetrics' classification classes score a whole data set, and not each sample by itself.
    if higher is None or not is_fraction or ".classification." in metric_class.__module__:
        what = f"torchmetrics has no {excerpt(name)!r} that gives each sample an error or a fraction of 1"
        names = ", ".join(_TORCHMETRICS_NAMES)
        fix = f"use top-1, top-5, f1, {names}, or a class of torchmetrics that scores each sample"
        raise InputError(what, where=where, fix=fix)
    by_class = ".segmentation." in metric_class.__module__
    form = {"input_format": "index"} if by_class else {}
    make = functools.partial(metric_class, **{**form, **preset, **settings})
    what = f"the settings of torchmetrics' {class_name}"
    with readable(what, where, "look them up in torchmetrics' documentation"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what its next version will do
        make(**{"num_classes": 2, **make.keywords} if by_class else {})
    return functools.partial(_each, make, by_class), "higher" if higher else "lower"


def _each(make: Any, by_class: bool, values: np.ndarray, labels: np.ndarray, threshold: float) -> np.ndarray:
    """The score of each sample alone, [samples]; in FP64, as UINT8 and FP16 wrap and overflow."""
    import torch

    settings, kind = make.keywords, np.int64 if by_class else np.float64
    if by_class:
        labels, values, of_classes = _classes(values, labels, threshold)
        count = max(2, values.max() + 1, labels.max() + 1) if of_classes is None else of_classes.shape[-1]
        settings = {"num_classes": int(count), **settings}
    else:
        values = _like(values, labels)
    scores = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric = make(**settings)
        for value, label in zip(values, labels, strict=True):
            metric.reset()
            pair = (torch.from_numpy(part[None].astype(kind)) for part in (value, label))
            score = float(metric(*pair))
            # Neither label nor decision has a class to score, for which torchmetrics has no number.
            scores.append(1.0 if by_class and np.isnan(score) else score)
    return np.array(scores)


DECISIONS = ""
"""The key of the decisions beside the outputs: no output has an empty name, by which ONNX leaves one out."""
_SOME = "some of "
_MAX_ERROR = 0.1
"""The largest limit of a row's mean error, however large an element's limit is: INT8's in such networks."""
_MAX_KEPT = 4096
"""The most elements of a row, evenly spaced, for its error; test_conversion and test_accuracy compare all."""

_Decide = Callable[[np.ndarray], np.ndarray]
"""Turns an output, [rows, ...], into decisions."""


def unlabelled_metric(
    outputs: Arrays, tolerances: Mapping[str, Tolerance]
) -> tuple[Metric, Callable[[Arrays], Arrays]]:
    """The metric without labels: agreement with the framework's decisions, or if `outputs`, the outputs of
    some samples, decide nothing, the mean error; and a function that keeps of a batch's outputs the
    decisions, [rows, decisions], under the key DECISIONS, and what else the metric needs."""
    rules = {name: rule for name, values in outputs.items() if (rule := _decided_by(values)) is not None}
    limits = {}
    for precision in _PRECISIONS:
        tolerance = tolerances[precision]
        most_error = min(tolerance.max_relative_error, np.inf if tolerance.is_given else _MAX_ERROR)
        limits[precision] = Limit(tolerance.min_agreement if rules else most_error, tolerance.source)
    if rules:
        return Metric("agreement", _equal, limits, labelled=False), functools.partial(_decisions, rules)
    return Metric("mean error", _error, limits, better="lower", labelled=False), _some_elements


def _decided_by(values: np.ndarray) -> _Decide | None:
    """How an output decides, judged by its values for some samples, [samples, ...]; None if it does not. An
    integer, a text or a truth value is a decision itself. A vector, [rows, classes], decides for its largest
    value; so does an output of more axes whose values along one axis are probabilities. A number decides by
    its sign; numbers, and maps of one channel, that are all from 0 to 1 decide by whether they exceed 0.5.
    Anything else decides nothing: boxes are not classes, and a number near 0 in a map has no sign."""
    if not np.issubdtype(values.dtype, np.floating):
        return np.asarray
    axis = _class_axis(values.shape) if values.ndim < 3 else _axis_of_probabilities(values)
    if axis is not None:
        return lambda values: values.argmax(axis=axis)
    has_one_channel = values.ndim > 2 and 1 in (values.shape[1], values.shape[-1])
    threshold = _threshold_of(values)
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


def _decisions(rules: Mapping[str, _Decide], outputs: Arrays) -> Arrays:
    """The decisions of a batch, [rows, decisions]."""
    rows = len(next(iter(outputs.values())))
    parts = [rule(outputs[name]).reshape(rows, -1) for name, rule in rules.items()]
    return {DECISIONS: np.concatenate(parts, axis=1)}


def _some_elements(outputs: Arrays) -> Arrays:
    """No decisions, and some elements of every output of a batch, [rows, elements]."""
    rows = len(next(iter(outputs.values())))
    kept = {DECISIONS: np.empty((rows, 0))}
    for name, values in outputs.items():
        flat = values.reshape(rows, -1)
        indices = np.linspace(0, flat.shape[1] - 1, min(flat.shape[1], _MAX_KEPT)).astype(int)
        kept[f"{_SOME}{name}"] = flat[:, indices]
    return kept


def _equal(kept: Arrays, _labels: object, framework: Arrays) -> np.ndarray:
    return np.asarray((kept[DECISIONS] == framework[DECISIONS]).mean(axis=1), float)


def _error(kept: Arrays, _labels: object, framework: Arrays) -> np.ndarray:
    """The mean difference of each row, [rows], in the worst output: divided by that output's largest
    magnitude, or by 1 if its values are from 0 to 1."""
    errors = []
    for name in (name for name in framework if name.startswith(_SOME)):
        expected = framework[name].astype(np.float64)
        magnitude = 1.0 if _threshold_of(expected) else float(np.abs(expected).max())  # 1 for shares of 1
        errors.append(np.abs(kept[name] - expected).mean(axis=1) / magnitude)
    return np.asarray(np.max(errors, axis=0))
