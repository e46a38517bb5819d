"""Small networks as ONNX files, and samples for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 12
"""Rows of the table that `tokens` picks from."""


def _save(
    path: Path, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **weights: np.ndarray
) -> Path:
    from onnx import helper, numpy_helper, save_model

    tensors = [numpy_helper.from_array(values, name) for name, values in weights.items()]
    graph = helper.make_graph(list(nodes), "network", list(inputs), list(outputs), tensors)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 2)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_model(model, str(path))
    return path


def _value(name: str, dtype: str, *shape: int | str | None) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, getattr(TensorProto, dtype), shape)


def linear(path: Path, batch: int | str = "batch") -> Path:
    """x, [batch, 4], to the scores of three classes."""
    from onnx import helper

    weights = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "weights"], ["scores"], name="product")
    return _save(
        path,
        [node],
        [_value("x", "FLOAT", batch, 4)],
        [_value("scores", "FLOAT", batch, 3)],
        weights=weights,
    )


def convolution(path: Path) -> Path:
    """images, [batch, 3, 5, 5], through one convolution to maps, [batch, 2, 3, 3]."""
    from onnx import helper

    weights = np.random.default_rng(0).standard_normal((2, 3, 3, 3)).astype(np.float32)
    return _save(
        path,
        [helper.make_node("Conv", ["images", "weights"], ["maps"])],
        [_value("images", "FLOAT", "batch", 3, 5, 5)],
        [_value("maps", "FLOAT", "batch", 2, 3, 3)],
        weights=weights,
    )


def apart(path: Path) -> Path:
    """The network of `linear`, its weights in a file of their own."""
    import onnx

    model = onnx.load(str(linear(path)))
    onnx.save_model(
        model,
        str(path),
        save_as_external_data=True,
        location="weights.data",
        size_threshold=0,
        convert_attribute=False,
    )
    return path


def tokens(path: Path) -> Path:
    """input_ids and attention_mask, [batch, any] each, to attention over a text's words, [batch, any, 8]; what is masked
    gets the least number there is, as in Hugging Face's exports."""
    from onnx import helper

    generator = np.random.default_rng(0)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"], name="gather"),
        helper.make_node("Transpose", ["words"], ["turned"], name="turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["words", "turned"], ["alike"], name="alike"),
        helper.make_node("Cast", ["attention_mask"], ["seen"], name="cast", to=1),
        helper.make_node("Sub", ["one", "seen"], ["unseen"], name="unseen"),
        helper.make_node("Mul", ["unseen", "least"], ["wide"], name="wide"),
        helper.make_node("Unsqueeze", ["wide", "axis"], ["masking"], name="masking"),
        helper.make_node("Add", ["alike", "masking"], ["masked"], name="masked"),
        helper.make_node("Softmax", ["masked"], ["shares"], name="shares", axis=-1),
        helper.make_node("MatMul", ["shares", "words"], ["states"], name="states"),
    ]
    return _save(
        path,
        nodes,
        [
            _value("input_ids", "INT64", "batch", "length"),
            _value("attention_mask", "INT64", "batch", "length"),
        ],
        [_value("states", "FLOAT", "batch", "length", 8)],
        table=generator.standard_normal((WORDS, 8)).astype(np.float32),
        one=np.ones(1, np.float32),
        least=np.full(1, np.finfo(np.float32).min, np.float32),
        axis=np.array([1]),
    )


def single(path: Path, operator: str) -> Path:
    """x, [batch, 4], through one operator without settings."""
    from onnx import helper

    node = helper.make_node(operator, ["x"], ["y"], name="node")
    dtype = "INT64" if operator == "NonZero" else "FLOAT"
    return _save(path, [node], [_value("x", "FLOAT", "batch", 4)], [_value("y", dtype, "a", "b")])


def categories(path: Path) -> Path:
    """text, [batch, 1], to ones at the place of its digit; any other text is refused."""
    from onnx import helper

    digits = [str(digit) for digit in range(10)]
    node = helper.make_node(
        "OneHotEncoder", ["text"], ["ones"], domain="ai.onnx.ml", cats_strings=digits, zeros=0
    )
    return _save(
        path, [node], [_value("text", "STRING", "batch", 1)], [_value("ones", "FLOAT", "batch", 1, 10)]
    )


def without_batch(path: Path) -> Path:
    """x, [3, 4] as a whole, to the scores of three things in two classes."""
    from onnx import helper

    weights = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "weights"], ["scores"], name="product")
    return _save(
        path, [node], [_value("x", "FLOAT", 3, 4)], [_value("scores", "FLOAT", 3, 2)], weights=weights
    )


def classifier(path: Path) -> Path:
    """x, [batch, 4], and its weight, [batch], to a label, [batch], and to scores, [batch, 3], as scikit-learn's are."""
    from onnx import helper

    nodes = [
        helper.make_node("Unsqueeze", ["weight", "one"], ["column"]),
        helper.make_node("Mul", ["x", "column"], ["heavy"]),
        helper.make_node("MatMul", ["heavy", "weights"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    return _save(
        path,
        nodes,
        [_value("x", "FLOAT", "batch", 4), _value("weight", "FLOAT", "batch")],
        [_value("label", "INT64", "batch"), _value("scores", "FLOAT", "batch", 3)],
        weights=np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32),
        one=np.array([1]),
    )


def with_rate(path: Path) -> Path:
    """x, [any], and rate, a single number that branches take from outside, to y, [any], and to their sum, a single number."""
    from onnx import helper

    branches = {
        f"{name}_branch": helper.make_graph(
            [
                helper.make_node("Cast", ["rate"], [f"{name}_rate"], to=1),
                helper.make_node(operator, ["x", f"{name}_rate"], [f"{name}_y"]),
            ],
            name,
            [],
            [_value(f"{name}_y", "FLOAT", "any")],
        )
        for name, operator in (("then", "Add"), ("else", "Mul"))
    }
    nodes = [
        helper.make_node("Greater", ["rate", "hundred"], ["is_fast"]),
        helper.make_node("If", ["is_fast"], ["y"], **branches),
        helper.make_node("ReduceSum", ["y"], ["sum"], keepdims=0),
    ]
    return _save(
        path,
        nodes,
        [_value("x", "FLOAT", "length"), _value("rate", "INT64")],
        [_value("y", "FLOAT", "length"), _value("sum", "FLOAT")],
        hundred=np.array(100),
    )


def steps_first(path: Path) -> Path:
    """pictures, [1, 1, 2, width], to steps, [width, 1, 3]: the first axis of the output is no batch."""
    from onnx import helper

    nodes = [
        helper.make_node("Transpose", ["pictures"], ["turned"], perm=[3, 0, 1, 2]),
        helper.make_node("Squeeze", ["turned", "two"], ["columns"]),
        helper.make_node("MatMul", ["columns", "weights"], ["steps"]),
    ]
    return _save(
        path,
        nodes,
        [_value("pictures", "FLOAT", 1, 1, 2, "width")],
        [_value("steps", "FLOAT", "width", 1, 3)],
        two=np.array([2]),
        weights=np.ones((2, 3), np.float32),
    )


def through(path: Path, operator: str, dtype: str = "FLOAT", *shape: int | str, **settings: Any) -> Path:
    """x, [batch, ...], through one operator to y of the same shape."""
    from onnx import helper

    node = helper.make_node(operator, ["x"], ["y"], **settings)
    return _save(path, [node], [_value("x", dtype, "batch", *shape)], [_value("y", "FLOAT", "batch", *shape)])


def bytes_read(path: Path, dtype: str = "INT32") -> Path:
    """content, [batch, 8] of whole numbers of which each below 256 has a meaning, to scores."""
    from onnx import helper

    nodes = [
        helper.make_node("Cast", ["content"], ["numbers"], to=1),
        helper.make_node("MatMul", ["numbers", "weights"], ["scores"]),
    ]
    return _save(
        path,
        nodes,
        [_value("content", dtype, "batch", 8)],
        [_value("scores", "FLOAT", "batch", 3)],
        weights=np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32),
    )


def picks(path: Path) -> Path:
    """which, [batch, 5] of INT32, that picks from a table of 40 rows once it is INT64, and flag, [batch, 1], from one of 2 that
    the graph computes."""
    from onnx import helper

    nodes = [
        helper.make_node("Cast", ["which"], ["index"], to=7),
        helper.make_node("Gather", ["table", "index"], ["rows"]),
        helper.make_node("Identity", ["pair"], ["computed"]),
        helper.make_node("Gather", ["computed", "flag"], ["flags"]),
        helper.make_node("Add", ["rows", "flags"], ["y"]),
    ]
    return _save(
        path,
        nodes,
        [_value("which", "INT32", "batch", 5), _value("flag", "INT64", "batch", 1)],
        [_value("y", "FLOAT", "batch", 5)],
        table=np.arange(40, dtype=np.float32),
        pair=np.arange(2, dtype=np.float32),
    )


def probable(path: Path) -> Path:
    """A classifier whose probabilities are a sequence of maps, as skl2onnx writes them."""
    from onnx import helper

    node = helper.make_node(
        "ZipMap", ["x"], ["output_probability"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2, 3]
    )
    kind = helper.make_sequence_type_proto(
        helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, None))
    )
    output = helper.make_value_info("output_probability", kind)
    return _save(path, [node], [_value("x", "FLOAT", "batch", 4)], [output])


def normalised(path: Path, locale: str) -> Path:
    """word, [1] of texts, in lower case by the rules of a locale."""
    from onnx import helper

    node = helper.make_node("StringNormalizer", ["word"], ["low"], case_change_action="LOWER", locale=locale)
    return _save(path, [node], [_value("word", "STRING", 1)], [_value("low", "STRING", 1)])


def words(path: Path) -> Path:
    """word, [batch, 1] of texts, to 1 for yes, -1 for nö and 0 for any other, and to the text itself."""
    from onnx import helper

    nodes = [
        helper.make_node(
            "LabelEncoder",
            ["word"],
            ["meaning"],
            name="meaning",
            domain="ai.onnx.ml",
            keys_strings=["yes", "nö"],
            values_floats=[1.0, -1.0],
            default_float=0.0,
        ),
        helper.make_node("Identity", ["word"], ["said"], name="said"),
    ]
    return _save(
        path,
        nodes,
        [_value("word", "STRING", "batch", 1)],
        [_value("meaning", "FLOAT", "batch", 1), _value("said", "STRING", "batch", 1)],
    )


def rows(folder: Path, count: int) -> Path:
    """So many samples for `linear`, a file each."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(1)
    for number in range(count):
        np.save(folder / f"{number:02d}.npy", generator.standard_normal(4).astype(np.float32))
    return folder


def texts(folder: Path, count: int) -> Path:
    """So many samples for `tokens`, of two lengths that a mask makes one."""
    generator = np.random.default_rng(1)
    for name in ("input_ids", "attention_mask"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        np.save(folder / "input_ids" / f"{number:02d}.npy", generator.integers(WORDS, size=9))
        mask = np.arange(9) < (9 if number % 2 else 5)
        np.save(folder / "attention_mask" / f"{number:02d}.npy", mask.astype(np.int64))
    return folder
