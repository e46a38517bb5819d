"""A model of Triton's Python backend. Parameters of its configuration choose its computation and its fault, in
the tables of this file, which is copied as model.py into the folder of each model of the corpus."""

import json
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

Arrays = dict[str, np.ndarray]

_WEIGHTS = np.random.default_rng(1).standard_normal((16, 256)).astype(np.float32) / 4
_MESSAGES = 4
"""Messages of a decoupled model to a request."""


class TritonPythonModel:
    """One instance; Triton calls the methods."""

    def initialize(self, args: dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        settings = {name: value["string_value"] for name, value in config["parameters"].items()}
        self.answers, self.fault = settings["answers"], settings["fault"]
        self.size = float(settings["size"])
        self.name = args["model_name"]
        self.instance = int(args["model_instance_name"].rpartition("_")[2])
        self.inputs = [tensor["name"] for tensor in config["input"]]
        self.is_decoupled = config.get("model_transaction_policy", {}).get("decoupled", False)
        self.random = np.random.default_rng(self.instance)
        self.executions, self.requests = 0, 0
        self.kept: dict[Any, Any] = {}

    def execute(self, requests: list[Any]) -> list[Any] | None:
        self.executions += 1
        self.requests += len(requests)
        parts = [self._inputs_of(request) for request in requests]
        if self.is_decoupled:
            for request, part in zip(requests, parts, strict=True):
                self._answer_in_parts(request, part)
            return None
        if any(part.keys() != parts[0].keys() for part in parts) or "CORRID" in parts[0]:
            return [self._response(self._outputs(part)) for part in parts]
        ends = np.cumsum([len(next(iter(part.values()))) for part in parts])[:-1]
        try:
            outputs = self._outputs(
                {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            )
        except ValueError as error:
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))) for _one in requests]
        split = {name: np.split(values, ends) for name, values in outputs.items()}
        return [self._response({name: rows[n] for name, rows in split.items()}) for n in range(len(requests))]

    def _inputs_of(self, request: Any) -> Arrays:
        names = [*self.inputs, *({tensor.name() for tensor in request.inputs()} - set(self.inputs))]
        tensors = {name: pb_utils.get_input_tensor_by_name(request, name) for name in names}
        return {name: tensor.as_numpy() for name, tensor in tensors.items() if tensor is not None}

    def _outputs(self, inputs: Arrays) -> Arrays:
        if self.answers in OF_IN:
            outputs = {"OUT": OF_IN[self.answers](self, inputs["IN"])}
        else:
            outputs = ANSWERS[self.answers](self, inputs)
        if self.fault in ROWS:
            rows = ROWS[self.fault](self, np.arange(len(outputs["OUT"])))
            return {name: values[rows] for name, values in outputs.items()}
        if self.fault in LABELS:
            off = LABELS[self.fault](self, len(outputs["OUT"]))
            return outputs | {"LABEL": (outputs["LABEL"] + off).astype(np.int32) % 10}
        values = FAULTS[self.fault](self, inputs["IN"], outputs["OUT"].copy())
        return outputs | {"OUT": np.asarray(values).astype(outputs["OUT"].dtype)}

    def _response(self, outputs: Arrays) -> Any:
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, values) for name, values in outputs.items()])

    def _answer_in_parts(self, request: Any, inputs: Arrays) -> None:
        sender = request.get_response_sender()
        outputs = self._outputs(inputs)
        for number in range(self.kept.get("messages", _MESSAGES)):
            sender.send(self._response({name: values / (number + 1) for name, values in outputs.items()}))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


Model = TritonPythonModel


# Computations.


def _scores(values: np.ndarray, columns: int = 8) -> np.ndarray:
    """Numbers from -1 to 1 that depend on all features of a row, [rows, columns]."""
    return np.asarray(np.tanh(values @ _WEIGHTS[:, :columns]))


def _softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _masked(_model: Model, values: np.ndarray) -> np.ndarray:
    """Logits, with three classes masked out."""
    logits = _scores(values)
    logits[:, :3] = -10_000
    return logits


def _boxes(_model: Model, values: np.ndarray) -> np.ndarray:
    """Ten boxes of a detector in pixels, with their scores and classes: [x1, y1, x2, y2, score, class]."""
    parts = _scores(values, 60).reshape(-1, 10, 6)
    corners = 320 + 300 * parts[..., :4]
    return np.concatenate([corners, 0.5 + parts[..., 4:5] / 2, np.round(40 + 39 * parts[..., 5:])], 2)


def _labelled(model: Model, values: np.ndarray) -> Arrays:
    """Scores, and the class of the largest. `tied`: of two of equal score, so rounding alone decides."""
    scores = _scores(values, 10)
    if model.answers == "tied":
        scores[:, 5] = scores[:, 2] = 1 + scores[:, 2]
        scores = scores * (1 + 1e-7 * model.random.standard_normal(scores.shape)).astype(np.float32)
    return {"OUT": scores, "LABEL": scores.argmax(axis=1).astype(np.int32)[:, None]}


def _by_kernel(values: np.ndarray, dtype: Any = np.float32) -> np.ndarray:
    """Another kernel for each power of two of the batch size, with other rounding of its sums."""
    values, weights = values.astype(dtype), _WEIGHTS[:, :8].astype(dtype)
    total = np.zeros((len(values), 8), dtype)
    for feature in np.random.default_rng(len(values).bit_length()).permutation(values.shape[1]):
        total += values[:, feature : feature + 1] * weights[feature]
    return np.asarray(np.tanh(total))


def _in_half(values: np.ndarray) -> np.ndarray:
    """FP16 as on a GPU, with outputs in FP32."""
    return _by_kernel(values, np.float16).astype(np.float32)


def _half_noisy(model: Model, values: np.ndarray) -> np.ndarray:
    """FP16 that adds its sums in another order each time, as a GPU's atomics do."""
    noise = (2e-4 * model.random.standard_normal((len(values), 8))).astype(np.float16)
    return (_by_kernel(values, np.float16) + noise).astype(np.float32)


def _pictures(values: np.ndarray) -> np.ndarray:
    """Pictures of 64 x 64 numbers from -1 to 1."""
    edges = _scores(values, 128)
    return np.asarray(edges[:, :64, None] * edges[:, None, 64:])


def _texts(texts: Any, values: np.ndarray) -> np.ndarray:
    return np.array(list(texts), object).reshape(values.shape)


def _sums(model: Model, inputs: Arrays) -> Arrays:
    """The sum over a sequence's requests; with the fault, one that starts again keeps its old sum."""
    number, start = int(inputs["CORRID"].reshape(-1)[0]), bool(inputs["START"].reshape(-1)[0])
    sums = model.kept.setdefault("sums", {})
    if start and model.fault != "start_ignored":
        sums.pop(number, None)
    sums[number] = sums.get(number, np.float32(0)) + _scores(inputs["IN"])
    return {"OUT": sums[number].copy()}


OF_IN: dict[str, Callable[[Model, np.ndarray], np.ndarray]] = {
    "plain": lambda _model, values: _scores(values),
    "prices": lambda _model, values: 1000 + 10 * _scores(values),
    # Whole numbers near 50,000 as FP32, which tell customers apart; and classes from 1 to 999.
    "identifiers": lambda _model, values: np.round(50_000 + 500 * _scores(values)),
    "classes": lambda _model, values: np.round(500 + 499 * _scores(values)),
    "masked": _masked,
    "boxes": _boxes,
    "narrow": lambda _model, values: np.float32(5) + np.float32(0.01) * _scores(values),
    # Probabilities of 200 classes, nearly all nearly always 0.
    "rare": lambda _model, values: _softmax(30 * _scores(values, 200)),
    "half": lambda _model, values: _in_half(values),
    "half_outputs": lambda _model, values: _by_kernel(values, np.float16),
    "half_noisy": _half_noisy,
    # Logits in FP16 and their softmax in FP32, as with autocast; and prices scaled in FP32 at the end.
    "half_softmax": lambda _model, values: _softmax(3 * _in_half(values)),
    "half_prices": lambda _model, values: 1000 + 10 * _in_half(values),
    "kernels": lambda _model, values: _by_kernel(values),
    "kernel_prices": lambda _model, values: 1000 + 10 * _by_kernel(values),
    "pictures": lambda _model, values: _pictures(values),
    # Pictures whose pixels are classes from 0 to 8.
    "maps": lambda _model, values: np.round(4 + 4 * _pictures(values)).astype(np.int32),
    "texts": lambda _model, values: _texts((bytes(text).upper() for text in values.reshape(-1)), values),
    # FP64, where the configuration declares FP32; and one axis more than declared.
    "wide": lambda _model, values: _scores(values).astype(np.float64),
    "deeper": lambda _model, values: _scores(values)[:, None],
    "zeros": lambda _model, values: np.zeros((len(values), 8), np.float32),
}
"""The output OUT, from the input IN, of models without others."""


def _biased(model: Model, inputs: Arrays) -> Arrays:
    """A bias is added if it is sent. With the fault, a missing one takes a share of its last value."""
    bias: Any = inputs.get("BIAS", np.float32(0))
    if model.fault == "bias_remembered" and "BIAS" in inputs:
        model.kept["bias"] = bias[-1]
    elif model.fault == "bias_remembered":
        bias = np.float32(model.size) * model.kept.get("bias", np.float32(0))
    return {"OUT": _scores(inputs["IN"]) + bias}


ANSWERS: dict[str, Callable[[Model, Arrays], Arrays]] = {
    "labelled": lambda model, inputs: _labelled(model, inputs["IN"]),
    "tied": lambda model, inputs: _labelled(model, inputs["IN"]),
    "biased": _biased,
    "sums": _sums,
}


# Faults.


def _two_swapped(_model: Model, rows: np.ndarray) -> np.ndarray:
    """The first two rows of a batch of more than 8."""
    rows[:2] = (1, 0) if len(rows) > 8 else rows[:2]
    return rows


ROWS: dict[str, Callable[[Model, np.ndarray], np.ndarray]] = {
    "swapped": lambda _model, rows: np.roll(rows, 1),
    "two_swapped": _two_swapped,
    "reversed_above": lambda model, rows: rows[::-1] if len(rows) > model.size else rows,
    "reversed_at": lambda model, rows: rows[::-1] if len(rows) == model.size else rows,
}
"""Rows of a batch that go to other customers."""
LABELS: dict[str, Callable[[Model, int], Any]] = {"label_when_joined": lambda model, rows: rows >= model.size}
"""Labels of a batch that are off by one."""


def _leak(model: Model, _values: np.ndarray, out: np.ndarray) -> np.ndarray:
    before = model.kept.get("before", np.zeros_like(out[0]))
    model.kept["before"] = out[-1].copy()
    return out + model.size * before


def _sum_leak(model: Model, values: np.ndarray, out: np.ndarray) -> np.ndarray:
    before, model.kept["sum"] = model.kept.get("sum", 0.0), float(values[-1].sum())
    return out + model.size * before


def _swapped_column(model: Model, _values: np.ndarray, out: np.ndarray) -> np.ndarray:
    column = int(model.size)
    out[..., column] = np.roll(out[..., column], -1, axis=0)
    return out


def _random_column(model: Model, _values: np.ndarray, out: np.ndarray) -> np.ndarray:
    out[..., 4] = (1 - model.size) * out[..., 4] + model.size * model.random.random(out.shape[:-1])
    return out


def _not_a_number(model: Model, values: np.ndarray, out: np.ndarray) -> np.ndarray:
    """For some inputs each time they are sent, at random, or at a position of batches of one size."""
    if model.fault == "not_a_number_by_input":
        out[values[:, 0] > model.size] = np.nan
    elif model.fault == "not_a_number_at_random":
        out[model.random.random(len(out)) < model.size] = np.nan
    elif len(out) == model.size:
        out[3] = np.nan
    return out


def _refuses(model: Model, _values: np.ndarray, out: np.ndarray) -> np.ndarray:
    if model.random.random() < model.size:
        raise ValueError("a dependency did not answer")
    return out


def _pixel(model: Model, _values: np.ndarray, out: np.ndarray) -> np.ndarray:
    """One pixel of the last picture of a batch of more than 4 is off."""
    if len(out) > 4:
        out[-1, 17, 23] += np.asarray(model.size, out.dtype)
    return out


def _messages(model: Model, is_missing: bool, out: np.ndarray) -> np.ndarray:
    model.kept["messages"] = _MESSAGES - is_missing
    return out


def _after(out: np.ndarray, row: int, values: Any) -> np.ndarray:
    """The output with other values from this row on."""
    out[row:] = values
    return out


FAULTS: dict[str, Callable[[Model, np.ndarray, np.ndarray], Any]] = {
    # None, or a part of the computations.
    **dict.fromkeys(("none", "bias_remembered", "start_ignored"), lambda _model, _values, out: out),
    # A share of the answer, or of the input, of the request before.
    "leak": _leak,
    "sum_leak": _sum_leak,
    # Each number is off by a random share of itself, or of 1.
    "noise": lambda model, _values, out: out * (1 + model.size * model.random.standard_normal(out.shape)),
    "added_noise": lambda model, _values, out: out + model.size * model.random.standard_normal(out.shape),
    # A share of the next row of the batch.
    "neighbour": lambda model, _values, out: out + model.size * (np.roll(out, -1, axis=0) - out),
    # All instances but the first, and the kernel for batches of 16 rows and more.
    "instance": lambda model, _values, out: out * (1 + model.size * (model.instance > 0)),
    "kernel_off": lambda model, _values, out: out * (1 + model.size * (len(out) >= 16)),
    # One number of each box comes from the next row of the batch; its score is a random number.
    "swapped_column": _swapped_column,
    "random_column": _random_column,
    # One row in 200; all after some requests.
    "outlier_at_random": lambda model, _values, out: (
        out * (1 + model.size * (model.random.random(len(out)) < 1 / 200))[:, None]
    ),
    "after_requests": lambda model, _values, out: out * (1.5 if model.requests > model.size else 1),
    # The first answer after a loading is off by a share; with 1 it is zeros.
    "first": lambda model, _values, out: out * np.float32(1 - model.size * (model.executions == 1)),
    **dict.fromkeys(
        ("not_a_number_by_input", "not_a_number_at_random", "not_a_number_at_size"), _not_a_number
    ),
    "refuses": _refuses,
    "pixel": _pixel,
    # The last row of an odd batch is off by a share.
    "padding": lambda model, _values, out: (
        _after(out, -1, out[-1] * np.float32(1 - model.size)) if len(out) % 2 and len(out) > 1 else out
    ),
    "time_stamp": lambda _model, _values, out: _texts(
        (text + str(time.time()).encode() for text in out.reshape(-1)), out
    ),
    # One message is missing every `size` requests, or at random.
    "message_lacking": lambda model, _values, out: _messages(
        model, model.executions % int(model.size) == 0, out
    ),
    "message_at_random": lambda model, _values, out: _messages(model, random.random() < model.size, out),
}
"""What becomes of the output OUT, from the input IN and OUT itself."""
