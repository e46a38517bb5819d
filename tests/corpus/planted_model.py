"""A model of Triton's Python backend. Parameters of its configuration choose its computation and its fault:
the functions `answers_NAME` and `fault_NAME` of this file, which is copied as model.py into the folder of
each model of the corpus."""

import concurrent.futures
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
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
        self.answers: Callable[[TritonPythonModel, Arrays], Arrays] = globals()[
            f"answers_{settings['answers']}"
        ]
        self.fault: Callable[[TritonPythonModel, Arrays, Arrays], Arrays] = globals()[
            f"fault_{settings['fault']}"
        ]
        self.size = float(settings["size"])
        self.name = args["model_name"]
        self.instance = int(args["model_instance_name"].rpartition("_")[2])
        self.inputs = [tensor["name"] for tensor in config["input"]]
        self.types = {tensor["name"]: tensor["data_type"] for tensor in config["output"]}
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
        return [
            self._response({name: rows[number] for name, rows in split.items()})
            for number in range(len(requests))
        ]

    def _inputs_of(self, request: Any) -> Arrays:
        tensors = {name: pb_utils.get_input_tensor_by_name(request, name) for name in self._names(request)}
        return {name: tensor.as_numpy() for name, tensor in tensors.items() if tensor is not None}

    def _names(self, request: Any) -> list[str]:
        return [*self.inputs, *({tensor.name() for tensor in request.inputs()} - set(self.inputs))]

    def _outputs(self, inputs: Arrays) -> Arrays:
        return self.fault(self, inputs, self.answers(self, inputs))

    def _response(self, outputs: Arrays) -> Any:
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, values) for name, values in outputs.items()])

    def _answer_in_parts(self, request: Any, inputs: Arrays) -> None:
        sender = request.get_response_sender()
        outputs = self._outputs(inputs)
        count = self.kept.get("messages", _MESSAGES)
        for number in range(count):
            sender.send(self._response({name: values / (number + 1) for name, values in outputs.items()}))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _scores(inputs: Arrays, columns: int = 8) -> np.ndarray:
    """Numbers from -1 to 1 that depend on all features of a row, [rows, columns]."""
    return np.asarray(np.tanh(inputs["IN"] @ _WEIGHTS[:, :columns]))


def _softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


# Computations.


def answers_plain(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    return {"OUT": _scores(inputs)}


def answers_prices(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    return {"OUT": 1000 + 10 * _scores(inputs)}


def answers_identifiers(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """Whole numbers near 50,000 as FP32, which tell customers apart."""
    return {"OUT": np.round(50_000 + 500 * _scores(inputs))}


def answers_masked(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """Logits, with three classes masked out."""
    logits = _scores(inputs)
    logits[:, :3] = -10_000
    return {"OUT": logits}


def answers_boxes(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """Ten boxes of a detector in pixels, with their scores and classes: [x1, y1, x2, y2, score, class]."""
    values = _scores(inputs, 60).reshape(-1, 10, 6)
    corners = 320 + 300 * values[..., :4]
    return {
        "OUT": np.concatenate([corners, 0.5 + values[..., 4:5] / 2, np.round(40 + 39 * values[..., 5:])], 2)
    }


def answers_narrow(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    return {"OUT": np.float32(5) + np.float32(0.01) * _scores(inputs)}


def answers_classes(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """Classes from 1 to 999 as FP32."""
    return {"OUT": np.round(500 + 499 * _scores(inputs))}


def answers_labelled(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    scores = _scores(inputs, 10)
    return {"OUT": scores, "LABEL": scores.argmax(axis=1).astype(np.int32)[:, None]}


def answers_tied(model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """A classifier with two classes of equal score, so that rounding alone decides between them."""
    scores = _scores(inputs, 10)
    scores[:, 5] = scores[:, 2] = 1 + scores[:, 2]
    scores = scores * (1 + 1e-7 * model.random.standard_normal(scores.shape)).astype(np.float32)
    return {"OUT": scores, "LABEL": scores.argmax(axis=1).astype(np.int32)[:, None]}


def answers_rare(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """Probabilities of 200 classes, nearly all nearly always 0."""
    return {"OUT": _softmax(30 * _scores(inputs, 200))}


def answers_half(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """FP16 as on a GPU, with outputs in FP32; the order of its sums depends on the batch size."""
    return {"OUT": _in_half(inputs).astype(np.float32)}


def answers_half_outputs(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    return {"OUT": _in_half(inputs)}


def answers_half_noisy(model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """FP16 that adds its sums in another order each time, as a GPU's atomics do."""
    noise = (2e-4 * model.random.standard_normal((len(inputs["IN"]), 8))).astype(np.float16)
    return {"OUT": (_in_half(inputs) + noise).astype(np.float32)}


def answers_half_softmax(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """Logits in FP16 and their softmax in FP32, as with autocast."""
    return {"OUT": _softmax(3 * _in_half(inputs).astype(np.float32))}


def answers_half_prices(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """Prices from a network in FP16, scaled in FP32 at its end."""
    return {"OUT": 1000 + 10 * _in_half(inputs).astype(np.float32)}


def _in_half(inputs: Arrays) -> np.ndarray:
    values, weights = inputs["IN"].astype(np.float16), _WEIGHTS[:, :8].astype(np.float16)
    order = np.random.default_rng(len(values).bit_length()).permutation(values.shape[1])
    total = np.zeros((len(values), 8), np.float16)
    for feature in order:
        total += values[:, feature : feature + 1] * weights[feature]
    return np.asarray(np.tanh(total))


def answers_kernels(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """Another kernel for each power of two of the batch size, with another order and so rounding of its
    sums."""
    return {"OUT": _by_kernel(inputs)}


def answers_kernel_prices(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    return {"OUT": 1000 + 10 * _by_kernel(inputs)}


def _by_kernel(inputs: Arrays) -> np.ndarray:
    values = inputs["IN"]
    order = np.random.default_rng(len(values).bit_length()).permutation(values.shape[1])
    total = np.zeros((len(values), 8), np.float32)
    for feature in order:
        total += values[:, feature : feature + 1] * _WEIGHTS[feature, :8]
    return np.asarray(np.tanh(total))


def answers_pictures(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """Pictures of 64 x 64 numbers from -1 to 1."""
    return {"OUT": _pictures(inputs)}


def answers_maps(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """Pictures whose pixels are classes from 0 to 8."""
    return {"OUT": np.round(4 + 4 * _pictures(inputs)).astype(np.int32)}


def _pictures(inputs: Arrays) -> np.ndarray:
    edges = _scores(inputs, 128)
    return np.asarray(edges[:, :64, None] * edges[:, None, 64:])


def answers_texts(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    texts = [bytes(text).upper() for text in inputs["IN"].reshape(-1)]
    return {"OUT": np.array(texts, object).reshape(inputs["IN"].shape)}


def answers_biased(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    return {"OUT": _scores(inputs) + inputs.get("BIAS", np.float32(0))}


def answers_wide(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """FP64, where the configuration declares FP32."""
    return {"OUT": _scores(inputs).astype(np.float64)}


def answers_deeper(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """One axis more than declared."""
    return {"OUT": _scores(inputs)[:, None]}


def answers_zeros(_model: TritonPythonModel, inputs: Arrays) -> Arrays:
    return {"OUT": np.zeros((len(inputs["IN"]), 8), np.float32)}


def answers_sums(model: TritonPythonModel, inputs: Arrays) -> Arrays:
    """The sum over a sequence's requests."""
    number, start = int(inputs["CORRID"].reshape(-1)[0]), bool(inputs["START"].reshape(-1)[0])
    sums = model.kept.setdefault("sums", {})
    if start and model.fault is not fault_start_ignored:
        sums.pop(number, None)
    sums[number] = sums.get(number, np.float32(0)) + _scores(inputs)
    return {"OUT": sums[number].copy()}


# Faults.


def fault_none(_model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    return outputs


def fault_noise(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """Each number is off by a random share of itself."""
    noise = 1 + model.size * model.random.standard_normal(outputs["OUT"].shape)
    return outputs | {"OUT": (outputs["OUT"] * noise).astype(np.float32)}


def fault_added_noise(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    noise = model.size * model.random.standard_normal(outputs["OUT"].shape)
    return outputs | {"OUT": (outputs["OUT"] + noise).astype(np.float32)}


def fault_leak(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """A share of the previous execution's answer."""
    clean = outputs["OUT"]
    before = model.kept.get("before", np.zeros_like(clean[0]))
    model.kept["before"] = clean[-1].copy()
    return outputs | {"OUT": (clean + model.size * before).astype(np.float32)}


def fault_sum_leak(model: TritonPythonModel, inputs: Arrays, outputs: Arrays) -> Arrays:
    before, model.kept["sum"] = model.kept.get("sum", 0.0), float(inputs["IN"][-1].sum())
    return outputs | {"OUT": (outputs["OUT"] + model.size * before).astype(np.float32)}


def fault_neighbour(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """A share of the next row of the batch."""
    clean = outputs["OUT"]
    return outputs | {"OUT": (clean + model.size * (np.roll(clean, -1, axis=0) - clean)).astype(np.float32)}


def fault_instance(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """All instances but the first are off by a share."""
    return outputs | {"OUT": (outputs["OUT"] * (1 + model.size * (model.instance > 0))).astype(np.float32)}


def fault_swapped(_model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """Every row of a batch goes to another customer."""
    return {name: np.roll(values, 1, axis=0) for name, values in outputs.items()}


def fault_two_swapped(_model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """The first two rows of a batch of more than 8 are swapped."""
    rows = np.arange(len(outputs["OUT"]))
    if len(rows) > 8:
        rows[:2] = 1, 0
    return {name: values[rows] for name, values in outputs.items()}


def fault_reversed_above(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    is_large = len(outputs["OUT"]) > model.size
    return {name: values[::-1] if is_large else values for name, values in outputs.items()}


def fault_reversed_at(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    is_one = len(outputs["OUT"]) == model.size
    return {name: values[::-1] if is_one else values for name, values in outputs.items()}


def fault_swapped_column(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """One number of each box comes from the next row of the batch."""
    values, column = outputs["OUT"].copy(), int(model.size)
    values[..., column] = np.roll(values[..., column], -1, axis=0)
    return {"OUT": values}


def fault_random_column(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """The scores beside pixel coordinates are random numbers."""
    values = outputs["OUT"].copy()
    noise = model.random.random(values.shape[:-1])
    values[..., 4] = (1 - model.size) * values[..., 4] + model.size * noise
    return {"OUT": values}


def fault_off_by_some(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """Whole numbers off by up to `size`, at random."""
    off = model.random.integers(-int(model.size), int(model.size) + 1, outputs["OUT"].shape)
    return {"OUT": (outputs["OUT"] + off).astype(np.float32)}


def fault_clock(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """All outputs are off by a share, in every second tenth of a second."""
    return {"OUT": (outputs["OUT"] * (1 + model.size * (int(10 * time.time()) % 2))).astype(np.float32)}


def fault_not_a_number_by_input(model: TritonPythonModel, inputs: Arrays, outputs: Arrays) -> Arrays:
    """Some inputs give NaN, each time they are sent."""
    values = outputs["OUT"].copy()
    values[inputs["IN"][:, 0] > model.size] = np.nan
    return {"OUT": values}


def fault_not_a_number_at_random(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    values = outputs["OUT"].copy()
    values[model.random.random(len(values)) < model.size] = np.nan
    return {"OUT": values}


def fault_not_a_number_at_size(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    values = outputs["OUT"].copy()
    if len(values) == model.size:
        values[3] = np.nan
    return {"OUT": values}


def fault_outlier_at_random(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """One row in 200 is off by a share."""
    off = model.size * (model.random.random(len(outputs["OUT"])) < 1 / 200)
    return {"OUT": (outputs["OUT"] * (1 + off[:, None])).astype(np.float32)}


def fault_after_requests(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    return {"OUT": outputs["OUT"] * np.float32(1.5 if model.requests > model.size else 1)}


def fault_first(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """The first answer after a load is off by a share; with 1 it is zeros."""
    return {"OUT": outputs["OUT"] * np.float32(1 - model.size * (model.executions == 1))}


def fault_refuses(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    if model.random.random() < model.size:
        raise ValueError("a dependency did not answer")
    return outputs


def fault_label_at_random(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    off = model.random.random(len(outputs["OUT"])) < model.size
    return outputs | {"LABEL": (outputs["LABEL"] + off[:, None]).astype(np.int32) % 10}


def fault_label_when_joined(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    off = len(outputs["OUT"]) >= model.size
    return outputs | {"LABEL": (outputs["LABEL"] + off).astype(np.int32) % 10}


def fault_pixel(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """One pixel of the last picture of a batch of more than 4 is off."""
    values = outputs["OUT"].copy()
    if len(values) > 4:
        values[-1, 17, 23] += np.asarray(model.size, values.dtype)
    return {"OUT": values}


def fault_swallowed(_model: TritonPythonModel, inputs: Arrays, outputs: Arrays) -> Arrays:
    """Rows after the fourth get zeros, as if it hid an error."""
    values = outputs["OUT"].copy()
    if len(inputs["IN"]) > 4:
        values[4:] = 0
    return {"OUT": values}


def fault_cut(_model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """All texts of a batch are cut to the width of the first."""
    texts, width = outputs["OUT"].reshape(-1), len(outputs["OUT"].reshape(-1)[0])
    return {"OUT": np.array([text[:width] for text in texts], object).reshape(outputs["OUT"].shape)}


def fault_cut_above(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """In batches it cuts texts at `size` characters."""
    texts = outputs["OUT"].reshape(-1)
    if len(texts) > 1:
        texts = np.array([text[: int(model.size)] for text in texts], object)
    return {"OUT": texts.reshape(outputs["OUT"].shape)}


def fault_time_stamp(_model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    texts = [text + str(time.time()).encode() for text in outputs["OUT"].reshape(-1)]
    return {"OUT": np.array(texts, object).reshape(outputs["OUT"].shape)}


def fault_threads(model: TritonPythonModel, inputs: Arrays, _outputs: Arrays) -> Arrays:
    """Threads compute the rows, and share one variable."""
    global _shared

    def compute(row: np.ndarray) -> np.ndarray:
        global _shared
        _shared = row
        time.sleep(0.0005)
        return _scores({"IN": _shared[None]})[0]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return {"OUT": np.stack(list(pool.map(compute, inputs["IN"])))}


_shared = np.zeros(0)


def fault_shared_file(model: TritonPythonModel, inputs: Arrays, _outputs: Arrays) -> Arrays:
    """Instances share one file for their inputs."""
    path = Path(tempfile.gettempdir()) / f"{model.name}.npy"
    path.write_bytes(inputs["IN"].tobytes())
    time.sleep(0.002)
    content = np.frombuffer(path.read_bytes(), np.float32)
    values = np.resize(content, inputs["IN"].shape) if len(content) else inputs["IN"]
    return {"OUT": _scores({"IN": values})}


def fault_cached_by_first_row(model: TritonPythonModel, inputs: Arrays, outputs: Arrays) -> Arrays:
    key = inputs["IN"].shape, inputs["IN"][0].tobytes()
    return dict(model.kept.setdefault(key, outputs))


def fault_cached_by_shape(model: TritonPythonModel, inputs: Arrays, outputs: Arrays) -> Arrays:
    return dict(model.kept.setdefault(inputs["IN"].shape, outputs))


def fault_reused_buffer(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """Rows beyond the buffer's end overwrite its beginning."""
    rows, clean = int(model.size), outputs["OUT"]
    buffer = np.zeros((rows, *clean.shape[1:]), np.float32)
    for place, row in enumerate(clean):
        buffer[place % rows] = row
    return {"OUT": buffer[np.arange(len(clean)) % rows]}


def fault_softmax_over_batch(_model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    return {"OUT": _softmax(outputs["OUT"].T).T}


def fault_batch_statistics(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """A normalisation left in training mode: it subtracts a share of the batch's mean."""
    clean = outputs["OUT"]
    return {"OUT": (clean - model.size * clean.mean(axis=0)).astype(np.float32)}


def fault_padding(model: TritonPythonModel, inputs: Arrays, outputs: Arrays) -> Arrays:
    """The last row of an odd batch is off by a share."""
    values = outputs["OUT"].copy()
    if len(values) % 2 and len(values) > 1:
        values[-1] *= np.float32(1 - model.size)
    return {"OUT": values}


def fault_bias_remembered(model: TritonPythonModel, inputs: Arrays, outputs: Arrays) -> Arrays:
    """A missing optional input takes a share of its last value."""
    if "BIAS" in inputs:
        model.kept["bias"] = inputs["BIAS"][-1]
        return outputs
    return {"OUT": (outputs["OUT"] + model.size * model.kept.get("bias", np.float32(0))).astype(np.float32)}


def fault_start_ignored(_model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """In answers_sums: a sequence that starts again keeps its old sum."""
    return outputs


def fault_message_lacking(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """Every `size` requests, one message is missing."""
    model.kept["messages"] = _MESSAGES - (model.executions % int(model.size) == 0)
    return outputs


def fault_message_at_random(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    model.kept["messages"] = _MESSAGES - (random.random() < model.size)
    return outputs


def fault_kernel_off(model: TritonPythonModel, _inputs: Arrays, outputs: Arrays) -> Arrays:
    """The kernel for batches of 16 rows and more is off by a share."""
    values = outputs["OUT"]
    return {"OUT": (values * (1 + model.size * (len(values) >= 16))).astype(np.float32)}
