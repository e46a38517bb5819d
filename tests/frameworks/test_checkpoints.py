"""Reading PyTorch checkpoints never runs their code."""

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fixtures.errors import InputError
from fixtures.frameworks.pytorch import read_checkpoint

WEIGHTS = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}


def refused(path: Path) -> None:
    with pytest.raises(InputError, check=lambda error: error.where == str(path)):
        read_checkpoint(path)


class Exploit:
    """An object whose pickle runs code when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


class Writer(torch.nn.Module):
    """A network whose __setstate__ makes the file that it names; TorchScript runs it on loading."""

    def __init__(self, proof: str) -> None:
        super().__init__()
        self.proof = proof
        self.made = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.proof, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.proof = state[0]
        self.training = state[1]
        self.made = torch.from_file(state[0], shared=True, size=4)


def script(proof: Path) -> bytes:
    """A TorchScript archive that makes the file `proof` on loading."""
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(Writer(str(proof))), buffer)
    proof.unlink(missing_ok=True)
    torch.jit.load(io.BytesIO(buffer.getvalue()))
    assert proof.exists(), "the archive of this test does nothing"
    proof.unlink()
    return buffer.getvalue()


def in_another_folder(path: Path, proof: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(script(proof))) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            new.writestr("a/" + entry.filename.partition("/")[2], old.read(entry))


def beside_weights(path: Path, proof: Path) -> None:
    torch.save(WEIGHTS, path)
    with zipfile.ZipFile(io.BytesIO(script(proof))) as old, zipfile.ZipFile(path, "a") as new:
        folder = new.namelist()[0].partition("/")[0]
        for entry in old.infolist():
            inner = entry.filename.partition("/")[2]
            if inner.startswith(("constants.pkl", "code/")):
                new.writestr(f"{folder}/{inner}", old.read(entry))


CODE: dict[str, Callable[[Path, Path], object]] = {
    "torch.save": lambda path, proof: torch.save({"a": Exploit(proof)}, path),
    "torch.save before 1.6": lambda path, proof: torch.save(
        {"a": Exploit(proof)}, path, _use_new_zipfile_serialization=False
    ),
    "pickle": lambda path, proof: path.write_bytes(pickle.dumps({"a": Exploit(proof)})),
    "TorchScript": lambda path, proof: path.write_bytes(script(proof)),
    "TorchScript before other bytes": lambda path, proof: path.write_bytes(script(proof) + bytes(64)),
    "TorchScript in another folder": in_another_folder,
    "TorchScript beside weights": beside_weights,
}


@pytest.mark.parametrize("write", CODE.values(), ids=CODE)
def test_code_in_checkpoint_never_runs(write: Callable[[Path, Path], object], tmp_path: Path) -> None:
    write(tmp_path / "x.pt", tmp_path / "it-ran")
    refused(tmp_path / "x.pt")
    assert not (tmp_path / "it-ran").exists()


def cut_short(path: Path) -> None:
    torch.save(WEIGHTS, path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


NO_CHECKPOINT: dict[str, Callable[[Path], object]] = {
    "missing": lambda _path: None,
    "a folder": Path.mkdir,
    "empty": Path.touch,
    "other bytes": lambda path: path.write_bytes(b"\x80\x04damaged"),
    "cut short": cut_short,
    "no weights": lambda path: torch.save({"epoch": 3}, path),
}


@pytest.mark.parametrize("put", NO_CHECKPOINT.values(), ids=NO_CHECKPOINT)
def test_non_checkpoint_is_refused(put: Callable[[Path], object], tmp_path: Path) -> None:
    put(tmp_path / "x.pt")
    refused(tmp_path / "x.pt")


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "before 1.6"])
def test_every_tensor_type_and_view_is_read(legacy: bool, tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    tensors = {
        "transposed": base.t(),
        "a part": base[1:3, ::2],
        "parameter": torch.nn.Parameter(base),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(7),
        **{str(dtype): base.to(dtype) for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.bool)},
    }
    torch.save(tensors, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    read = read_checkpoint(tmp_path / "x.pt")
    assert list(read) == list(tensors)
    for name, value in tensors.items():
        assert torch.equal(read[name], value), name
