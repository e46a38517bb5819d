"""Small files that declare huge contents are refused."""

import gzip
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from fixtures.consistency import recorded
from fixtures.data import brats
from fixtures.models.resnet50 import preprocess
from fixtures.spec import Tensor
from fixtures.user_models.labels import read_labels
from fixtures.user_models.onnx_file import NetworkOptions, model_of
from fixtures.user_models.repository import models_in
from fixtures.user_models.samples import read_samples
from tests.safe_io.test_files import refusal, within
from tests.serve.programs import script

ROW = Tensor("X", "FP32", (2, 3))


def header(shape: str, dtype: str = "<f4") -> bytes:
    """The header of an array in NumPy's format."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def put(path: Path, content: bytes) -> Path:
    """Write a file; returns its folder."""
    path.write_bytes(content)
    return path.parent


def archive(path: Path, **members: bytes) -> Path:
    """Write an archive of NumPy's files; returns its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def samples(path: Path, tensor: Tensor = ROW) -> Any:
    return read_samples(path, (tensor,)).load([0])


def unpacked(folder: Path) -> Any:
    content = header("(104857600,)", "|u1") + bytes(100 << 20)
    archive(folder / "x.npz", X=content.replace(b"(104857600,)", b"(9104857600,)", 1))
    return samples(folder)


def shape_of_a_request(folder: Path) -> Any:
    values = {"content": [], "shape": [10**40, 0]}
    put(folder / "x.json", json.dumps({"data": [{"X": values}]}).encode())
    return samples(folder, Tensor("X", "FP32", (-1, -1)))


def png(width: int, height: int, pixels: bytes = b"") -> bytes:
    """A picture of 1 bit a pixel."""
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(pixels)),
        (b"IEND", b""),
    ]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def volume(shape: tuple[int, ...], spacing: tuple[float, ...], voxels: bytes = b"") -> bytes:
    """A NIfTI file of FP32."""
    head = bytearray(352)
    struct.pack_into("<i", head, 0, 348)
    struct.pack_into("<8h", head, 40, len(shape), *shape, *[1] * (7 - len(shape)))
    struct.pack_into("<hh", head, 70, 16, 32)
    struct.pack_into("<8f", head, 76, 1, *spacing, 1, 1, 1, 1)
    struct.pack_into("<ff", head, 108, 352, 1)
    head[344:348] = b"n+1\0"
    return gzip.compress(bytes(head) + voxels)


def patient(folder: Path, shape: tuple[int, ...], spacing: tuple[float, ...], voxels: bytes = b"") -> Any:
    (folder / "image.nii.gz").write_bytes(volume(shape, spacing, voxels))
    (folder / "label.nii.gz").write_bytes(volume((4, 4, 4), (1, 1, 1), np.ones(64, np.float32).tobytes()))
    return brats.prepare(brats.Patient("x", folder / "image.nii.gz", folder / "label.nii.gz"))


BRAIN = np.ones(256, np.float32).tobytes()


def network(folder: Path, shape: list[Any], kind: int = TensorProto.FLOAT) -> Any:
    node = helper.make_node("Identity", ["x"], ["y"])
    values = [helper.make_tensor_value_info(name, kind, shape) for name in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "g", values[:1], values[1:]),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=9,
    )
    (folder / "x.onnx").write_bytes(model.SerializeToString())
    return model_of("x", NetworkOptions(folder / "x.onnx"))


MANY = 10_000_000_000_000
MUCH: dict[str, Callable[[Path], Any]] = {
    "rows of no length": lambda folder: samples(
        put(folder / "x.npy", header(f"({MANY}, 0)")), Tensor("X", "FP32", (-1,))
    ),
    "an archive that unpacks to more than its array": unpacked,
    "labels": lambda folder: read_labels(archive(folder / "l.npz", a=header(f"({MANY},)")), ["a"], ["a"]),
    "recorded answers": lambda folder: recorded.read(
        archive(folder / "a.npz", about=header(f"({MANY},)", "|u1"), content=b"")
    ),
    "a request's shape": shape_of_a_request,
    "a text for a shape": lambda folder: samples(
        put(folder / "x.txt", b"a\n"), Tensor("X", "BYTES", (10**12,))
    ),
    "many texts": lambda folder: samples(
        put(folder / "x.txt", b"a\n" * 3_000_000), Tensor("X", "BYTES", (1,))
    ),
    "an image of one column": lambda folder: preprocess(
        put(folder / "x.png", png(1, 400_000, bytes(800_000))) / "x.png"
    ),
    "an image of a terapixel": lambda folder: preprocess(put(folder / "x.png", png(2**20, 2**20)) / "x.png"),
    "a volume's shape": lambda folder: patient(folder, (32767, 32767, 32767, 4), (1, 1, 1)),
    "a volume's spacing": lambda folder: patient(folder, (4, 4, 4, 4), (1e6, 1e6, 1e6), BRAIN),
    "a volume of no spacing": lambda folder: patient(folder, (4, 4, 4, 4), (1, float("nan"), 1), BRAIN),
    "a network's input": lambda folder: network(folder, ["batch", 10**15]),
    "a network's type": lambda folder: network(folder, ["batch", 4], 999),
}


@pytest.mark.parametrize("what", MUCH)
def test_small_file_with_large_demand_is_refused_cheaply(what: str, tmp_path: Path) -> None:
    # The tests themselves unpack or write 100 MiB.
    within(600, lambda: refusal(lambda: MUCH[what](tmp_path)))


@pytest.mark.parametrize(
    "text", ["a { " * 3_000 + "} " * 3_000, "input [ { name: 'x' data_type: 999 } ]", "\0", "a" * 2**21]
)
def test_malicious_configuration_is_a_problem_of_its_model(text: str, tmp_path: Path) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "config.pbtxt").write_text(text)
    (model,) = models_in(tmp_path, "--repository")
    assert model.problem
    assert model.config is None


def test_program_in_place_of_a_picture_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow gives PostScript to another program, which runs the file's commands."""
    script(tmp_path / "bin" / "gs", f"touch {tmp_path / 'it-ran'}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    folder = tmp_path / "samples"
    folder.mkdir()
    put(folder / "x.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    for read in (
        lambda: samples(folder, Tensor("X", "FP32", (3, 9, 9))),
        lambda: preprocess(folder / "x.png"),
    ):
        refusal(read)
    assert not (tmp_path / "it-ran").exists()
