"""Small files that declare huge contents are refused."""

import gzip
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import onnx.parser
import pytest
from PIL import Image

from tests.safe_io.refusals import refusal, within
from tests.serve.programs import script
from tritonproof.data import brats
from tritonproof.data.images import preprocess
from tritonproof.spec import Tensor
from tritonproof.user_models.labels import read_labels
from tritonproof.user_models.model_repository import entries_in
from tritonproof.user_models.onnx_model import OnnxOptions, model_of
from tritonproof.user_models.samples import read_samples


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


def samples(path: Path, dtype: str = "FP32", shape: tuple[int, ...] = (2, 3)) -> Any:
    return read_samples(path, (Tensor("X", dtype, shape),)).read([0])


def unpacked(folder: Path) -> Any:
    content = header("(104857600,)", "|u1") + bytes(100 << 20)
    archive(folder / "x.npz", X=content.replace(b"(104857600,)", b"(9104857600,)", 1))
    return samples(folder)


def shape_of_a_request(folder: Path) -> Any:
    values = {"content": [], "shape": [10**40, 0]}
    put(folder / "x.json", json.dumps({"data": [{"X": values}]}).encode())
    return samples(folder, shape=(-1, -1))


def png(path: Path, size: tuple[int, int], declared: int | None = None) -> Path:
    """A picture, which may declare another width and height; returns its path."""
    Image.new("1", size).save(path)
    content = bytearray(path.read_bytes())
    if declared is not None:
        content[16:24] = struct.pack(">II", declared, declared)
        content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    path.write_bytes(content)
    return path


def volume(shape: tuple[int, ...], spacing: tuple[float, ...], voxels: int = 0) -> bytes:
    """A file in NIfTI's format, with so many voxels."""
    head = nibabel.Nifti1Header()
    head.set_data_shape(shape)
    head["pixdim"][1:4] = spacing
    head["vox_offset"] = 352
    return gzip.compress(head.binaryblock + bytes(4) + np.ones(voxels, np.float32).tobytes())


def patient(folder: Path, shape: tuple[int, ...], spacing: tuple[float, ...], voxels: int = 0) -> Any:
    image, label = folder / "image.nii.gz", folder / "label.nii.gz"
    image.write_bytes(volume(shape, spacing, voxels))
    label.write_bytes(volume((4, 4, 4), (1, 1, 1), 64))
    return brats.prepare(brats.Patient("x", image, label))


def network(folder: Path, length: int, kind: int = onnx.TensorProto.FLOAT) -> Any:
    tensors = f"(float[batch, {length}] x) => (float[batch, {length}] y)"
    graph = f'<ir_version: 9, opset_import: ["": 13]> g {tensors} {{ y = Identity(x) }}'
    model = onnx.parser.parse_model(graph)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = kind
    onnx.save(model, folder / "x.onnx")
    return model_of("x", OnnxOptions(folder / "x.onnx"))


MANY = 10_000_000_000_000
MUCH: dict[str, Callable[[Path], Any]] = {
    "rows of no length": lambda folder: samples(put(folder / "x.npy", header(f"({MANY}, 0)")), shape=(-1,)),
    "an archive that unpacks to more than its array": unpacked,
    "labels": lambda folder: read_labels(archive(folder / "l.npz", a=header(f"({MANY},)")), ["a"], ["a"]),
    "a request's shape": shape_of_a_request,
    "a text for a shape": lambda folder: samples(put(folder / "x.txt", b"a\n"), "BYTES", (10**12,)),
    "many texts": lambda folder: samples(put(folder / "x.txt", b"a\n" * 3_000_000), "BYTES", (1,)),
    "an image of one column": lambda folder: preprocess(png(folder / "x.png", (1, 400_000))),
    "an image of a terapixel": lambda folder: preprocess(png(folder / "x.png", (1, 1), declared=2**20)),
    "a volume's shape": lambda folder: patient(folder, (32767, 32767, 32767, 4), (1, 1, 1)),
    "a volume's spacing": lambda folder: patient(folder, (4, 4, 4, 4), (1e6, 1e6, 1e6), 256),
    "a volume of no spacing": lambda folder: patient(folder, (4, 4, 4, 4), (1, float("nan"), 1), 256),
    "a network's input": lambda folder: network(folder, 10**15),
    "a network's type": lambda folder: network(folder, 4, kind=999),
}


@pytest.mark.parametrize("what", MUCH)
def test_small_file_with_large_demand_is_refused_cheaply(what: str, tmp_path: Path) -> None:
    # The tests themselves unpack or write 100 MiB.
    within(600, lambda: refusal(lambda: MUCH[what](tmp_path)))


@pytest.mark.parametrize(
    "text", ["a { " * 3_000 + "} " * 3_000, "input [ { name: 'x' data_type: 999 } ]", "\0", "a" * 2**21]
)
def test_malicious_configuration_is_a_problem_of_its_model(text: str, tmp_path: Path) -> None:
    for name, content in (("m", text), ("right", "max_batch_size: 4")):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(content)
    entry, right = entries_in(tmp_path, "--repository")
    assert str(tmp_path / "m" / "config.pbtxt") in entry.problem
    assert (entry.config, right.problem) == (None, "")


def test_program_in_place_of_a_picture_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow gives PostScript to another program, which runs the file's commands."""
    script(tmp_path / "bin" / "gs", f"touch {tmp_path / 'it-ran'}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    folder = tmp_path / "samples"
    folder.mkdir()
    put(folder / "x.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    refusal(lambda: samples(folder, shape=(3, 9, 9)))
    refusal(lambda: preprocess(folder / "x.png"))
    assert not (tmp_path / "it-ran").exists()
