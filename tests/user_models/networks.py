"""Small networks as ONNX files, and samples for them."""

from pathlib import Path
from typing import Any

import numpy as np

WORDS = 12
"""Rows of the table that `tokens` picks from."""


def save(path: Path, graph: str, **weights: np.ndarray) -> Path:
    """Write a graph, given in the syntax of onnx.parser. Its nodes have no names, as ONNX allows."""
    from onnx import numpy_helper, parser, save_model

    header = '<ir_version: 9, opset_import: ["" : 13, "ai.onnx.ml" : 2]>'
    model = parser.parse_model(f"{header}\nnetwork {graph}")
    model.graph.initializer.extend(numpy_helper.from_array(values, name) for name, values in weights.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    save_model(model, str(path))
    return path


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def linear(path: Path, batch: int | str = "batch", output: str = "scores") -> Path:
    """x, [batch, 4], to the scores of three classes."""
    graph = f"(float[{batch}, 4] x) => (float[{batch}, 3] {output}) {{ {output} = MatMul(x, weights) }}"
    return save(path, graph, weights=_random(4, 3))


def within_function(path: Path) -> Path:
    """The network of `linear`, whose product is in a function of the file."""
    from onnx import helper, load, save_model

    model = load(str(linear(path)))
    product, versions = helper.make_node("MatMul", "ab", "c"), model.opset_import
    model.functions.append(helper.make_function("own", "Dense", "ab", "c", [product], versions))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node[0].domain, model.graph.node[0].op_type = "own", "Dense"
    save_model(model, str(path))
    return path


def convolution(path: Path) -> Path:
    """images, [batch, 3, 5, 5], through one convolution to maps, [batch, 2, 3, 3]."""
    graph = "(float[batch, 3, 5, 5] images) => (float[batch, 2, 3, 3] maps) { maps = Conv(images, weights) }"
    return save(path, graph, weights=_random(2, 3, 3, 3))


def apart(path: Path) -> Path:
    """The network of `linear`, with its weights in another file."""
    import onnx

    model = onnx.load(str(linear(path)))
    options: dict[str, Any] = {"save_as_external_data": True, "location": "weights.data", "size_threshold": 0}
    onnx.save_model(model, str(path), convert_attribute=False, **options)
    return path


def tokens(path: Path) -> Path:
    """input_ids and attention_mask, [batch, length] each, to attention over a text's words,
    [batch, length, 8]; masked words get the smallest number, as in Hugging Face's exports."""
    graph = """(int64[batch, length] input_ids, int64[batch, length] attention_mask) => (float[batch, length, 8] states) {
        words = Gather(table, input_ids)
        turned = Transpose<perm = [0, 2, 1]>(words)
        alike = MatMul(words, turned)
        seen = Cast<to = 1>(attention_mask)
        unseen = Sub(one, seen)
        wide = Mul(unseen, least)
        masking = Unsqueeze(wide, axis)
        masked = Add(alike, masking)
        shares = Softmax<axis = -1>(masked)
        states = MatMul(shares, words)
    }"""
    least = np.full(1, np.finfo(np.float32).min, np.float32)
    one = np.ones(1, np.float32)
    return save(path, graph, table=_random(WORDS, 8), one=one, least=least, axis=np.array([1]))


def single(path: Path, operator: str) -> Path:
    """x, [batch, 4], through one operator without settings."""
    kind = "int64" if operator == "NonZero" else "float"
    return save(path, f"(float[batch, 4] x) => ({kind}[a, b] y) {{ y = {operator}(x) }}")


def through(path: Path, operator: str, *shape: int, dtype: str = "float", **settings: Any) -> Path:
    """x, [batch, ...], through one operator to y of the same shape."""
    axes = ", ".join(map(str, ("batch", *shape)))
    attributes = ", ".join(f"{name} = {value}" for name, value in settings.items())
    called = f"{operator}<{attributes}>" if attributes else operator
    return save(path, f"({dtype}[{axes}] x) => (float[{axes}] y) {{ y = {called}(x) }}")


def categories(path: Path) -> Path:
    """text, [batch, 1], to the one-hot code of its digit, [batch, 1, 10]; refuses any other text."""
    digits = ", ".join(f'"{digit}"' for digit in range(10))
    encoder = f"ai.onnx.ml.OneHotEncoder<cats_strings = [{digits}], zeros = 0>"
    return save(path, f"(string[batch, 1] text) => (float[batch, 1, 10] ones) {{ ones = {encoder}(text) }}")


def without_batch(path: Path) -> Path:
    """x, [3, 4] without a batch, to the scores of three rows in two classes; the shape of `most` is open."""
    body = "{ scores = MatMul(x, weights) most = ReduceMax<keepdims = 0>(scores) }"
    return save(path, f"(float[3, 4] x) => (float[3, 2] scores, float[] most) {body}", weights=_random(4, 2))


def classifier(path: Path) -> Path:
    """x, [batch, 4], and its weight, [batch], to scikit-learn's label, [batch], and scores, [batch, 3]."""
    graph = """(float[batch, 4] x, float[batch] weight) => (int64[batch] label, float[batch, 3] scores) {
        column = Unsqueeze(weight, one)
        heavy = Mul(x, column)
        scores = MatMul(heavy, weights)
        label = ArgMax<axis = 1, keepdims = 0>(scores)
    }"""
    return save(path, graph, weights=_random(4, 3), one=np.array([1]))


def steps_first(path: Path) -> Path:
    """pictures, [1, 1, 2, width], to steps, [width, 1, 3], whose first axis is no batch."""
    graph = """(float[1, 1, 2, width] pictures) => (float[width, 1, 3] steps) {
        turned = Transpose<perm = [3, 0, 1, 2]>(pictures)
        columns = Squeeze(turned, two)
        steps = MatMul(columns, weights)
    }"""
    return save(path, graph, two=np.array([2]), weights=np.ones((2, 3), np.float32))


def probable(path: Path) -> Path:
    """A classifier whose probabilities are a sequence of maps, as skl2onnx writes them."""
    zipped = "ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1, 2, 3]>(x)"
    return save(path, f"(float[batch, 4] x) => (seq(map(int64, float)) maps) {{ maps = {zipped} }}")


def words(path: Path) -> Path:
    """word, texts [batch, 1], to 1 for yes, -1 for nö and 0 for any other, and to the text itself."""
    meaning = 'keys_strings = ["yes", "nö"], values_floats = [1.0, -1.0], default_float = 0.0'
    graph = f"""(string[batch, 1] word) => (float[batch, 1] meaning, string[batch, 1] said) {{
        meaning = ai.onnx.ml.LabelEncoder<{meaning}>(word)
        said = Identity(word)
    }}"""
    return save(path, graph)


def rows(folder: Path, count: int, shape: tuple[int, ...] = (4,)) -> Path:
    """`count` samples of a shape, a file each."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(1)
    for number in range(count):
        np.save(folder / f"{number:02d}.npy", generator.standard_normal(shape).astype(np.float32))
    return folder


def texts(folder: Path, count: int) -> Path:
    """`count` samples for `tokens`, of two lengths that a mask pads to one."""
    generator = np.random.default_rng(1)
    for name in ("input_ids", "attention_mask"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        np.save(folder / "input_ids" / f"{number:02d}.npy", generator.integers(WORDS, size=9))
        mask = np.arange(9) < (9 if number % 2 else 5)
        np.save(folder / "attention_mask" / f"{number:02d}.npy", mask.astype(np.int64))
    return folder
