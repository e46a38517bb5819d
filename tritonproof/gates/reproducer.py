"""A folder that reproduces a wrong answer: request, both answers, configuration, a script to ask again."""

import zipfile
from pathlib import Path

import numpy as np

from tritonproof.accuracy.answer_comparison import Mismatch
from tritonproof.base.paths import CONFIG_FILE
from tritonproof.spec import Arrays, Model

_SCRIPT = '''\
"""Sends request.npz to a Triton that serves the model, and sets the answer beside expected.npz.
Usage: python show.py HOST:PORT"""

import sys
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton

MODEL, ROW, TYPES = {model!r}, {row!r}, {types!r}
texts = np.vectorize(lambda text: text[:-1], "O")  # their last byte keeps zeros before it
client = triton.InferenceServerClient(sys.argv[1] if len(sys.argv) > 1 else "localhost:8001")
inputs = []
for name, values in np.load(Path(__file__).with_name("request.npz")).items():
    values = texts(values) if TYPES[name] == "BYTES" else values
    inputs.append(triton.InferInput(name, list(values.shape), TYPES[name]))
    inputs[-1].set_data_from_numpy(values)
answer = client.infer(MODEL, inputs)
for name, expected in np.load(Path(__file__).with_name("expected.npz")).items():
    actual = answer.as_numpy(name)
    if ROW is not None and actual is not None:
        actual = actual[ROW, ...] if ROW < len(actual) else None
    expected = texts(expected) if expected.dtype.kind == "S" else expected
    said = "is as expected" if np.array_equal(actual, expected) else "differs"
    print(name, said, np.ravel(actual)[:8], "and", expected.ravel()[:8])
'''


def write_reproducer(
    folder: Path, name: str, config: Path, model: Model, request: Arrays, mismatch: Mismatch
) -> None:
    """Write a reproducer. `name` is the model's on its server, `request` the inputs of the request's rows."""
    folder.mkdir(parents=True)
    types = {tensor.name: tensor.dtype for tensor in model.inputs if tensor.name in request}
    sent = {key: values if model.batched else values[0] for key, values in request.items() if key in types}
    for file, arrays in (("request", sent), ("expected", mismatch.expected), ("actual", mismatch.actual)):
        _write_npz(folder / f"{file}.npz", arrays)
    (folder / CONFIG_FILE).write_bytes(config.read_bytes())
    row = mismatch.row if model.batched else None
    (folder / "show.py").write_text(_SCRIPT.format(model=name, row=row, types=types))


def _write_npz(path: Path, arrays: Arrays) -> None:
    """Write an .npz. Texts become bytes, so reading runs no code, each with an end: NumPy drops zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, values in arrays.items():
            array = np.asarray(values, getattr(values, "dtype", object))  # a single text has no dtype
            if array.dtype == object:
                texts = [text if isinstance(text, bytes) else str(text).encode() for text in array.ravel()]
                array = np.array([text + b"." for text in texts], np.bytes_).reshape(array.shape)
            with file.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
